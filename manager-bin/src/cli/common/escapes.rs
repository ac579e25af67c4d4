//! Backslash escapes in the separators that users type: `--delimiter="\n"`.

/// Replaces `\n`, `\t`, `\r`, `\0` and `\\`. Any other backslash remains.
pub(in crate::cli) fn unescaped(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        done.push_str(before);
        let meant = match after.chars().next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('0') => '\0',
            Some('\\') => '\\',
            _ => {
                done.push('\\');
                rest = after;
                continue;
            }
        };
        done.push(meant);
        rest = after.get(1..).unwrap_or_default();
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_escapes_are_replaced_and_others_remain() {
        for (text, expected) in [
            (r"\n", "\n"),
            (r"a\tb\r\0", "a\tb\r\0"),
            (r"\\n", r"\n"),
            (r"\x\", r"\x\"),
            ("ä\\", "ä\\"),
            ("plain", "plain"),
        ] {
            assert_eq!(unescaped(text), expected, "{text}");
        }
    }
}
