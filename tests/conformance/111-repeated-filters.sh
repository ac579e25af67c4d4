# Options of jobs that can be repeated, abbreviations that are refused, and empty selections.
sub A --job-name=ended $S true
$JT job wait-event -t 20 $A clean >/dev/null
sub B --job-name=held --urgency=hold $S true
sub C --job-name=runs $L true
$JT job wait-event -t 20 $C start >/dev/null
x $JT jobs -no '{name}' -f pending -f running --sort=name
x $JT jobs -no '{name}' -f inactive -f pending --sort=name
x $JT jobs -no '{name}' -f R
x $JT jobs -no '{name}' -f cd
x $JT jobs -ano '{name}' --name= --sort=name
x $JT jobs -no '{name}' -i '' --sort=name
x $JT cancel --all -S ''
say "reasons of drained nodes"
x $JT resource drain 0 a reason
$JT resource drain -no '{reason}'
x $JT resource drain -u 0 other
x $JT resource undrain 0
$JT kvs get resource.eventlog | jq -c 'select(.name|test("drain")) | [.name, .context.idset, .context.reason, .context.overwrite]' 
say "shell options from files"
echo '[1,{"b":null}]' >$CONF_TMP/value
$JT submit --dry-run -o ^a.k=$CONF_TMP/value true | jq -c .attributes.system.shell.options.a
x $JT submit --dry-run -o ^a=/nonexistent true
say "a signal longer than the job"
$JT run $R --signal=USR1@10m -t 5m sleep 20 2>/dev/null; echo "rc=$?"
say "canceled before a client starts it"
sub D --setattr=system.exec.test.override=1 true
$JT cancel $C; $JT job wait-event -t 20 $D alloc >/dev/null
$JT cancel $D; $JT job wait-event -t 20 $D clean >/dev/null
$JT job eventlog --format=json $D | jq -c '[.name, .context.status]' | tail -6
