# Messages of commands that are given something wrong, and lines in the log about refusals.
x $JT config load nosuch.toml
x $JT jobs -o id,name
x $JT jobs -o 'id name'
x $JT queue list -o '{queue'
x $JT resource list -o '{state'
printf '[queues.a]\n[queues.b]\n' >c.toml; $JT config load c.toml
x $JT submit -q '' true
x $JT run -q '' true
printf '[queues.a]\n[policy.jobspec.defaults.system]\nqueue="a"\n' >c.toml; $JT config load c.toml
x $JT submit -q '' true
echo | $JT config load
t() { say "$*"; printf '%b\n' "$*" | x $JT config load; }
t 'job-manager = 1'
t '[job-manager]\nhousekeeping = 1'
t '[job-manager.housekeeping]\ncommand = ["true"]\nrelease-after = 5'
x $JT jobtap load perilog.so
t '[job-manager]\nprolog = 1'
t '[job-manager.prolog]\ncommand = ["true"]\ntimeout = 5'
t '[job-manager.epilog]\ncommand = ["true"]\nper-rank = 1'
t '[job-manager.prolog]\ncommand = ["true"]\nkill-timeout = "x"'
say log
x $JT submit --dependency=afterok:77 true
x $JT submit --begin-time=x --dry-run true
$JT dmesg | grep -o 'jobtap: .*rc=-1'
