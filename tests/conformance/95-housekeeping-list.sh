# Housekeeping: its events, lists, and what holds resources.
# start: -s 2 --test-hosts=a,b
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "a,b"
#| cores = "0-1"
#| [job-manager.housekeeping]
#| command = ["sleep", "2"]
#| release-after = "1s"
sub a $S -N2 true; we $a clean
names $a
x $JT resource list -no '{state} {nnodes}' 
x $JT housekeeping kill -j nosuch
x $JT housekeeping kill -j 1234
x $JT housekeeping kill
x $JT housekeeping kill --all
n=0; while [ -n "$($JT housekeeping list -no '{id}')" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
x $JT housekeeping list
x $JT resource list -s free -no '{nnodes}'
