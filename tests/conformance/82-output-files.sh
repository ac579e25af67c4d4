# Output files: names with templates, modes, labels, and both streams in one file.
# start: -s 1
cd $CONF_TMP; mkdir o
f() { for i in o/*; do [ -e "$i" ] && { echo "-- $i"; sort "$i"; }; done | sed -E 's/f[0-9A-Za-z]{4,}/ID/g;s/[0-9]{6,}/DEC/g'; rm -rf o; mkdir o; }
P='echo out$FLUX_TASK_RANK; echo err$FLUX_TASK_RANK >&2'
g() { say "$*"; sub a $R "$@" sh -c "$P"; end $a; x $JT job attach $a; f; }
g --output=o/a
g -n2 --output=o/a -l
g -n2 --output='o/{{id}}' --error=o/e
g --output=none
g --output=none --error=o/e
g --output=o/a --error=none
g --error=o/only
g --output='o/{{jobid}}.{{id.dec}}'
g --output='o/{{size}}-{{nnodes}}'
g --output='o/{{nosuch}}'
echo old >o/a; sub a $R --output=o/a echo new; end $a; f
echo old >o/a; sub a $R --output=o/a -o output.mode=append echo new; end $a; f
