# attach and run until an event: the output is printed to its end, and without a finish event the exit code is 1.
x $JT run $R --wait-event=start sh -c 'echo out; sleep 0.3; exit 3'
x $JT run $R --wait-event=alloc sleep 0.2
x $JT run $R --wait-event=finish sh -c 'echo out; exit 3'
x $JT run $R --wait-event=nope sh -c 'echo out; exit 3'
sub A $R sh -c 'echo a; exit 3'; end $A
for e in submit alloc start finish release clean; do say $e; x $JT job attach -w $e $A; done
sub B $S true; end $B
x $JT job attach -w start $B
sub C $S --setattr=.foo=1 true
sub C $S --setattr=.user.foo=1 --setattr=foo=1 true; end $C; st $C
x $JT update $C duration
x $JT jobs -no '{ntasks:q}' $C
x $JT jobs -no '{name:y}' $C
x $JT jobs -n --count=-1
x $JT jobs -n --since=nope
x $JT submit --cc=1- true
x $JT submit --signal=0@1 true
x $JT job taskmap nonsense
