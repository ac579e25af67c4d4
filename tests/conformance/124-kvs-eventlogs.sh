# kvs eventlog: the events at any key, and the wait for one of them.
sub a $S true; we $a clean
k=$($JT job id --to=kvs $a)
x $JT kvs eventlog get $k.eventlog | sed -E 's/[0-9]+\.[0-9]+/T/g' | head -3
x $JT kvs eventlog get -u $k.eventlog | sed -E 's/[0-9]+\.[0-9]{3,}/T/g;s/"userid":[0-9]+/"userid":UID/' | head -3
x $JT kvs eventlog get --human --color=never $k.eventlog | sed -E 's/\[[^]]*\]/[T]/' | head -3
x $JT kvs eventlog get -w -c 2 $k.eventlog | sed -E 's/[0-9]+\.[0-9]+/T/g'
x $JT kvs eventlog get
x $JT kvs eventlog get a b
x $JT kvs eventlog nosuch
say wait-event
x $JT kvs eventlog wait-event $k.eventlog alloc | sed -E 's/[0-9]+\.[0-9]+/T/g'
x $JT kvs eventlog wait-event -q $k.eventlog alloc
x $JT kvs eventlog wait-event -v $k.eventlog depend | sed -E 's/[0-9]+\.[0-9]+/T/g'
x $JT kvs eventlog wait-event -u $k.eventlog start | sed -E 's/[0-9]+\.[0-9]+/T/g'
x $JT kvs eventlog wait-event -t 0.2 $k.eventlog nosuch
x $JT kvs eventlog wait-event -t 0.2 nosuch nosuch
x $JT kvs eventlog wait-event -W -t 0.2 nosuch nosuch
say 'an event that comes later'
sub p $S --urgency=hold true; we $p depend
k=$($JT job id --to=kvs $p)
x $JT kvs eventlog wait-event -q -t 20 $k.eventlog clean &
$JT job urgency $p default
wait
