# Queues that share nodes have one order of priority, also when all are started at once.
# start: -s 1
# cores: 2
#| [queues.batch]
#| [queues.debug]
for queue in batch debug; do for urgency in 16 17 18; do sub id $L -q $queue --urgency=$urgency true; done; done
x $JT queue start --all | sort
for id in $(cat $CONF_TMP/ids); do
    [ "$($JT jobs -no '{urgency}' $id)" = 18 ] && till $id RUN
done
$JT jobs -no '{queue} {urgency} {state}' | sort
