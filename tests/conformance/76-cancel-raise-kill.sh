# cancel, raise, kill and their summaries.
# start: -s 1
sub a $S --urgency=hold true; sub b $S --urgency=hold true; sub c $L true; sub d $R sleep 600
we $a priority; we $b priority; we $c start; we $d start
for i in $a $b; do till $i SCHED; done; for i in $c $d; do till $i RUN; done
c() { say "$*"; x $JT "$@"; }
c cancel -n $a
c cancel -n $a $b
c cancel -nS pending
c cancel -nqS pending
c cancel -nqu 4242
c cancel -nu 4242
c cancel -n --all $a
c cancel $a 123
c job raise -s 7 -t foo $c a message of words
c job raise -s 7 $c -- 123
c job raise -s 5 $c $d both
c job raise -m note $c more
c job raise -s 8 $c
ex $c
c job kill -s nosuch $d
c job kill -s 0 $d
c job kill -s 99 $d
c job kill -s CONT $d
c job kill $b 123
c pkill -a nosuch
c cancel -q --all
end $b $c $d
sub p $S --job-name=purple true; end $p
c pkill -a purple
c job status -v $d $b
c job status -vv $d
