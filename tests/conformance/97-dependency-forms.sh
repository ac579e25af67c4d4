# Dependencies: schemes, several of them, chains, and ids in each form.
# start: -s 1
# cores: 8
sub a $L true; we $a start
sub b $S --dependency=after:$a true; end $b; names $b
sub c $S --dependency=afterany:$a --dependency=afterok:$b true; we $c dependency-add -c 1 2>/dev/null; sleep 0.3
events $c | grep dependency
$JT jobs -no '{state} {dependencies}' $c
for e in dec hex dothex kvs f58 f58plain; do say $e; sub d $S --dependency=afterany:"$($JT job id --to=$e $a)" true; events $d | grep dependency-add; done
for d in after:1234 afterok:nosuch after: afterok:$b,$a 'afterok:'$a'?x=1' after afterstart:$a singleton singleton:x begin-time:0 begin-time:x begin-time:-1 ok:x; do say "$(echo $d)"; sub e $S --dependency="$d" true 2>&1 | sed -E 's/f[1-9A-Za-z]{5,}/ID/g'; done
say self; sub f $S --job-name=s --dependency=singleton --urgency=hold true; sub g $S --job-name=s --dependency=singleton true; sub h $S --job-name=other --dependency=singleton true; end $h
$JT jobs -no '{id.f58} {state} {dependencies}' $f $g
$JT cancel $f; end $g; events $g | grep dependency
$JT cancel $a; end $c; names $c; events $c | grep dependency
sub k $S --dependency=afternotok:$b true; end $k; events $k | grep exception
sub l $S --dependency=afterok:$a true; end $l; events $l | grep exception
sub m $S --dependency=afternotok:$a true; end $m; names $m
