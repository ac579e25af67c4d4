# The resources of an instance from a file with R.
# start: -s 1
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "@HOST@"
#| cores = "0-3"
$JT R encode -r 0 -c 0-6 -H $(hostname) -p fast:0 >$CONF_TMP/R2
cat >$CONF_TMP/in.sh <<X
. $(dirname $BASH_SOURCE)/lib.sh
x $JT resource list -s free -no '{nnodes} {ncores} {properties}'
x $JT resource info
X
mkdir $CONF_TMP/conf
for r in $CONF_TMP/R2 /nosuch/R $CONF_TMP/bad; do
    echo '{"version":1' >$CONF_TMP/bad
    printf '[resource]\nnoverify = true\npath = "%s"\n' $r >$CONF_TMP/conf/r.toml
    say "${r##*/}"; $JT start --config-path $CONF_TMP/conf bash $CONF_TMP/in.sh >$CONF_TMP/o 2>$CONF_TMP/e; echo "rc=$?"; cat $CONF_TMP/o
done
