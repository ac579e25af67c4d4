# Queues that the user's configuration hides from `resource list`, and the option --state.
# start: -s 4 --test-hosts=n[0-3]
#| [queues.batch]
#| requires = ["batch"]
#| [queues.debug]
#| requires = ["debug"]
#| [queues.all]
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "n[0-3]"
#| cores = "0-1"
#| [[resource.config]]
#| hosts = "n[0-1]"
#| properties = ["batch"]
#| [[resource.config]]
#| hosts = "n2"
#| properties = ["debug"]
export XDG_CONFIG_HOME=$CONF_TMP/home XDG_CONFIG_DIRS=$CONF_TMP/first:$CONF_TMP/second
mkdir -p $CONF_TMP/{home,first,second}/flux
hide() { printf '[list]\n%s\n' "$2" >$CONF_TMP/$1/flux/flux-resource.toml; }
r() { say "$*"; x $JT resource "$@"; }
r list
hide home 'hidden-queues = ["all", "none"]'
r list
r list -q all
r list -q batch
r list -s down
r list -no '{queue} {properties} {propertiesx} {nnodes}'
r list --state=free -n
r info --state=free -q all
r status --state=avail -n
$JT resource R --state=up | jq -c .execution.R_lite
hide home 'hidden-queues = "all"'
r list
hide home 'hidden-queues = [1]'
r list
hide home 'hidden = []'
r list
rm $CONF_TMP/home/flux/*
hide first 'hidden-queues = ["all"]'
hide second 'hidden-queues = ["batch"]'
r list -n
hide home 'hidden-queues = []
[list.formats.short]
format = "{queue} {nnodes}"'
r list -o short
