# start: -s 4 --test-hosts=node[0-3]
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "node[0-3]"
#| cores = "0-3"
#| [[resource.config]]
#| hosts = "node[0-1]"
#| properties = ["a", "b"]
r() { say "$*"; x $JT resource "$@"; }
sub j $L -N1 true; we $j start
r list -no '{state} {nnodes} {ncores} {ngpus} {nodelist} {ranks} {properties} {rlist}'
r list -s all -o '{state:>10} {nnodes!d}'
r list -s up,down -no '{state} {nnodes}'
r list -s allocated,free -o ranks
r list -o nosuch
r list -i node0 -no '{state} {nodelist}'
r list -i node[0-9]
r list -i 7
r status -no '{state} {nnodes} {ranks} {reason}'
r status -s avail,drain -o '{state} {up} {status} {nodelist}'
r info -s free
r info -s allocated
r info -i 0-1
r R -s free | jq -c '.execution.R_lite,.execution.properties'
r R -i node3 | jq -c .execution.nodelist
r drain 3 bad disk
r drain 3 other
r drain 3
r status -no '{state} {ranks} {reason}'
r list -s down -no '{ranks}'
r undrain 3
r undrain 3
r undrain 9
r undrain node[0-1]
r acquire-mute 2>&1 | tail -1 | grep -c .
r
r nosuch
$JT cancel $j
