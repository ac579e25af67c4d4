# Input: from files, from clients, and for some tasks only.
# start: -s 1
cd $CONF_TMP; printf 'one\ntwo\n' >in
x $JT run $R --input=in cat
x $JT run $R -n2 -l --input=in cat | sort
x $JT run $R -n3 -l --input=1 sh -c 'cat; echo done' <in | sort
x $JT run $R -n3 -l --input=0-1 sh -c 'cat; echo done' <in | sort
x $JT run $R -n2 -l sh -c 'cat; echo done' <in | sort
sub a $R --input=in wc -c; end $a; x $JT job attach $a
x $JT submit --dry-run --input=in true | jq -cS .attributes.system.shell.options.input
x $JT submit --dry-run --input=0,2 true | jq -cS .attributes.system.shell.options.input
