# Dependencies and begin times are added in the order of the command line.
# start: -s 1
sub a $S --urgency=hold true
added() {
    say "${*//$a/J1}"
    sub b "$@" $S true
    we $b validate
    $JT job eventlog --format=json $b | jq -r 'select(.name == "dependency-add") | .context.description' | sed 's/begin-time=.*/begin-time/'
}
added --begin-time=+1h --dependency=afterok:$a
added --dependency=afterok:$a --begin-time=+1h
added --dependency=afterok:$a --begin-time=+1h --dependency=afterany:$a
added --begin-time=+1h --begin-time=+2h
added --dependency=afterok:$a --dependency=begin-time:9999999999 --dependency=afterany:$a
$JT submit --dry-run --begin-time=+1h --dependency=afterok:1 --begin-time=+2h true | jq -c '.attributes.system.dependencies | map(.scheme)'
