# Real-time signals, and numbers above all signals.
t() { $JT jobs -no '{status} {returncode} {inactive_reason}' "$1"; }
for s in 34 50 64; do sub A sleep 60; $JT job wait-event -p exec $A shell.start >/dev/null; x $JT job kill -s $s $A; we $A clean; t $A; done
sub A sleep 60; $JT job wait-event -p exec $A shell.start >/dev/null
for s in 65 99 0 -1 foo; do x $JT job kill -s $s $A; done
x $JT job killall -s 65; x $JT job killall -s foo; t $A
x $JT job kill -s 40 $A; we $A clean; t $A
for s in 34 64 SIGRTMIN RTMAX; do sub A --signal=$s@1 -t 2s sleep 60; we $A clean; t $A; $JT job info $A jobspec | jq -c .attributes.system.shell.options.signal; done
x $JT submit --signal=SIGRTMIN+1 true; x $JT submit --signal=foo true
