# Keys of a job by its namespace, as its tasks and scripts read them.
sub A --wait sh -c 'echo hi'; N=job-$($JT job id --to=dec $A)
sub B sleep 60; $JT job wait-event -p exec $B shell.start >/dev/null; N=$($JT job namespace $B)
$JT kvs ls -1 -N $N | grep -v put; x $JT kvs ls -1 -N $N exec; $JT kvs dir -d -N $N . | grep -v put; x $JT kvs dir -d -R -N $N exec
$JT kvs get -N $N exec.eventlog | head -1 | jq -c .name; $JT kvs eventlog get -N $N exec.eventlog | awk '{print $2}' | head -1
$JT kvs get --waitcreate --namespace=$N output | head -1 | jq -c .name
x $JT kvs get -N $N nosuch; $JT kvs get -N primary resource.R | jq -c '.version'
$JT cancel $B; end $B
$JT run $R sh -c 'echo "$FLUX_KVS_NAMESPACE" | grep -c job-; $JT kvs get --waitcreate exec.eventlog >/dev/null; $JT kvs ls -1 | grep -v put; $JT kvs dir -d | grep -v put; $JT kvs get --waitcreate output | head -1 | jq -c .name; $JT kvs get nosuch 2>&1; $JT kvs get -N primary resource.R | jq -c .version'
