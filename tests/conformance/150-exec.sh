# Commands that are run for each node.
# start: -s 4 --test-hosts=a,b,c,d
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "a,b,c,d"
#| cores = "0"
e() { "$JT" exec "$@" </dev/null >"$CONF_TMP/o" 2>"$CONF_TMP/e"; local rc=$?; sort "$CONF_TMP/o"; sort "$CONF_TMP/e" | sed 's/^/! /'; echo "rc=$rc"; }
e -l sh -c 'echo hi; echo err >&2'
e -l "$JT" getattr rank
e -r 0,2 -l echo x; e -r all -x 0 -l echo x; e -r 0-3 -x 1 -l echo x
e -r 9 echo x; e -r 1,9 echo x; e -r x echo x; e -r 3-1 echo; e --rank= echo; e -x x echo; e -r 0-1 -x 0-3 true
e nosuch; e -r 0 /etc/passwd; e -r 0 ''
e false; e -q false; e -r 0 sh -c 'exit 3'; e sh -c 'exit $('"$JT"' getattr rank)'
e sh -c 'kill -9 $$'; e -r 1 sh -c 'kill -TERM $$'; e -r 0 sh -c 'kill -34 $$'
e -r 0-1 sh -c 'test $('"$JT"' getattr rank) = 0 && exit 3; kill -9 $$'
e -r 0 -d /tmp pwd; e -r 0 -d "$CONF_TMP/none" pwd; e -r 0 -- echo -l; e -r 0 echo -l a
printf 'a\nb' | $JT exec -r 0-1 wc -c; echo "rc=$?"
printf 'a\nb\n' | $JT exec -n -r 0-1 cat; echo "rc=$?"
yes abcdefghij | head -c 3000000 | $JT exec -r 0-1 sh -c 'test $('"$JT"' getattr rank) = 0 && exit; wc -c'; echo "rc=$?"
$JT exec -r 0-1 -l sh -c 'head -c 100000 /dev/zero | tr "\0" x; echo' </dev/null | awk '{print length($0)}'
$JT exec -r 0 sh -c 'printf "a\nb\n\nc"' </dev/null | od -c
$JT exec -r 0 sh -c 'exec >&-; exit 2' </dev/null; echo "rc=$?"
sub A -N1 sleep 60; we $A start; sub B -N2 sleep 60; we $B start
$JT job wait-event -p exec $B shell.start >/dev/null
e -j $B -l "$JT" getattr rank; e -j $B -r 1 sh -c 'exit 3'; e -j $B -x 0 -l echo hi; e -j $B -r 2 true; e -j 123 true; e -j zzz true
FLUX_HANDLE_ROLEMASK=0x2 FLUX_HANDLE_USERID=1234 e -r 0 id
$JT cancel --all 2>/dev/null
