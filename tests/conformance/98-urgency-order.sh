# urgency: holds, expedites, refusals, and the order in which jobs start.
# start: -s 1
# cores: 1
$JT queue stop --quiet
for u in 0 1 5 15 16 20 31 hold expedite default; do sub v $S --urgency=$u --job-name=u$u true; done
for u in -1 32; do say "[$u]"; sub w $S --urgency="$u" true; done
x $JT jobs -no '{name} {urgency} {priority}' --sort=-priority,t_submit
a=$($JT jobs -no '{id.f58}' --name=u5)
j() { say "$*"; x $JT job urgency "$@"; }
j $a 7
j -v $a 8
j $a hold
j -v $a expedite
j $a default
j $a 32
j $a
j nosuch 5
j 1234 5
$JT job urgency $($JT jobs -no '{id.f58}' --name=u0) 2
events $a | grep urgency
$JT queue start --quiet
$JT queue drain -t 20 2>&1 || $JT jobs -no '{name} {state}' --sort=name
$JT jobs -a -no '{name}' --sort=t_run -f inactive 2>/dev/null
$JT cancel --all -q
