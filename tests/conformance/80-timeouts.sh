# Raised timeouts, cancellations and time limits: which signal tasks get, and what is told of the end.
# start: -s 1
# cores: 8
T='for s in TERM ALRM INT USR1 HUP; do trap "echo $s; exit 5" $s; done; echo ready; for i in $(seq 300); do sleep 0.1; done'
r() { sub $1 $R --output=$CONF_TMP/$1.out "${@:2}" bash -c "$T"; local -n i=$1; we $i start; n=0; until [ -s $CONF_TMP/$1.out ] || [ $n -gt 200 ]; do sleep 0.05; n=$((n+1)); done; }
f() { local -n i=$1; end $i; grep -v '^\(ready\|Term\|Alarm\|User\|Hang\|Inter\)' $CONF_TMP/$1.out; st $i; ex $i; x $JT job status -v $i; }
r a; x $JT job raise -t timeout $a; f a
r b; x $JT cancel $b; f b
r c; x $JT job raise -t other $c a note; f c
r d -t 3s; f d
r e; $JT job raise -s 3 -t mild $e; x $JT job kill -s HUP $e; f e
sub g $R -t 2s sh -c 'trap "" ALRM; exec sleep 60'; we $g exception; $JT cancel $g; end $g; st $g; ex $g; $JT jobs -no '{returncode} {waitstatus}' $g
for i in $a $b $d $e; do $JT job status -j $i | jq -cS 'del(.t_submit,.t_run,.t_cleanup)'; done
sub h $S true; end $h; $JT job status -j $h | jq -cS '[keys, .result]'
