# The order of members in JSON that is not sorted: jobspec, R, job list, jobs --json.
T='s/"id": ?[0-9]+/"id":I/;s/("runtime": ?)[0-9.e-]+/\1R/;s/[0-9]{10}(\.[0-9]+)?/T/g'
sub a $S -n2 -t 10m --job-name=n --setattr=x.y=1 true; end $a
sub f --setattr=system.exec.test.mock_exception=run --setattr=system.exec.test.run_duration=0.01s true; end $f
sub h --urgency=hold true; we $h priority; $JT job memo $h x=1
sub d --dependency=afterok:$h --dependency=begin-time:2056605967 true; we $d dependency-add
say 'R and jobspec'
$JT job info $a R | sed -E "$T"
$JT job info $a jobspec | jq -c '.attributes.system|del(.environment)|keys_unsorted'
$JT job info $a jobspec | jq -c '.attributes.system.shell.options.rlimit|keys_unsorted'
say 'lists of jobs'
for j in $a $f $h $d; do $JT job list-ids $j | sed -E "$T"; done
for j in $a $f $h $d; do $JT jobs --json $j | sed -E "$T"; done
$JT jobs -a --json --sort=name | jq -c '[.jobs[].name]' | tr -d '\n' | wc -c
say 'dry runs'
keys() { jq -c '.attributes.system|keys_unsorted'; }
$JT submit --dry-run -t 5 --job-name=x -q q --bank=b -n2 --output=o --dependency=afterok:1 --requires=p --setattr=a=1 --add-file=/etc/hostname true | keys
$JT submit --dry-run -t 5 --job-name=x -q q --dependency=afterok:1 true | keys
$JT submit --dry-run -n2 --input=/dev/null --signal=10 -o verbose --taskmap=block true | jq -c '.attributes.system.shell.options|keys_unsorted'
$JT bulksubmit --dry-run --env=X={} --output={}.out --urgency={} --job-name={} -t {} -q {} cmd ::: 1 | sed "s/\[.*\]/LIST/;s/--env=X=1/--env=LIST/"
$JT bulksubmit --dry-run --bcc=1-2 echo {} ::: 1
