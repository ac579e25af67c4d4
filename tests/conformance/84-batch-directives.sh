# batch: scripts, directives, and what is refused.
# start: -s 1
# cores: 4
cd $CONF_TMP
cat >a.sh <<'X'
#!/bin/sh
# flux: -n2 --job-name=named
# flux: --setattr=user.x=1
# flux: -t 5m
echo hi
# flux: -n4
X
b() { say "$*"; x $JT batch --dry-run "$@" | jq -cS 'del(.tasks[0].command[0,1], .attributes.system.environment, .attributes.system.cwd, .attributes.system.shell.options.rlimit,.attributes.system.files)'; }
b a.sh
b -n1 a.sh x y
b --wrap -n1 hostname
b -N1 a.sh
b -n2 -c2 -g0 a.sh
b
b nosuch.sh
b -n1 --wrap
echo 'echo hi' >b.sh; b -n1 b.sh
printf '#!/bin/sh\n# flux: --nosuch\n' >c.sh; b c.sh
printf '#!/bin/sh\n# flux: -n\n' >c.sh; b c.sh
printf '#!/bin/sh\n# flux: -n1 "\n' >c.sh; b c.sh
printf '#!/bin/sh\n# flux: setattr=x=1\n' >c.sh; b -n1 c.sh
printf '#!/bin/sh\n#FLUX: -n1\n#flux:--job-name=z\n' >c.sh; b c.sh
printf '#!/bin/sh\n# flux: -n1\n\n# flux: --job-name=after\necho\n# flux: --job-name=late\n' >c.sh; b c.sh
printf '#!/usr/bin/env python3\n# flux: -n1 # comment\nprint()\n' >c.sh; b c.sh
printf '' >c.sh; b -n1 c.sh
x $JT batch --dry-run -n1 a.sh | jq -r '.attributes.system.files.script.data'
printf '#!/bin/sh\n# flux: -n1\n# flux: """\n# flux: --setattr=a=1\n# flux: """\n' >c.sh; b c.sh
