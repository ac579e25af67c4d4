# memo: nested keys, types, removal, and what listings show of them.
# start: -s 1
sub a $L --setattr=user.k=v true; we $a start
m() { say "$*"; x $JT job memo "$@"; }
m $a a=1
m $a b=two
m $a c.d=3 c.e='"x"'
m $a 'f=[1,2]'
m $a 'g={"h":1}'
m $a a=null
m $a a
m $a
m nosuch a=1
m 1234 a=1
m --volatile $a v=1
events $a | grep memo
x $JT jobs -no '{user}' $a
x $JT jobs -no '{user.c.d} {user.b} {user.nosuch} {user.f} {user.g} {annotations.user.c.e}' $a
x $JT jobs -no '{annotations.sched.nosuch}|{sched.nosuch}' $a
x $JT job list | jq -cS .annotations.user
$JT cancel $a; end $a
m $a late=1
x $JT jobs -no '{user.b}' $a
