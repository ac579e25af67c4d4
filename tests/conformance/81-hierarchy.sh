# Instances within instances: what attributes, variables and listings tell of their places.
# start: -s 1
# cores: 4
export FLUX_URI_RESOLVE_LOCAL=t
cat >$CONF_TMP/in.sh <<'X'
$JT getattr instance-level
$JT getattr jobid-path | grep -o /f | wc -l
$JT getattr parent-kvs-namespace | sed -E 's/[0-9]+/N/'
env | grep -oE '^(FLUX_JOB_ID|FLUX_URI|FLUX_KVS_NAMESPACE|FLUX_JOB_ID_PATH|FLUX_ENCLOSING_ID)=' | sort
$JT run $R bash -c 'env | grep -oE "^(FLUX_JOB_ID|FLUX_URI|FLUX_KVS_NAMESPACE|FLUX_JOB_ID_PATH|FLUX_ENCLOSING_ID)=" | sort; echo "$FLUX_JOB_ID_PATH" | grep -o /f | wc -l; [ "${FLUX_JOB_ID_PATH##*/}" = $FLUX_JOB_ID ] && echo own'
$JT jobs -ano '{instance.stats}|{instance.stats.total}'
X
x $JT getattr jobid-path
x $JT run $R bash -c 'echo "$FLUX_JOB_ID_PATH" | grep -o /f | wc -l; echo "$FLUX_KVS_NAMESPACE" | sed -E "s/[0-9]+/N/"'
x $JT run $R $JT start bash $CONF_TMP/in.sh
x $JT run $R $JT start $JT run $R $JT start bash $CONF_TMP/in.sh
sub a $R --job-name=outer $JT start bash -c "$JT submit --urgency=hold true; $JT run true; $JT run false; $JT submit $L true; exec sleep 60"; we $a memo
n=0; until [ "$($JT jobs -no '{instance.stats.total}' $a)" = 4 -o $n -gt 100 ]; do sleep 0.1; n=$((n+1)); done; sleep 1
sub b $S --urgency=hold true; we $b priority
for f in stats stats.total stats.pending stats.running stats.successful stats.failed stats.canceled stats.timeout stats.inactive stats.active stats.sched stats.run progress resources.all.ncores resources.up.nnodes; do x $JT jobs -o "{instance.$f:>20}|" $a $b; done
$JT cancel --all -q; end $a $b
