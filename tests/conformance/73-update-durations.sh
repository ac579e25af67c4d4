# update: forms of durations, attributes and refusals.
# start: -s 1
sub a $S -t 10m --urgency=hold true; we $a priority
d() { say "$*"; x $JT update "$@"; }
for v in 1h 90 +30s -10m 3h x +x -2h; do d -v $a duration="$v"; done
sub b $L true; we $b start
d $b duration=+1m
d $b duration=-x
d -n $a duration=5m name=x bank=b
d $a name=foo
d $a resources.x=1
d $a queue=q
d 123 duration=1m
events $a | grep update
$JT cancel $a $b; end $a $b
d $a duration=1m
