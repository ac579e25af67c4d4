# job list for all jobs, human-readable eventlogs, and the logs of a job that never started.
# start: -s 1
sub done $S --job-name=done true; end $done
sub held $S --job-name=held --urgency=hold true; we $held priority; till $held SCHED
for o in "" -a "-a -s inactive" "-A" "-A -s pending" "-s inactive" "--all" "--all-user" "--all -u 4242" "-a -c 1"; do
    say "$o"; $JT job list $o | jq -r .name
done
say "human"
$JT job eventlog -H -f json $done | head -1 | sed 's/^[^]]*] *//' | sed 's/userid=[0-9]*/userid=UID/'
$JT job eventlog -H -f json $done | grep -c '^{'
say "never started"
$JT cancel $held; end $held
for p in exec output guest.exec.eventlog guest.output nosuch; do x $JT job wait-event -p $p $held data; done
