# Queues with their own defaults and limits, and jobs that name none.
# start: -s 4 --test-hosts=node[0-3]
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "node[0-3]"
#| cores = "0-3"
#| [[resource.config]]
#| hosts = "node[0-1]"
#| properties = ["batch"]
#| [[resource.config]]
#| hosts = "node[2-3]"
#| properties = ["debug"]
#| [policy.jobspec.defaults.system]
#| queue = "batch"
#| duration = "1h"
#| [policy.limits]
#| duration = "2h"
#| job-size.max.nnodes = 2
#| [queues.batch]
#| requires = ["batch"]
#| policy.limits.duration = "4h"
#| policy.limits.job-size.min.nnodes = 1
#| [queues.debug]
#| requires = ["debug"]
#| policy.jobspec.defaults.system.duration = "10m"
#| policy.limits.duration = "30m"
#| policy.limits.job-size.max.ncores = 4
#| policy.limits.job-size.min.ncores = 2
$JT queue start -a --quiet
t() { say "$*"; local o; o=$($JT submit --urgency=hold $S "$@" true 2>&1) && { note $o; $JT jobs -no '{queue} {duration!F}' $o; $JT job info $o jobspec | jq -c .attributes.system.constraints; } || echo "! $o"; }
t -N1
t -N1 -t 3h
t -N1 -t 5h
t -N2
t -N3
t -n9
t -q debug -n2
t -q debug -n1
t -q debug -n5
t -q debug -N1
t -q debug -n2 -t 31m
t -q debug -n2 -t 0
t -q debug -N2
t -q nosuch
t -q debug -n2 --requires=batch
t --requires=debug -N1
t --requires=nosuch -N1
t -q batch -N1 --requires=host:node3
t -q batch -N1 --requires=rank:0
x $JT queue list -n -o "{queuem} {limits.range.nnodes}"
x $JT queue list -q debug -no "{queue}"
x $JT queue list -q nosuch
x $JT queue list -no '{queue}|{queuem}|{submission}|{scheduling}|{enabled}|{started}|{defaults.timelimit}|{limits.timelimit}|{limits.range.nnodes}|{limits.range.ncores}|{limits.range.ngpus}|{limits.min.nnodes}|{limits.max.nnodes}'
x $JT queue list -o '{nosuch}'
x $JT queue status
x $JT queue status -q debug
x $JT queue status -v
x $JT queue disable -q debug
x $JT queue disable -q debug -m closed
t -q debug -n2
x $JT queue enable -q debug
x $JT queue stop -q debug
x $JT queue stop -q debug -m later
x $JT queue status
x $JT queue disable
x $JT queue stop
x $JT queue start nosuch
x $JT queue start -q debug
x $JT queue status -q nosuch
x $JT cancel -q --all
