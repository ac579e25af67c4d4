# Simulated execution: what of exec.test is refused, and unknown hosts and ranks in constraints.
# start: -s 1
for t in '"x"' 1 '[]' '{"run_duration":1}' '{"wait_status":"1"}' '{"run_duration":"0.01s","wait_status":256}'; do
    say "$t"; sub a --setattr=system.exec.test="$t" sleep 0
    end $a; st $a; ex $a | sed -E 's/(testconf): .*",/\1",/;s/(testconf): [^"]*"/\1"/'
done
for c in host:nosuch hosts:nosuch,$(hostname) hosts:nosuch[1-2] -hosts:nosuch rank:9 ranks:0,9 '@x' 'a|b' 'not x'; do say "${c/$(hostname)/HOST}"; x $JT submit --requires="$c" --urgency=hold $S true | sed -E 's/^f[1-9A-Za-z]{5,}$/ID/'; done
sub b -n3 $R sleep 600; we $b shell.start -Wp exec
x $JT job hostpids --delimiter='\n' $b | sed -E 's/[0-9]+$/PID/'
x $JT job hostpids --delimiter='; ' -r 1 $b | sed -E 's/:[0-9]+/:PID/g'
for v in -v -vv -vvv -q; do x $JT job wait-event $v $b start | sed -E 's/[0-9]{5,}\.[0-9]+/T/;s/resource_summary.*/S/'; done
$JT cancel $b; end $b
x $JT job wait-event -v $b nosuch 2>&1 >/dev/null
for o in "" -u "--input=/dev/null" "--output=x -l"; do x $JT submit --dry-run $o true | jq -cS .attributes.system.shell.options; done
x $JT submit --dry-run --resources-json='[{"type":"slot","count":2,"label":"task","with":[{"type":"core","count":1}]}]' true | jq -cS '.resources, .tasks'
x $JT submit --dry-run --resources-shape='node=2/slot/core=2' true | jq -cS '.resources,.tasks'
