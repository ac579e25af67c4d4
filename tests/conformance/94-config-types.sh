# config: reading values by type, setting, unsetting and loading.
# start: -s 1
#| [policy.limits]
#| duration = "10m"
#| [site]
#| num = 5
#| real = 1.5
#| yes = true
#| list = [1, 2]
#| path = "/a/b"
c() { say "$*"; x $JT config "$@"; }
for k in site.text site.num site.real site.yes site.list site site.nosuch nosuch policy.limits.duration ''; do c get "$k" | jq -cS . 2>/dev/null; done
for t in string integer real boolean object array path fsd fsd-integer fsd-real nosuch; do for k in site.num site.list policy.limits.duration; do c get -t $t $k; done; done
c get -d def site.nosuch
c get -q site.text
c get -q site.nosuch
c set site.num 6; c get site.num
c set -t string site.str 5; c get site.str
c set site.num nosuch; c get site.num
c unset site.num; c get site.num
c unset site.num
c unset site.nosuch
c set policy.limits.duration '"20m"'; c get policy.limits.duration
c set policy.limits.duration 5
c get policy.limits.duration
x $JT submit -t 15m --urgency=hold $S true | sed 's/^f.*/ID/'
echo '{"site":{"only":1}}' >$CONF_TMP/c.json; say load; x $JT config load $CONF_TMP/c.json; c get
printf '[site]\nonly = 2\n' | x $JT config load; c get site.only
c reload
c get site.only
c nosuch
c
