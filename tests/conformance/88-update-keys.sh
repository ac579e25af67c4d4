# update: which attributes, of jobs in which state, and in which words the rest is refused.
# start: -s 1
# cores: 2
#| [queues.one]
#| [queues.two]
#| [policy.jobspec.defaults.system]
#| queue = "one"
$JT queue start -a --quiet
u() { say "$*"; x $JT update "$@"; }
sub a $S -n9 --flags=novalidate --urgency=hold -t 1m true; we $a priority
u $a duration=2m
u $a duration=+1m
u $a duration=-1m
u $a duration=-10m
u $a duration=0
u $a duration=inf
u $a duration=x
u $a duration=
u $a duration
u $a duration=1m queue=two
u $a queue=nosuch
u $a queue=
u $a name=new
u $a job-name=new
u $a attributes.system.job.name=n2
u $a attributes.system.foo=1
u $a attributes.user.x='{"a":1}'
u $a tasks=1
u $a attributes.system.duration='"x"'
u $a attributes.system.duration=33
u -n $a duration=5m
u -v $a duration=6m
u $a bank=x
u $a urgency=3
u $a nosuch=1
u nosuch duration=1m
u 1234 duration=1m
u $a
u
events $a | grep -E 'jobspec-update'
$JT jobs -no '{name} {queue} {duration!F}' $a
sub b $L -t 1m true; we $b start
u $b duration=2m
u $b duration=+30s
u $b queue=two
u $b name=z
u $b duration=0
$JT cancel $a $b; end $a $b
u $a duration=1m
