# Ids, truth values and numbers under format specifications, the suffix +, and conversions of what they don't fit.
sub A --job-name=abcdefghijkl $S true
$JT job wait-event $A clean >/dev/null
for format in '{name:.0+}|' '{name:4.0+}|' '{name:>6.3+}|' '{name:<10.5+}|' '{name!F}' '{name!D}' '{name!H}' '{name!a}' \
    '{ntasks:#x}' '{ntasks:_}' '{ntasks:+}' '{success:>6}|{success:<3}|{success}' '{id:d}' '{id:+}' '{id!r}' '{id:s}' '{id!s:>2}'; do
    say "$format"
    $JT jobs -no "$format" $A 2>&1 | sed 's/[0-9]\{8,\}/NUMBER/g'
done
