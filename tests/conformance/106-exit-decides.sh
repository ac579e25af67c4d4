# A task that ends the others: the exception has its status, and the job ends with it.
job() {
    sub A $R "$@"; end $A
    events $A | grep -E '"(exception|finish)"'
    x $JT job status -v $A
    $JT jobs -no '{status} {returncode} {waitstatus} {inactive_reason}' $A
}
say exit-on-error
job -o exit-on-error -n2 sh -c 'test $FLUX_TASK_RANK = 0 && exit 3; sleep 30'
say exit-on-error, killed
job -o exit-on-error -n2 sh -c 'test $FLUX_TASK_RANK = 0 && kill -9 $$; sleep 30'
say exit-timeout, after a failure
job -o exit-timeout=0.2s -n2 sh -c 'test $FLUX_TASK_RANK = 0 && exit 3; sleep 30'
say exit-timeout, after a success
job -o exit-timeout=0.2s -n2 sh -c 'test $FLUX_TASK_RANK = 0 && exit 0; sleep 30'
