# Messages of scripts in the log.
x $JT logger; x $JT logger hello world; x $JT logger -s warning bad thing; x $JT logger --severity=nosuch bad
x $JT logger -n me --severity debug 'a  b'; x $JT logger "$(printf 'two\nlines')"; x $JT logger -- -s dash
for s in emerg alert crit err notice info; do $JT logger -n sev -s $s "as $s" 2>/dev/null; done
until $JT dmesg | grep -q 'as info'; do sleep 0.1; done
$JT dmesg | grep -e '^[^ ]* logger\.' -e '^[^ ]* me\.' -e '^[^ ]* sev\.' | sed 's/^[^ ]* //'
