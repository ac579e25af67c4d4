# submit: copies with fields in options, messages about waiting, and log files.
# start: -s 1
n() { sed -E 's/\bf[1-9A-HJ-NP-Za-km-z]{6,}\b/ID/g;s/[0-9]+\.[0-9]+s/Ts/g;s/"userid":[0-9]+/"userid":UID/' | sort; }
# Ids of the first milliseconds of a manager are shorter than those that n replaces.
sleep 0.1
x $JT submit $S --cc=1-2 --job-name='j{cc:03d}.{{cc}}' true | n
x $JT submit $S --bcc=3 --job-name='k{cc}' true | n
x $JT submit $S --cc= true | n
x $JT submit $S --cc=1 --bcc=2 true
x $JT submit $S -v --wait true 2>&1 | n
x $JT submit $S -vv --wait true 2>&1 | n
x $JT submit $S --cc=1-2 --log=$CONF_TMP/log.{cc} true; cat $CONF_TMP/log.* | n
x $JT submit $S --wait --setattr=system.exec.test.mock_exception=run true 2>&1 | n
x $JT submit $R --cc=1-2 --watch sh -c 'echo $FLUX_JOB_CC' 2>&1 | n
x $JT submit $R --bcc=1-2 -l --watch sh -c 'echo x$FLUX_JOB_CC {cc}' 2>&1 | n
x $JT bulksubmit $S --quiet --wait -v --job-name={} true ::: p q 2>&1 | n
x $JT bulksubmit --dry-run --flags=waitable --log={}.log --output={}.out -n2 true ::: 1
$JT jobs -ano '{name}' | sort | uniq -c
sub a $R echo hello; end $a
x $JT watch -vl $a 2>&1 | n
