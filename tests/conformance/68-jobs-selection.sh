# jobs: filters, counts, sorting, warnings and JSON.
# start: -s 1
#| [queues.batch]
#| [queues.debug]
#| [policy.jobspec.defaults.system]
#| queue = "batch"
$JT queue start -a --quiet
F='{name} {state} {result}'
sub a $S --job-name=a true; end $a
sub b $S -q debug --job-name=b --setattr=system.exec.test.mock_exception=run true; end $b
sub c $L --job-name=c true; we $c start; till $c RUN
sub d $S --job-name=d --urgency=hold true; till $d SCHED
sub e $S --job-name=e --dependency=afterok:$c true; till $e DEPEND
for o in "" "-a" "-q debug" "-a -q nosuch" "-a --name=a" "-f completed" "-f failed,pending" "-f nosuch" "-a -f run" "-a -c 2" "-u nosuchuser" "-u 4242 -a" "--since=-1h" "--since=+1h" "-i 0" "-i 5" "-a --sort=state,-name" "-a --sort=nosuch" "-a --sort="; do
    say "$o"; x $JT jobs -no "$F" $o
done
x $JT jobs -a -no "$F" $d $a
x $JT jobs -no "$F" 123 $a
x $JT jobs 123
x $JT jobs -o "$F" -a -c 1
x $JT jobs -aw 20 -no '{name:>10} {state} {result}'
x $JT jobs --json -f timeout
$JT jobs --json $b | jq -c keys
x $JT jobs --json --stats
x $JT jobs --stats -no '{name}' -q debug
x $JT jobs --stats-only -q batch,debug
x $JT jobs --stats-only -q nosuch
x $JT jobs --stats-only
$JT job list -a | jq -c keys
$JT cancel --all
