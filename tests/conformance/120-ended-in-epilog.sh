# What comes while an epilog runs: the return code is known by then, and a fatal exception becomes the result of a job
# whose tasks failed. The duration can still be changed.
# start: -s 1
#| [job-manager]
#| plugins = [ { load = "perilog.so" } ]
#| [job-manager.epilog]
#| command = ["sh", "-c", "while ! test -e @TMP@/go; do sleep .05; done"]
shown() { $JT jobs -no '{state} {status} {result} {success} {inactive_reason} {returncode} {waitstatus} {exception.type}' "$1"; }
for command in 'exit 0' 'exit 3' 'kill -9 $$'; do
    for raised in "-s 0 -t cancel" "-s 0 -t timeout" "-s 0 -t foo" "-s 2 -t foo"; do
        say "$command: $raised"
        rm -f "$CONF_TMP/go"
        sub a $R sh -c "$command"
        we $a epilog-start; till $a CLEANUP
        shown $a
        $JT job raise $raised $a
        touch "$CONF_TMP/go"; end $a
        shown $a
        x $JT job status -vv $a
    done
done
say "a new duration"
rm -f "$CONF_TMP/go"
sub a $S -t 1m true; we $a epilog-start
x $JT update $a duration=10m
touch "$CONF_TMP/go"; end $a
events $a | grep jobspec-update
