# What batch and alloc refuse: the manager's words, and options that only submit has.
#| [queues.batch]
#| [queues.debug]
#| [policy]
#| jobspec.defaults.system.queue = "batch"
#| limits.duration = "1h"
$JT queue disable -q debug >/dev/null
x $JT batch -n1 --urgency=99 --wrap true
x $JT batch -n1 -t 2h --wrap true
x $JT batch -n1 -q nosuch --wrap true
x $JT batch -n1 -q debug --wrap true
x $JT batch -n1 -N1 -t 2h --wrap true
x $JT batch --wrap true
say 'options of tasks'
for c in alloc 'batch --wrap'; do
    for o in --tasks-per-node=2 --cores=2 --tasks-per-core=1 --gpus-per-node=1 --taskmap=block; do
        x $JT $c -n1 $o true
    done
done
x $JT batch -n1 --tasks-per-node=2 nosuch
x $JT batch -n1 nosuch
say 'without a command'
$JT alloc -n1 --bg --dry-run </dev/null | jq -cS .attributes.system.shell.options.pty
$JT alloc -n1 --bg -o pty.capture=0 --dry-run </dev/null | jq -cS .attributes.system.shell.options.pty
$JT alloc -n1 --bg --dry-run true </dev/null | jq -cS .attributes.system.shell.options.pty
