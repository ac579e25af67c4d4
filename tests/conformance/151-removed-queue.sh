# A pending job waits for its queue, which a new configuration takes away and another one brings back.
# start: -s 1
#| [queues.batch]
#| [queues.debug]
configure() { $JT config get | jq "$1" >$CONF_TMP/new.json; x $JT config load <$CONF_TMP/new.json; }
sub a $S -q debug true
sub b $S -q batch true
till $a SCHED; till $b SCHED
configure 'del(.queues.debug)'
x $JT queue start --all
end $b
$JT jobs -ano '{queue} {state}' | sort
x $JT job urgency $a 20
configure 'del(.queues)'
x $JT queue status
sub c $S true; end $c
$JT jobs -ano '{queue} {state}' | sort
configure '.queues = {"debug": {}}'
x $JT queue status
x $JT queue start debug
end $a
$JT jobs -ano '{queue} {state}' | sort
