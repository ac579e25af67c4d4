# All attributes of jobs in the states and with the results that they can have.
l() {
    until $JT job list-ids $1 2>/dev/null | jq -e "$2" >/dev/null; do sleep 0.05; done
    $JT job list-ids $1 | jq -cS 'del(.cwd) | with_entries(if (.key | startswith("t_")) or .key == "expiration" then .value = "T" elif .key == "id" or .key == "userid" then .value = "N" else . end)'
}
done='.state == 64'
sub A --urgency=hold --job-name=a true; sub B --job-name=b --dependency=afterok:$A --dependency=afterany:$A true
l $A '.state == 8'; l $B '.dependencies | length == 2' | sed 's/=[0-9]*"/=ID"/g'
$JT cancel $A; end $B; l $A "$done"; l $B "$done" | sed 's/=[0-9]*"/=ID"/g'
sub A -N1 -t 1m --bank=mine --job-name=n -S project=pp --setattr=user.foo=1 sh -c 'sleep 60'; we $A start; l $A '.state == 16'
$JT job memo $A a=b c.d=1; $JT job raise -s 3 -t foo -m note $A; l $A .annotations.user
$JT cancel -m "why not" $A; end $A; l $A "$done"
for c in nosuchcmd 'sh -c "exit 3"' 'sh -c "kill -9 \$\$"' '-t 0.5s sleep 60' '-n100 true'; do eval sub A $c; end $A; l $A "$done"; done
