# How the ends of jobs are told: reasons, exit codes, tasks that end the others, and refused bypasses.
# start: -s 1
R1='{result}|{inactive_reason}|{returncode}|{waitstatus}'
sub a $L true; we $a start; $JT job raise -t myfatal $a; end $a; $JT jobs -no "$R1" $a
sub b $S --urgency=hold true; we $b priority; $JT job raise -t other $b a note; end $b; $JT jobs -no "$R1" $b
sub c $R sh -c 'exit 200'; end $c; $JT jobs -no "$R1" $c
sub d $R sh -c 'kill -9 $$'; end $d; $JT jobs -no "$R1" $d
sub e $R -n2 -o exit-on-error sh -c '[ $FLUX_TASK_RANK = 0 ] && exit 3; sleep 60'; end $e
events $e | grep -E 'exception|finish'; $JT jobs -no "$R1" $e
sub f $R -n2 -o exit-timeout=0.2s sh -c '[ $FLUX_TASK_RANK = 0 ] && exit 4; sleep 60'; end $f
events $f | grep -E 'exception|finish'; $JT jobs -no "$R1" $f
x $JT job status -vv $a $b $c $d
x $JT jobtap load alloc-bypass.so
sub g $S --setattr=alloc-bypass=1 true
sub h $S --setattr=alloc-bypass.x=1 true; end $h; st $h
