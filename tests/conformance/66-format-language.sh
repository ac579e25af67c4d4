# The format language of listings: conversions, widths, alignment, suffixes, prefixes, and its errors.
# start: -s 1
#| [queues.batch]
#| [queues.debug]
#| [policy.jobspec.defaults.system]
#| queue = "batch"
$JT queue start -a --quiet
sub a $S -t 90s --job-name=averylongname true; end $a
sub b $L -t 2h -q debug --job-name=b true; we $b start; till $b RUN
sub c $S --urgency=hold --job-name="it's c" -t 1d true; till $c SCHED
$JT job memo $c note="two words" list='["a",{"b":null}]'; we $c memo
n=0; until [ -n "$($JT jobs -no '{user.list}' $c)" ] || [ $((n++)) -gt 50 ]; do sleep .05; done
for f in '{name:<5.5+}|' '{name:*^20}|' '{name!r}|' '{duration!F:>8}|' '{duration!H}|' '{duration!F:<10h}|' '{duration:010.2f}|' '{duration!P}' '{ntasks:+d}|' \
    '{nodelist:h}|' '{returncode:>3h}|' '{priority:>12,}|' '?:{queue:<8.8} {name}' '+:{name:>3} x' '{result:h}|{state:.3}' '{success}' '{user.note}|{user.list}|{annotations.user}' \
    '{status_emoji}|{state_emoji}' '{t_submit!Q}' '{ntasks:s}' '{name:d}' '{nosuch}' '{id' 'id}'; do
    say "$f"; x $JT jobs -no "$f" $a $b $c
done
x $JT jobs -o 'sort:nosuch {id}' $a
x $JT jobs -no 'sort:-name {name}' $a $b $c
$JT jobs --color=always -no '{name}' $a | od -c | head -3
$JT cancel $b $c
