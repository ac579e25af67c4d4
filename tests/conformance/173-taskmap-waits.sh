# job taskmap prints a map as it was given, and waits for a job that hasn't started.
# start: -s 2 --test-hosts=node[0-1]
# cores: 2
#| [resource]
#| noverify = true
#| [[resource.config]]
#| hosts = "node[0-1]"
#| cores = "0-1"
for map in block cyclic cyclic:2 'manual:[[0,2,2,1]]' 'manual:0-1;2-3' 'manual:(vector,(0,2,2))' \
    'manual:[[0,1,1,1],[0,1,1,1],[1,1,2,1]]' 'manual:[[1,1,2,1],[0,1,2,1]]'; do
    sub a -N2 -n4 --taskmap="$map" $R true; we $a clean
    say "$map"; x $JT job taskmap $a; x $JT job taskmap --to=raw $a; x $JT job taskmap --to=pmi $a
done
sub b --urgency=hold $R true
$JT job taskmap $b >waited 2>&1 & waiting=$!
we $b priority; $JT job urgency $b default; wait $waiting; say waited $?; cat waited
sub c --urgency=hold $R true; we $c priority; $JT cancel $c; end $c
x $JT job taskmap $c
