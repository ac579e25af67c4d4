# Commands of a nested instance that go to the instance around it.
cd "$CONF_TMP"
cat >inner.sh <<'S'
#!/bin/bash
echo "level $($JT getattr instance-level) outside $($JT --parent getattr instance-level) $($JT -p getattr instance-level) $($JT -r getattr instance-level)"
echo "twice $($JT --parent --parent getattr instance-level) $($JT -pp getattr instance-level)"
$JT --parent submit --urgency=hold --job-name=of-parent true >/dev/null; echo "rc=$?"
$JT submit --job-name=own --wait true >/dev/null
echo "inside: $($JT jobs -ano {name})"; echo "outside: $($JT --parent jobs -ano {name} | grep of-)"
S
chmod +x inner.sh
$JT alloc -n1 ./inner.sh 2>/dev/null
x $JT --parent getattr instance-level; x $JT --parent getattr nosuch
