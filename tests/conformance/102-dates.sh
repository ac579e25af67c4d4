# Dates in words: begin times and --since.
# start: -s 1
for d in "8:00 tomorrow" "+1h" "now + 1h" "in 2 hours" "2099-01-01 08:00" "noon tomorrow"; do
    say "$d"; sub a $S --begin-time="$d" true
    v=$($JT job info $a jobspec | jq -r '.attributes.system.dependencies[0].value')
    [ "$v" = null ] || { l=$(( ${v%.*} - $(date +%s) )); case $d in *tomorrow|2099*) date -ud "@$v" +%H:%M:%S;; *) echo $(( (l + 30) / 60 )) min;; esac; }
done
for d in nosuch "in"; do say "$d"; x $JT submit --begin-time="$d" $S --urgency=hold true 2>&1 | sed -E 's/^f[1-9A-Za-z]{5,}$/ID/' | grep -v 'no time is given'; done
sub b $S true; end $b
for d in "a year ago" "1 hour ago" "-1h" "last week" "10m ago" "+1h" "in an hour" "tomorrow" "2001-01-01"; do say "$d"; x $JT jobs -f inactive --since="$d" -no '{id.f58} {name}'; done
