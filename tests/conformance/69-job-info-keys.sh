# job info, eventlog and wait-event: keys, paths, formats and messages.
# start: -s 1
cut='s/^[0-9]+\.[0-9]{6} /TIME /;s/"?userid"?[=:][0-9]+/userid=UID/;s/"timestamp":[0-9.]+/"timestamp":T/'
sub a $S -t 1m --job-name=inf true; end $a
for k in jobspec R eventlog J guest.input nosuch; do say "$k"; x $JT job info $a "$k" | sed -E 's/[0-9]{10}\.[0-9]+/TIME/g;s/"userid":[0-9]+/"userid":UID/g' | cut -c1-48 | head -5; done
x $JT job info -o $a jobspec | cut -c1-48
for p in exec output nosuch; do x $JT job eventlog -p $p $a | sed -E "$cut"; done
w() { say "$*"; x $JT job wait-event "$@" | sed -E "$cut"; }
w -v $a depend
w -f json $a priority
w $a nosuch
w -t 0 $a start
w -c 2 $a start
w -c 0 $a start
w -m urgency=17 $a submit
w --match final=true $a release
w -p exec -v $a done
w -p output $a header
w -p nosuch $a header
w 123 start
sub b $S --urgency=hold true; we $b priority
w -t 0.2s $b start
w -Wt 0.2s -p exec $b start
$JT cancel $b; end $b
w -v -m type=cancel $b exception
