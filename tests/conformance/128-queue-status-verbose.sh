# queue status -v shows all queues, whichever is named.
#| [queues.a]
#| [queues.b]
x $JT queue stop b
x $JT queue status a
x $JT queue status -v b
x $JT queue status -v -q a
x $JT queue status -v
say 'the end of many dependants'
sub h -q a $S --urgency=hold true; we $h priority
sub d -q a $S --dependency=afterok:$h true
sub e -q a $S --dependency=afterok:$d true
$JT cancel --all >/dev/null 2>&1; we $h clean; we $d clean; we $e clean
# Canceled or failed by their dependency, whichever comes first, and by one of both only.
for i in $h $d $e; do ex $i | wc -l; done
