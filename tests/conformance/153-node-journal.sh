# The events of some nodes, and a journal that is full.
# start: -s 4 --test-hosts=n[0-3]
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "n[0-3]"
#| cores = "0-1"
e() { say "$*"; x $JT resource eventlog "$@" | sed -E 's/^[0-9]+\.[0-9]+ ?/T /;s/ userid=[0-9]+//' | grep -v ' online '; }
bound() { $JT config get | jq ".resource.\"journal-max\" = $1" >$CONF_TMP/new.json; x $JT config load <$CONF_TMP/new.json; }
$JT resource drain 0 foo
$JT resource drain 2 bar
$JT resource undrain 0
e
e --include=0
e --include=n[1-2]
e -i 3
e -i nosuch
e -i n0,nosuch,other
e -i ''
x $JT resource eventlog -i 7 2>/dev/null | tail -1
for max in 3 1; do bound $max; e; done
bound 5
$JT resource drain 1 new; $JT resource undrain 1
e
$JT config get | jq '.resource."journal-max" = "x"' >$CONF_TMP/new.json
$JT config load <$CONF_TMP/new.json 2>/dev/null || echo refused
