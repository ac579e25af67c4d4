# Formats of users, from files below XDG_CONFIG_HOME, and what is wrong with them.
# start: -s 1
mkdir -p $CONF_TMP/xdg/flux $CONF_TMP/sys/flux; cd $CONF_TMP/xdg/flux
printf 'formats:\n  mine:\n    description: "My own"\n    format: "{id.f58} {name}!"\n' >flux-jobs.yaml
printf '[list.formats.q]\ndescription = "Q"\nformat = "{queue}|{limits.max.ncores}"\n' >flux-queue.toml
printf '{"list":{"formats":{"r":{"description":"R","format":"{state} {nnodes}"}}},"status":{"formats":{"s":{"description":"S","format":"{state}={nnodes}"}}}}' >flux-resource.json
printf '[formats.system]\ndescription = "of the site"\nformat = "{name}?"\n' >$CONF_TMP/sys/flux/flux-jobs.toml
export XDG_CONFIG_HOME=$CONF_TMP/xdg XDG_CONFIG_DIRS=$CONF_TMP/sys
sub a $S --job-name=one true; end $a
x $JT jobs -ao mine
x $JT jobs -ao system
x $JT jobs -ao nosuch
x $JT jobs -ao get-config=mine
x $JT jobs -ao help | grep -E '^ *(mine|system) '
x $JT queue list -o q
x $JT resource list -o r
x $JT resource status -o s
x $JT resource status -o r
FLUX_JOBS_FORMAT_DEFAULT=mine x $JT jobs -a
FLUX_QUEUE_LIST_FORMAT_DEFAULT='{queue}' x $JT queue list
FLUX_RESOURCE_LIST_FORMAT_DEFAULT=r x $JT resource list
b() { say "$1"; echo "$1" >flux-jobs.yaml; x $JT jobs -ao bad; }
b 'formats: {bad: {description: x}}'
b 'formats: {bad: {format: "{nosuchfield}"}}'
b 'formats: {bad: x}'
b 'formats: [bad]'
b 'formats: {long: {format: "{id}"}}'
b 'nosuch: 1'
