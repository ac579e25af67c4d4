# What is given more than once, or as 0, and the order of queues.
#| [queues.night]
#| [queues.batch]
#| [queues.debug]
x $JT queue list -no '{queue}'
x $JT queue list -q batch -q batch -no '{queue}'
for a in -n0 "-c0 -N1" "-n2 -n3" "-N0" "--cores=0" "-n -1"; do
    say "$a"; $JT submit -q batch $a --dry-run true >o 2>&1
    grep ERROR o || jq -cS '.resources' o
done
x $JT job wait-event -t 1 -t 2 -q 1 clean
x $JT queue status -q night -q debug
for r in 'x "a' '((' '((a)|(b)' 'a (b' '(a)|'; do x $JT submit -q batch --requires="$r" true; done
x $JT queue start -q batch
sub A -q batch $R sh -c 'echo err >&2; exit 3'
we $A clean
x $JT job attach $A
$JT job eventlog -p exec -f json $A | jq -cS 'select(.name == "shell.init") | .context | .service |= sub("^[0-9]+"; "UID")'
