# 114-linked-inputs: lists of bulksubmit after :::+ advance with each job
b() { say "$*"; x $JT bulksubmit --dry-run echo "$@"; }

b {0}{1} ::: a b :::+ c d
b {0}{1} ::: a b :::+ c d e
b {0}{1} ::: a b c :::+ d
b {0}{1}{2} ::: a b :::+ c d ::: x y
b {0}{1}{2} ::: a b ::: x y :::+ 1 2 3 4
b {0}{1}{2} ::: a b :::+ c d e :::+ f
b {0}{1}{2}{3} ::: a b :::+ x y ::: 1 2 :::+ 3 4
b {0} :::+ a ::: b
b {0} :::+ a b
