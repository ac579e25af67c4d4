# Values of several lines in the directives of batch scripts (RFC 36).
cd "$CONF_TMP"
t() {
    { echo '#!/bin/sh'; sed 's/^/# flux: /; s/^# flux: =//'; } >s.sh
    $JT batch --dry-run "$@" s.sh >o 2>e; local rc=$?; sed -e 's/^/! /' -e '/^! !*$/d' e; echo "rc=$rc"
    [ $rc -ne 0 ] || jq -cS '.attributes | {o: (.system.shell.options | del(.rlimit)), f: (.system.files | del(.script)), u: .user,
        s: (.system | del(.environment, .files, .shell, .cwd)), e: (.system.environment | with_entries(select(.key | startswith("MY"))))}' o
}
q='"""'
printf '%s\n' "--setattr=x=$q" one '  two # no comment' "'three' \"four\" \\ \$HOME" '=# flux:' "$q" | t -n1
printf '%s\n' "--setattr=user.conf='''" '{ "a": 1,' '  "b": [1,2] }' "'''" "--setopt=foo=$q" one "$q" | t -n1
printf '%s\n' "--env=MYV=$q" one two "$q" "--job-name=$q" a "$q" "--bank=$q" b "$q" "--output=$q" out "$q" | t -n1
printf '%s\n' "--requires=$q" foo 'or bar' "$q" "--dependency=$q" afterok:123 "$q" "-t $q" 5m "$q" | t -n1
printf '%s\n' "--add-file=foo:0755=$q" '#!/bin/sh' 'two "quoted" \ back' "$q" "--conf=$q" '[resource]' 'exclude = "0"' "$q" | t -n1
printf '%s\n' "-n $q" 2 "$q" "--urgency=$q" 5 "$q" "--signal=$q" SIGUSR1@10 "$q" "-g $q" 1 "$q" | t
printf '%s\n' "--setattr=x=$q" one "two$q" "--setattr=y=$q" one "  $q" "--setattr=z=$q" "$q" "--setattr=w=$q" "'''" "=# flux:$q" | t -n1
printf '%s\n' "--setattr=x=${q}a # \"b\"$q --setattr=y='''b'c''' # comment" | t -n1
printf '%s\n' "--setattr=x=${q}one" "two$q" | t -n1
printf '%s\n' "--setattr=x=$q  " one "$q" | t -n1
printf '%s\n' "--setattr=x=$q" one "$q --job-name=foo" | t -n1
printf '%s\n' "--setattr=x=$q" one "$q # comment" | t -n1
printf '%s\n' "--setattr=x=$q" "one ''' two" "$q" | t -n1
printf '%s\n' "--setattr=x=$q" '=echo' "$q" | t -n1
printf '%s\n' "--setattr=x=$q" '=' "$q" | t -n1
printf '%s\n' "--setattr=x=$q" '=#flux: one' "$q" | t -n1 2>&1 | head -1
