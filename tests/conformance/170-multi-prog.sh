# multi-prog: the tasks of a job run different programs, and what it says of a faulty file.
cd "$(mktemp -d)"
prog() { printf -- "$1" >p.conf; }
of() { $JT run -l "$@" >out 2>&1; echo "rc=$?"; grep '^[0-9]*: ' out | sed 's/[a-z]*-multi-prog/multi-prog/' | sort; }
prog '# programs\n0-1 echo task %%t %%o # a\n  2 echo "a  b" $HOME %%%%t\n* echo rest %%t %%o\n'
say run; of -n4 $JT multi-prog p.conf
x $JT multi-prog -n 0-5 p.conf
x $JT multi-prog --dry-run=2 p.conf
x $JT multi-prog -n x p.conf
prog '0-2 a\n1 b\n* c\n* d\n'
x $JT multi-prog -n 0-3 p.conf
prog '0 ./p-%%t-%%o "it\047s"\n'
x $JT multi-prog -n 0 p.conf
say no line; prog '0\n1 echo b\n'; of -n2 $JT multi-prog p.conf
for text in 'x echo a\n' '0 "a\n' '-1 a\n'; do say "$text"; prog "$text"; x $JT multi-prog -n 0 p.conf; done
prog "0 a\n"; x $JT multi-prog p.conf
x $JT multi-prog -n 0 nosuch.conf
x $JT multi-prog -n 0 /
x $JT multi-prog
