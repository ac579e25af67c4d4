# taskmap, timeleft, hostpids and job ids: forms and messages.
# start: -s 4 --test-hosts=node[0-3]
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "node[0-3]"
#| cores = "0-3"
i() { say "$*"; x $JT job "$@"; }
for m in '[[0,2,2,2]]' '0-3;4-7'; do
    for o in raw pmi multiline hosts nosuch; do i taskmap --to=$o "$m"; done
    for o in --taskids=1 --taskids=9 --ntasks=1 --nodeid=3 --nodeid=99 --hostname=1 "--ntasks=0 --nodeid=1"; do i taskmap $o "$m"; done
done
i taskmap '[[0,4,4,-1]]'
sub a -N2 -n4 $R sleep 600; we $a start; we $a shell.start -Wp exec
for o in "" --to=raw --to=hosts --taskids=1 --hostname=3; do i taskmap $o $a; done
i timeleft $a
sub b $S --urgency=hold true; we $b priority
i timeleft $b
i timeleft 123
i timeleft nosuch
i hostpids -r 9 $a
i hostpids -r x $a
i hostpids -t 0.1 $b
i namespace x
i id x
$JT cancel $a $b; end $a
i timeleft $a
i hostpids $a
