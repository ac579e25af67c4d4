# job killall and raiseall: dry runs, filters, and what is counted.
# start: -s 1
# cores: 3
sub a $L true; sub b $L true; sub c $L -n9 --flags=novalidate true; sub d $S --urgency=hold true; we $a start; we $b start; we $d priority
k() { say "$*"; x $JT job "$@"; }
k raiseall mytype
k raiseall mytype a message
k raiseall -S running mytype
k raiseall -S pending mytype
k raiseall -S nosuch mytype
k raiseall -u nosuch mytype
k raiseall -s 9 mytype
k raiseall
k killall
k killall -s nosuch
k killall -u nosuch
k killall -u all
k raiseall -f -s 3 -S running note text here
events $a | grep exception; events $d | grep -c exception
k raiseall -f -s 0 mytype
end $a $b $d; st $a $b $d
k raiseall mytype
k killall -f
