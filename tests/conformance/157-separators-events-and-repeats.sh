# Separators and events of bulk submissions, and lists of hosts with repeats.
cd "$CONF_TMP"; printf 'a b\nc d\n' >in; printf 'a,b;c' >in2
b() { $JT bulksubmit "$@" 2>&1; echo "rc=$?"; }
for s in None none NONE '\n' ''; do b --dry-run --sep="$s" echo {} <in; done
b --dry-run --sep=, echo {} <in2; b --dry-run --sep=';' echo {} <in2; b --dry-run --sep=None echo {} :::: in; b --dry-run --sep=None echo {} ::: 'a b' c
b --dry-run --wait-event={} -n{} --job-name=x{} echo {} ::: 1 2; b --dry-run --log={}.log --wait-event=w{} echo {} ::: 1 2
b --quiet --wait-event={} sh -c 'exit 3' ::: start; b --quiet --wait-event={} sh -c 'exit 3' ::: start clean; b --quiet --wait-event={} echo ::: exec.shell.init
h() { $JT hostlist "$@" 2>&1; echo "rc=$?"; }
h -m 'foo[1-3],foo2' 'foo2,foo2'; h -m a,a a; h -m a,a a,a,a; h -m a,b,a a,c; h -m 'n[1-5]' n2 n4; h -m a,a,a a a; h -x a,b,a a; h -X a,b,a a,c; h -i a,b,a a,a
