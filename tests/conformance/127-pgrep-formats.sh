# The header and the order of pgrep's lines.
for n in b a c; do sub i $S --job-name=$n true; we $i clean; done
x env FLUX_PGREP_FORMAT_DEFAULT='{name}' $JT pgrep -a .
x $JT pgrep -a -o '{name}' .
x $JT pgrep -ano '{name}' .
x $JT pgrep -ano 'sort:name {name}' .
x $JT pgrep -ano 'sort:-name {name}' .
x $JT pgrep -a -c 2 -no 'sort:name {name}' .
x $JT pgrep -a nosuch
say 'the address of a job that is no instance'
x $JT jobs -ano '{name} {uri}'
say 'resources with their ids'
x $JT resource list -o rlist
$JT resource list -o get-config=rlist | tail -1
