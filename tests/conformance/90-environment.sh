# The environment of tasks: which variables a job has, and how they can be chosen.
# start: -s 2 --test-hosts=a,b
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "a,b"
#| cores = "0-3"
export FOO=foo BAR=bar BAZ=baz
e() { say "$*"; x $JT run $R "$@" sh -c 'env | grep -E "^(FOO|BAR|BAZ|NEW|[A-Z]*2)=" | sort'; }
e
e --env=-BAR
e --env='-B*'
e --env=-* --env=FOO
e --env=NEW=1 --env='FOO=${BAR}x$BAZ'
e --env='FOO=$NOSUCH'
e --env='NOSUCH'
e --env='B*'
e --env=-* --env='/^BA[RZ]$/'
printf '# comment\nNEW=file\n-BAR\nFOO=$BAZ\n' >$CONF_TMP/env
e --env=^$CONF_TMP/env
e --env-file=$CONF_TMP/env --env-remove=BAZ
e --env=^/nosuch
e --env=FOO=1 --env=-FOO
e --env=NEW='a
b'
say tasks
x $JT run $R -n4 -l sh -c 'env | grep -E "^FLUX_(TASK|JOB)_" | grep -v "ID=f\|PATH\|TMPDIR" | sort | paste -sd" "' | sort
x $JT run $R -N2 -n2 -l sh -c 'echo $FLUX_TASK_LOCAL_ID $FLUX_JOB_NNODES $FLUX_JOB_SIZE' | sort
x $JT run $R sh -c 'test -d $FLUX_JOB_TMPDIR && test -w $FLUX_JOB_TMPDIR && pwd' | sed "s,$CONF_TMP,TMP,"
x $JT run $R --cwd=/ pwd
x $JT run $R --cwd=/nosuch pwd 2>&1 | head -1 | grep -c .
x $JT run $R sh -c 'umask; ulimit -n' | head -1
x $JT run $R --rlimit=nofile=100 sh -c 'ulimit -Sn'
x $JT run $R --rlimit=core=0 --rlimit=stack=unlimited sh -c 'ulimit -c; ulimit -s'
x $JT run $R -o nosuch.option=1 true
x $JT run $R -c2 -o env-expand.X='{{id}}' sh -c 'test "$X" = $FLUX_JOB_ID && echo same'
x $JT run $R --env=X='{{size}}-{{nnodes}}-{{name}}-{{tmpdir}}' sh -c 'echo $X' | sed -E 's,/.*,DIR,'
x $JT run $R -n2 --env=X='{{taskid}}' -l sh -c 'echo $X' | sort
