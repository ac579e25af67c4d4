# The headings of the fields of jobs and queues, and the configuration of formats.
# start: -s 1
for f in id.f58 id.emoji userid username urgency priority name cwd queue project bank ntasks ncores nnodes duration state_single status_abbrev result_abbrev success t_depend t_remaining expiration runtime \
    ranks nodelist waitstatus returncode exception.note dependencies contextual_info contextual_time inactive_reason annotations annotations.a.b sched.x user user.x uri sched.reason_pending sched.resource_summary \
    instance.stats.total instance.utilization instance.progress instance.resources.all.nnodes instance.resources.free.ncores nosuch id.nosuch state.x; do
    $JT jobs -ao "{$f}" 2>&1
done
$JT queue list -o '{queue}|{queuem}|{submission}|{scheduling}|{enabled}|{started}|{enabled.ascii}|{started.ascii}|{defaults.timelimit}|{limits.timelimit}|{limits.range.nnodes}|{limits.range.effective.ncores}|{resources.all.ncores}|{resources.free.nnodes}'
x $JT jobs -o get-config=nosuch
x $JT jobs -o nosuch
export XDG_CONFIG_HOME=$CONF_TMP/home; mkdir -p $XDG_CONFIG_HOME/flux
printf '[formats.mine]\ndescription = "Mine"\nformat = "{name} {state}"\n' >$XDG_CONFIG_HOME/flux/flux-jobs.toml
x $JT jobs -o mine
x $JT jobs -o get-config=mine
printf '[list.formats.mine]\nformat = "{queue}|{started.ascii}"\n' >$XDG_CONFIG_HOME/flux/flux-queue.toml
x $JT queue list -no mine
x $JT queue list -o get-config=mine
export FLUX_RESOURCE_LIST_FORMAT_DEFAULT='{state} {nnodes}' FLUX_RESOURCE_STATUS_FORMAT_DEFAULT='{nodelist} {state}'
x $JT resource list
x $JT resource status -n
