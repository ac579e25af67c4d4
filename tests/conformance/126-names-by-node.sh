# Names of output files by node, and by the job's id in each encoding.
# start: -s 2 --test-hosts=a,b
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "a,b"
#| cores = "0-1"
cd $CONF_TMP
files() { grep -H . "$@" | sort; }
sub a $R -N2 -n4 --output='o-{{node.id}}' sh -c 'echo $FLUX_TASK_RANK'; we $a clean
files o-*
sub a $R -N2 -n2 --output='n-{{node.name}}' --error='e-{{node.id}}' sh -c 'echo out $FLUX_TASK_RANK; echo err $FLUX_TASK_RANK >&2'; we $a clean
files n-* e-*
sub a $R -N2 -n2 --output='b-{{node.id}}-{{task.rank}}' echo hi; we $a clean
files b-*
x $JT run $R -N2 -n2 --label-io sh -c 'echo {{node.id}} {{node.name}}' | sort
sub a $R -N1 --requires=host:b --output='h-{{node.name}}' echo hi; we $a clean
files h-*
for e in dec hex f58plain words kvs dothex; do
    sub a $R --output="q-{{jobid.$e}}" echo hi; we $a clean
    [ -e "q-$($JT job id --to=$e $a)" ] && echo "$e: ok"
done
