//! Escapes text of other users for output on a terminal: names of jobs, notes, memos, commands, reasons,
//! lines of the log.
//!
//! A control character in it could repaint the reader's terminal, and hide or forge lines. Each is shown as
//! its JSON escape, so that printed JSON keeps its value. Characters that change the direction of writing
//! can hide text too and are escaped likewise. All other text is unchanged.

use std::borrow::Cow;

/// Escapes a text within a line: line breaks and tabs are escaped too.
pub fn in_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_harmful)
}

/// Escapes a text of several lines: line breaks and tabs are unchanged.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_harmful(c) && !matches!(c, '\n' | '\t'))
}

fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match harmful(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn ordinary_text_is_unchanged() {
        // German, Japanese, a combining accent, an emoji of several characters, Hebrew.
        for text in [
            "",
            "a b",
            "gr\u{f6}\u{df}er",
            "\u{540d}\u{524d}",
            "e\u{301}",
            "\u{1f469}\u{200d}\u{1f52c}",
            "\u{5e9}\u{5dc}",
        ] {
            assert!(matches!(in_line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(in_line("a\x1b[2Jb\r\u{9b}8m\u{7f}"), "a\\u001b[2Jb\\u000d\\u009b8m\\u007f");
        assert_eq!(in_line("a\nb\tc\u{202e}d"), "a\\u000ab\\u0009c\\u202ed");
        assert_eq!(lines("a\nb\tc\x07"), "a\nb\tc\\u0007");
    }

    proptest! {
        #[test]
        fn printed_json_is_the_same_value(text: String) {
            let value = json!({ &text: text });
            let shown = lines(&value.to_string()).into_owned();
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
            prop_assert!(!shown.contains(is_harmful));
        }
    }
}
