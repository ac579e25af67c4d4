# --add-file: a file, or a text with a newline, which is the contents.
cd $CONF_TMP; echo data >f; printf '\001\377' >bin; mkdir d
t() { echo "-- $1"; $JT submit --dry-run --add-file="$1" true >out 2>err && jq -c .attributes.system.files <out; sed 's/^/! /' err; }
t f; t g=f; t bin; t d; t h=f=g; t h=; t h; t ''
t 'h=a\nb'; t 'h=\x41\t\n'; t 'h=x\\n'; t 'h=ü\n'; t 'h=f=g\n'; t 'a/b=x\n'; t '=a\n'
t 'h:0755=a\n'; t 'h:644=a\n'; t 'h:9=a\n'; t 'h:=a\n'; t 'a:b:644=a\n'
x $JT run $R '--add-file=h:0755=#!/bin/sh\necho x y\n' {{tmpdir}}/h
x $JT run $R '--add-file=h:0640=a\n' stat -c %a {{tmpdir}}/h
x $JT run $R '--add-file=a/b=x\n' cat {{tmpdir}}/a/b
