# submit --dry-run: the jobspecs of options about output, files, dependencies and limits.
# start: -s 1
d() { say "$*"; $JT submit --dry-run "$@" 2>&1 | jq -cS 'del(.attributes.system.environment,.attributes.system.cwd,.attributes.system.shell.options.rlimit)'; }
$JT submit --dry-run true | cut -c1-40
d --output=none a
d --output='{{id}}.out' --error=kvs a
d -l --output=out --error=err a
d -u a
d --input=in a
d --dependency='string:abc?type=out&value=d' --dependency=singleton a
d --begin-time='2030-01-02 03:04' a
d --signal=USR1@30s a
d -S a=1 -S user.x=y -S .z=1 -S d='{"a":{"b":1}}' -S d.c=2 a
d --requires='host:a,b and not x' a
d --taskmap=cyclic:2 a
echo data >$CONF_TMP/dat; chmod 640 $CONF_TMP/dat
d --add-file=$CONF_TMP/dat a | sed -E 's/"[mca]time":[0-9]+,?//g'
r() { say "$*"; $JT submit --dry-run "$@" | jq -cS '.attributes.system.shell.options.rlimit'; }
r --rlimit=-* --rlimit=nofile=10,core=unlimited a
r --rlimit=-* --rlimit=core=infinity --rlimit=-core a
