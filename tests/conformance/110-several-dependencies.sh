# What is satisfied of several dependencies on one job is removed before the exception for the rest.
for order in "afterok afterany" "afterany afternotok afterok" "afternotok afterok afterany"; do
    for command in true false; do
        sub a $R --urgency=hold $command
        options=
        for scheme in $order; do options="$options --dependency=$scheme:$a"; done
        sub c $S $options true
        $JT job urgency $a default
        $JT job wait-event -t 20 $a clean >/dev/null
        $JT job wait-event -t 20 $c clean >/dev/null
        say "$order $command"
        $JT job eventlog --format=json $c | jq -c '[.name, .context.description, .context.note]' | grep -v 'submit\|dependency-add'
    done
done
say "canceled before it ran"
sub a $R --urgency=hold true
sub c $S --dependency=afterok:$a --dependency=afterany:$a true
$JT cancel $a
$JT job wait-event -t 20 $c clean >/dev/null
$JT job eventlog --format=json $c | jq -c '[.name, .context.description, .context.note]' | grep -v 'submit\|dependency-add'
