# resource: lists by queue and by node, and reasons of drained nodes.
# start: -s 4 --test-hosts=node[0-3]
#| [resource]
#| noverify = true
#| exclude = "node3"
#| [[resource.config]]
#| hosts = "node[0-3]"
#| cores = "0-3"
#| gpus = "0"
#| [[resource.config]]
#| hosts = "node[0-1]"
#| properties = ["batch"]
#| [[resource.config]]
#| hosts = "node[2-3]"
#| properties = ["debug", "fast"]
#| [queues.batch]
#| requires = ["batch"]
#| [queues.debug]
#| requires = ["debug"]
r() { say "$*"; x $JT resource "$@" | sed -E 's/^[A-Z][a-z]{2}[0-9]{2} [0-9]{2}:[0-9]{2} /DATE /'; }
r list
r list -q batch
r list -i node[0-1]
r list -i 0 --no-skip-empty
r list -i nosuch
r list --skip-empty
r list -no '{state}|{properties}|{propertiesx}|{queue}|{nnodes}|{ncores}|{ngpus}|{ranks}|{nodelist}'
r list -q nosuch
r list -s nosuch
r info
r info -i 0
r info -i node9
r R -i 0 | jq -c .execution.R_lite
$JT resource R | cut -c1-24
r status -q debug
r status -s exclude
r drain 0 two words
r drain node1
r drain 1 now a reason
r drain 0-1 another
r drain -u 1 another
r drain -f 1 forced
r drain -fu 1 x
r drain 3
r drain ""
r drain nosuch
r drain
r drain -no '{ranks} {state} {reason}'
r undrain 2
r undrain 0-1
r undrain -f 0
