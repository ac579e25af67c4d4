# start: -s 5 --test-hosts=n[0-4]
# 113-drain-reasons: all words after the targets are the reason, and what the events of drain and undrain tell
#| [[resource.config]]
#| hosts = "n[0-4]"
#| cores = "0-3"
#| [resource]
#| noverify = true
r() { say "$*"; x $JT resource "$@"; }
drained() { $JT resource drain -no '{nodelist} {state} {reason}'; }
event() { $JT resource eventlog -f json | jq -cS '[.name, (.context | del(.userid?))]' | grep drain | tail -1; }

r drain 0 -f bad disk; event
r drain 1-2 -u mixed; event
r drain 1 --update again
r drain -f 1 -n x; event
r drain 3 -- b -- c; event
r drain -- 4 d -- e; event
drained
r drain -u 0-1 other; event
r drain -f -u 1 x

r undrain 0 -f; event
r undrain 0
r undrain -f 0-1 why -u; event
r undrain -ff 0; event
r undrain -u 0-2; event
r undrain -fu 3
r undrain
drained

r info -s ""
r list -i 'n['
r status --color=always -no '{state:>10} {color_up}{up.ascii:>2}{color_off} {nnodes:>3}'
r status --color=never -no '{state:>10}: {color_up}{up.ascii:>2} {color_off}{nnodes:>3}'
