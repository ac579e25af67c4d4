# A job without output: attach says so when the job starts, or at the end of a job that was over.
x $JT run $S --setattr=system.exec.test.wait_status=256 true
x $JT run $L -t 0.2s true 2>&1 | sed -E 's/[0-9.]+s: job.exception [^ ]+/T: job.exception J/'
sub d $L true; we $d start; (sleep .5; $JT cancel $d) & x $JT job attach -E $d 2>&1 | sed -E 's/[0-9.]+s: /T: /'
sub a $S true; end $a; x $JT job attach $a
x $JT run -n1 $R true
