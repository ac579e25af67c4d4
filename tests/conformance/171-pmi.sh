# PMI: who shares a node, the text of an abort, and the shell options that switch it off.
# start: -s 2 --test-hosts=node[0-1]
# cores: 2
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "node[0-1]"
#| cores = "0-1"
ask='ask() { echo "$1" >&$PMI_FD; read -r -u $PMI_FD answer; echo "$answer"; }
ask "cmd=init pmi_version=1 pmi_subversion=1" >/dev/null
ask "cmd=get kvsname=x key=PMI_process_mapping"; ask "cmd=get kvsname=x key=flux.taskmap"; ask "cmd=get_universe_size"'
mapped() { say "$*"; $JT run -N2 -n4 "$@" bash -c "[ \$PMI_RANK != 3 ] || { $ask; }" | sed 's/msg=success //'; }
mapped
mapped --taskmap=cyclic
mapped '--taskmap=manual:[[1,1,2,1],[0,1,2,1]]'
say variables; $JT run -n1 sh -c 'env | grep ^PMI_ | sed s/FD=.*/FD/ | sort; test -f $FLUX_PMI_LIBRARY_PATH && echo there'
for o in pmi=off pmi=none; do say $o; $JT run -n2 -o $o sh -c 'env | grep -c PMI'; done
abort() {
    say "$1"; $JT run -n2 bash -c "[ \$PMI_RANK != 1 ] || echo '$1' >&\$PMI_FD; exec sleep 60" 2>err; echo "rc=$?"
    sed -n 's/.*\(type=exec.*\)/\1/p' err
}
abort 'cmd=abort exitcode=7'
abort 'cmd=abort exitcode=7 error_msg=out of x=1 y'
say ranks; $JT run -N2 -n4 -l $JT getattr rank | sort
