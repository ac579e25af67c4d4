# The logs and keys of a finished job: forms, times, matches and what is missing.
# start: -s 1
# cores: 4
sub a $R --job-name=x sh -c 'echo out; echo err >&2; exit 1'; end $a
x $JT job eventlog -p exec --format=json $a | sed '$d' | jq -r .name
x $JT job eventlog -p output --format=json $a | sed '$d' | jq -r .name | sort
x $JT job eventlog -p output --format=json $a | sed '$d' | jq -cS 'select(.name=="data") | .context' | sort
x $JT job eventlog -p nosuch $a
x $JT job info $a guest.exec.eventlog | head -1 | jq -r .name
x $JT job info $a nosuch
x $JT job info $a R | jq -cS '.execution | del(.starttime,.expiration,.nodelist)'
x $JT job info $a jobspec | jq -cS '.attributes.system | del(.cwd,.shell.options.rlimit)'
x $JT job info -o $a jobspec | jq -c '.attributes.system.environment | type'
x $JT job info -b $a jobspec | jq -cS '.attributes.system | keys'
x $JT job info $a
x $JT job namespace $a
x $JT job eventlog -T nosuch $a
x $JT job eventlog -f nosuch $a
x $JT job wait-event -f json $a clean | jq -c keys
x $JT job wait-event -T offset $a submit | sed -E 's/userid.*//'
x $JT job wait-event -c 2 $a submit
x $JT job wait-event -m status=256 $a finish | awk '{print $2,$3}'
x $JT job wait-event -m status=1 $a finish
x $JT job wait-event -m nosuch $a finish
x $JT job wait-event -p exec $a done | awk '{print $2}'
x $JT job wait-event -p guest.nosuch $a done
x $JT job wait-event -t 0.1 1234 x
