# What the validators and frobnicators refuse, with their error numbers.
# start: -s 1
#| [policy.jobspec.defaults.system]
#| duration = "5m"
#| [policy.limits]
#| duration = "10m"
#| job-size.max.ncores = 2
#| [ingest.validator]
#| plugins = ["jobspec", "feasibility"]
t() { say "$*"; x $JT submit --urgency=hold $S "$@" true | sed -E 's/^f[1-9A-Za-z]+$/ID/'; }
t
t -t 11m
t -n 3
t -N 2
t -g 1
t -n 99
t --requires=a
t --requires=rank:4
t -q nosuch
t --flags=novalidate -n 99
x $JT R encode --hosts='a[0-1]' --cores=0-3
$JT R encode -r 0-3 -c 0-1 -H 'n[0-3]' -p x:1-2 >$CONF_TMP/r
x $JT R decode --include=1 <$CONF_TMP/r
x $JT R decode --short <$CONF_TMP/r
x $JT R set-property y:0 z:0-3 <$CONF_TMP/r
x $JT hostlist -n 9 'a[1-3]'
x $JT hostlist -F zz 'a[1-3]'
x $JT hostlist 'a['
x $JT config get -t fsd-real policy.limits.duration
x $JT getattr nosuch
x $JT setattr rank 5
x $JT module stats nosuch
x $JT pstree --details=nosuch
x $JT uri nosuch
