# timeleft: of jobs without limit, pending, ended, and from within a job and a nested instance.
# start: -s 1
# cores: 4
sub a $R -t 1h sleep 600; we $a start
x $JT job timeleft $a | sed -E 's/^3(59[0-9]|600)$/3600/'
sub b $R sleep 600; we $b start
x $JT job timeleft $b
x $JT job timeleft -H $b
sub d $S --urgency=hold -t 5m true; we $d priority
x $JT job timeleft $d
x $JT job timeleft -H $d
$JT cancel $a; end $a; x $JT job timeleft $a; x $JT job timeleft -H $a
x $JT job timeleft
x $JT job timeleft $b $b
x $JT job timeleft 1234
x $JT run $R -t 30s bash -c 't=$($JT job timeleft); [ $t -gt 10 -a $t -le 30 ] && echo fine'
x $JT run $R -t 1h $JT start bash -c 't=$($JT job timeleft); [ $t -gt 3500 -a $t -le 3600 ] && echo fine; $JT run $R bash -c "$JT job timeleft" | sed -E "s/^35[0-9][0-9]$/35xx/"'
x $JT run $R -t 1h $JT start bash -c '$JT run $R -t 1m bash -c "$JT job timeleft"' | sed -E 's/^(5[0-9]|60)$/SECS/'
x $JT run $R $JT start bash -c '$JT job timeleft'
$JT cancel $b $d
