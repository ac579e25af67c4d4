# Exit codes: of run, attach and status, for tasks that exit, are killed, or never start.
# start: -s 1
# cores: 4
r() { say "$*"; x $JT run $R "$@"; }
r true
r false
r sh -c 'exit 3'
r -n3 sh -c 'exit $FLUX_TASK_RANK'
r sh -c 'kill -9 $$'
r sh -c 'kill -TERM $$'
r sh -c 'kill -INT $$'
r -n2 sh -c 'test $FLUX_TASK_RANK = 0 && kill -SEGV $$; exit 3'
r -n3 sh -c 'test $FLUX_TASK_RANK = 2 && exit 200; exit 0'
r sh -c 'echo o; echo e >&2; exit 1'
sub a $R sh -c 'exit 9'; end $a
x $JT job status $a
x $JT job status -v $a
x $JT job status -vv $a
x $JT job status -e 77 $a
sub b $L true; we $b start; $JT cancel $b; end $b
x $JT job status $b
x $JT job status -e 77 $b
x $JT job status $a $b
x $JT job wait-event -q $b finish
x $JT job attach $a
x $JT job attach $b
sub c --wait -n2 $R sh -c 'exit 2'
x $JT submit --quiet --watch $R sh -c 'exit 4'
x $JT submit --quiet --wait $R false
x $JT submit --quiet --wait --cc=1-2 $R sh -c 'exit {cc}'
