# With queues, an unknown host is found by the frobnicator, which says so.
# start: -s 1
#| [queues.a]
#| [queues.b]
#| requires = ["p"]
for q in a b; do
    for c in host:nosuch "host:nosuch,$(hostname)" "host:n[1-2]" 'not host:nosuch' 'host:nosuch or p' nosuchproperty; do
        say "$q: ${c/$(hostname)/HOST}"
        x $JT submit -q $q --requires="$c" --urgency=hold $S true 2>&1 | sed -E "s/^f[1-9A-Za-z]{5,}$/ID/"
    done
done
