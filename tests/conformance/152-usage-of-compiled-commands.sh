# Usage errors of Flux's compiled commands.
sub A true; end $A
for c in 'job' 'job wait-event' 'job attach' 'job kill' 'job list' 'job submit' 'job taskmap' 'kvs get' 'kvs dir' 'kvs ls' 'kvs eventlog get' \
    'config get' 'config load' dmesg getattr setattr lsattr 'module load' 'module stats' uptime version startlog start proxy 'R encode' dump \
    shutdown fsck exec; do x $JT $c --nosuch; done
x $JT job wait-event -Z $A start; x $JT job wait-event -t; x $JT job wait-event -vt; x $JT job wait-event --timeout; x $JT job list -c; x $JT job id -t
x $JT job wait-event -c x $A start; x $JT job list -c x; x $JT job purge --num-limit=x; x $JT start -s; x $JT start -s x; x $JT exec -r
for c in 'job wait-event' "job wait-event $A" "job wait-event $A a b c" 'job attach' 'job attach a b' 'job kill' 'job raise' 'job urgency' \
    'job eventlog' 'job status' 'job wait a b' 'job list x' 'job list-ids' 'job memo' 'job taskmap' 'job timeleft x y' 'job hostpids' \
    'kvs get' 'config get a b' 'config load a b' 'config set' 'config set a' 'module load' 'module remove' 'module stats' getattr 'getattr a b' \
    setattr 'setattr a' 'lsattr x' dump 'dump a b' exec 'exec -r 0' 'job nosuch' job kvs 'config nosuch' module; do echo "$c"; x $JT $c; done
