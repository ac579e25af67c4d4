# queue: reasons, also empty ones, in each command that takes or shows them.
# start: -s 1
#| [queues.batch]
#| [queues.debug]
q() { say "$*"; x $JT queue "$@" | sort; }
q start --all
q stop -m why batch
q stop -m "" batch
q stop --nocheckpoint -m y debug
q stop
q disable -m "" batch
q disable -m closed -v debug
x $JT submit -q debug true
q status
q status debug
q enable -a --quiet
q status nosuch
q start -q batch debug
q list -no '{queuem}|{submission}|{scheduling}'
q list -q batch,debug -no '{queue}'
q list -q nosuch
sub a $S -q batch --urgency=hold true; we $a priority
q idle -t 0.1s
q drain -t 0.1s
FLUX_HANDLE_USERID=4242 FLUX_HANDLE_ROLEMASK=0x2 q stop -a
$JT cancel $a
