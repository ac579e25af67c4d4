# The words in which wrong options of a submission are refused.
for o in --urgency=high --urgency= --urgency=1.5 --urgency=99 --urgency=-1 '--env=A=${B' '--env=A=$' '--env=A=$1' '--env=A=$NOSUCH' --env="^$CONF_TMP/none" \
    --env-file="$CONF_TMP/none" --rlimit=nosuch --rlimit=nofile=x --flags=foo --signal=foo --signal=0 --signal=@x -nx -tx -t-1 -tinf --dependency=: \
    --begin-time=x --begin-time=+x '--requires=(a' --cc=x --queue=nosuch --taskmap=: --add-file="$CONF_TMP/none"; do echo "$o"; x $JT submit "$o" true; done
sub A --urgency=' 5' $S true; $JT jobs -no {urgency} $A
