# Parts of shell options: those that no one knows fail the job, where the option has no others.
for o in pty.foo pty.ranks=x pty.ranks=0 pty.capture stage-in stage-in.badopt stage-in.names=x sysmon.foo oom.foo \
    pmi-simple.foo verbose.foo nosetpgrp.foo exit-timeout.foo rlimit.foo=1 pmi.foo taskmap.foo=1 coprocess.foo=1 \
    bogus bogus.x=1 hwloc.foo output.foo input.foo output.stdout.foo=1; do
    $JT run -o $o echo ran >out 2>/dev/null
    case $? in 0) echo "$o: $(tr -d '\r' <out)" ;; *) echo "$o: fails" ;; esac
done
