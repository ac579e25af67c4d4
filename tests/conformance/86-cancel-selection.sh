# cancel: several jobs, states, messages and dry runs.
# start: -s 1
# cores: 2
n() { local v; for v in "$@"; do sub $v $L --job-name=$v true; done; }
n a b c d e; we $a start; we $b start; we $e priority
x $JT cancel -n --all
x $JT cancel -n -S pending --all
x $JT cancel -n -S running --all
x $JT cancel -n -S sched --all
x $JT cancel -n -S nosuch --all
x $JT cancel -n --user=nosuch --all
x $JT cancel -n --user=all --all
x $JT cancel --all $a
x $JT cancel
x $JT cancel -S running
x $JT cancel -n $a $b
x $JT cancel -m "two of them" $a $b; end $a $b; ex $a; ex $b
x $JT cancel $a
x $JT cancel nosuch
x $JT cancel 1234
x $JT cancel $c 1234; end $c
x $JT cancel -q --all; end $d $e
x $JT cancel --all
x $JT cancel -q --all
x $JT job raise --severity=7 $d
x $JT job raise --severity=8 $d
x $JT job kill $d
x $JT job kill -s nosuch $d
x $JT job urgency $d 1
x $JT update $d duration=1m
