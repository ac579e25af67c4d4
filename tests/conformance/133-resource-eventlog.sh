# The events of nodes in the order of a start, and those in the KVS.
T='s/[0-9]{10}(\.[0-9]+)?/T/g'
$JT resource eventlog | sed -E "$T;s/nodelist=.*/nodelist=N/"
$JT resource eventlog -f json | sed -E "$T" | jq -c '[.name, (.context|keys_unsorted)]'
$JT kvs get resource.eventlog | jq -r .name
$JT resource drain 0 broken; $JT resource undrain 0
$JT resource eventlog | sed -E "$T;s/ userid=[^ ]*//;s/nodelist=[^ ]*/nodelist=N/" | tail -2
$JT kvs dir resource | cut -c1-30
$JT kvs dir resource | awk '{print length($0)}'
COLUMNS=50 $JT kvs dir resource | awk '{print length($0)}'
sub a $S true; we $a clean
k=$($JT job id --to=kvs $a)
$JT kvs get $k.eventlog | tail -n 2 | jq -r .name
$JT kvs get $k.eventlog | tail -c 2 | od -An -c
$JT kvs get -r $k.eventlog | tail -c 2 | od -An -c
