# Listings of nodes whose format shows no state, and queues in the order of the configuration.
# start: -s 1
cat >c.toml <<'C'
[resource]
noverify = true
[[resource.config]]
hosts = "n[0-3]"
cores = "0-1"
properties = ["p"]
[[resource.config]]
hosts = "n[0-1]"
properties = ["big"]
[queues.small]
requires = ["p"]
[queues.big]
requires = ["big"]
C
cat >in.sh <<'C'
set -- "$JT"
$JT queue start --all >/dev/null
$JT resource list
$JT resource list -o rlist
$JT resource list -no '{queue} {nodelist}'
$JT resource list -q big -no '{queue} {nodelist}'
$JT resource list -no '{nnodes} {nodelist}'
$JT resource drain 0 broken
$JT resource list -o '{nnodes} {nodelist}'
$JT resource list -no '{state} {nodelist}'
$JT resource status -no '{nnodes} {nodelist}'
$JT resource status -no '{nnodes} {reason}'
$JT resource status -no '{state} {nnodes}'
C
JT=$JT $JT start -s 4 --config-path=c.toml sh in.sh
