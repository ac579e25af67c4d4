# What guests and administrators see where jobs are private.
# start: -s 1
sub a $S true; end $a
$JT config get | jq '.access = {"private-mode": true, "allow-guest-user": true}' >$CONF_TMP/new.json
x $JT config load <$CONF_TMP/new.json
me=$(id -un)
for mask in 0x2 0xa; do
    say $mask
    as() { x env FLUX_HANDLE_USERID=4242 FLUX_HANDLE_ROLEMASK=$mask $JT "$@"; }
    as jobs -ano '{state}' --user=$me
    as jobs -ano '{state}' -A
    as jobs -no '{state}' $a
    as jobs --stats-only
    as job eventlog $a
    as queue stop
done
