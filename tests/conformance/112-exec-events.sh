# 112-exec-events: events of the execution that submit shows and waits for, and events that never come
# The two events exec.starting and exec.shell.init come in either order.
shown() { grep -v " exec.starting " | sed -E 's/f[0-9A-Za-z]{5,}/ID/g;s/[0-9.]+s:/Ts:/;s/0-shell-[^"]*/SHELL/;s/"pid":[0-9]+/"pid":PID/'; }

say "up to the event that is waited for"
for e in exec.init exec.shell.init exec.done start; do x $JT submit $R --wait-event=$e --quiet -vv true | shown; done

say "the output begins with the shell"
x $JT submit $R --watch --quiet -vv sh -c 'echo hi; exit 3' | shown
x $JT submit $R --watch --wait-event=exec.shell.start --quiet -vv sh -c 'echo hi; exit 3' | shown
x $JT submit $R --wait --quiet -vv true | shown

say "never received"
for e in nope exec.nope; do for c in true false; do x $JT submit $R --quiet -v --wait-event=$e $c | shown; done; done
x $JT submit $S --quiet -vv --wait-event=exec.nope true | shown

say "a program that doesn't exist"
x $JT submit $R --wait-event=exec.shell.start --quiet -vv /nonexistent | shown

say "canceled before the start"
(sleep 1; $JT cancel "$($JT job last)") &
x $JT submit $R --urgency=hold --quiet -vv --wait-event=exec.init true | shown
