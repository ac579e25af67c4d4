# bulksubmit: how inputs combine, and what stands for them.
# start: -s 1
b() { say "$*"; x $JT bulksubmit --dry-run "$@" | sed 's/^[^ ]*submit/PROG/'; }
cd $CONF_TMP; printf 'p\nq\n' >list
b echo {} ::: a b ::: 1 2
b echo {1} {0} ::: a b ::: 1 2
b echo {1} {0} ::: a b :::+ 1 2
b echo {} ::: a b c :::+ 1 2
b echo {seq} {seq1} {} ::: x y
b echo {.%} {./} {./%} {.//} ::: /d/e.txt
b echo {0./%} ::: /d/e.txt
b --define='sq=int(x)**2' echo {.sq} ::: 2 3
b --sep=, echo {} ::: a,b c
b --sep=none echo {} ::: 'a b'
b echo {} :::: list
b echo {} :::: list ::: 1
b echo {} :::: nosuch
b echo x ::: a b
b -n {} echo ::: 1 2
b --job-name='n{seq}' echo {} ::: a b
b --cc=1-2 echo {cc} {} ::: a b
b echo '{{}}' ::: a
b echo {}
b echo {} :::
printf 'a\nb\n' | b echo {}
printf 'a\nb\n' | b {}
b {} ::: 'echo 1' 'echo 2'
b -n1 ::: true false
b --wait --quiet echo {} ::: a
