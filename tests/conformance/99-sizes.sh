# Jobs that do not fit now or ever, and those that fit beside them.
# start: -s 2 --test-hosts=a,b
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "a,b"
#| cores = "0-3"
#| gpus = "0-1"
f() { say "$*"; sub v $L "$@" true; [ -n "$v" ] || return; we $v priority; n=0; while s=$($JT jobs -no '{state}' $v); [ "$s" = PRIORITY -o "$s" = DEPEND ]; do sleep 0.05; done; sleep 0.2; $JT jobs -no '{state} {nnodes} {ncores} {ntasks} {nodelist} {ranks}' $v; ex $v; $JT job info $v R 2>/dev/null | jq -c .execution.R_lite; $JT cancel -q $v; we $v clean; }
f -n1
f -n4
f -n5
f -N2
f -N3
f -N1 -n1 -c4
f -N2 -n4
f -N1 -x
f -N2 -n2 -x
f -n2 -g1
f -n5 -g1
f -g3
f -n1 -c5
f -N2 --cores=3
f --cores=8
f --cores=9
f --tasks-per-core=2 --cores=2
f --tasks-per-node=2 -N2
f --gpus-per-node=1 -N2
f --requires=host:b
f --requires=rank:0 -n5
f --requires='host:a|host:b' -N2
f --requires='host:a and rank:1'
