# submit: the words in which each kind of option is refused.
# start: -s 1
for o in "-n x" "-N 0" "-N 2 -n 1" "-t x" "-t -1" "--urgency=32" "--cores=2 -n2" "--cores=0" "--tasks-per-node=1" "--gpus-per-node=1" "-x" "--dependency=" "--dependency=:1" "--dependency=nosuch:1" "--dependency=afterok:x?scheme=y" \
    "--begin-time=nosuch" "--begin-time=+x" "--requires=(a" "--requires=host:" "--requires=^a" "-S system.duration=x" "--env=NOSUCH_VAR" "--rlimit=nosuch" "--rlimit=nosuch=1" "--rlimit=nofile=x" "--signal=x" "--signal=@x" "--flags=" "--flags=nosuch" \
    "--add-file=/nosuch/file" "--add-file=a=/nosuch/file" "--taskmap=:x" "-q nosuch"; do
    say "$o"; x $JT submit --urgency=hold $S $o true 2>&1 | sed -E 's/^f[1-9A-Za-z]{5,}$/ID/'
done
