//! Text of a bounded length, and functions that parse it.

/// A text of at most `N` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) const EMPTY: Self = Self { bytes: [0; N], length: 0 };

    /// Concatenates the parts; `None` if the text would be too long.
    pub(crate) fn concat(parts: &[&[u8]]) -> Option<Self> {
        let mut text = Self::EMPTY;
        for part in parts {
            text.push(part)?;
        }
        Some(text)
    }

    /// Adds a part; `None` if there is no room for it.
    pub(crate) fn push(&mut self, part: &[u8]) -> Option<()> {
        let end = self.length.checked_add(part.len())?;
        self.bytes.get_mut(self.length..end)?.copy_from_slice(part);
        self.length = end;
        Some(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Formats a number in decimal.
pub(crate) fn decimal(number: i32) -> Text<11> {
    let mut digits = [0; 11];
    let mut begin = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        let digit = u8::try_from(rest % 10).unwrap_or_default();
        begin = begin.saturating_sub(1);
        if let Some(place) = digits.get_mut(begin) {
            *place = b'0' + digit;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let sign: &[u8] = if number < 0 { b"-" } else { b"" };
    Text::concat(&[sign, digits.get(begin..).unwrap_or_default()]).unwrap_or(Text::EMPTY)
}

/// Parses a decimal number, which may have a sign.
pub(crate) fn number(text: &[u8]) -> Option<i32> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Splits a text at the first occurrence of a separator; `None` if there is none.
pub(crate) fn split_once<'t>(text: &'t [u8], separator: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let at = text.windows(separator.len()).position(|window| window == separator)?;
    Some((text.get(..at)?, text.get(at + separator.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for value in [0, 7, -7, 1_000_000, i32::MAX, i32::MIN] {
            let text = decimal(value);
            assert_eq!(text.bytes(), value.to_string().as_bytes());
            assert_eq!(number(text.bytes()), Some(value));
        }
        for text in ["", "x", "1x", "99999999999", " 1"] {
            assert_eq!(number(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_text_does_not_grow_beyond_its_length() {
        let mut text = Text::<4>::concat(&[b"ab", b"cd"]).unwrap();
        assert_eq!((text.push(b"e"), text.bytes()), (None, &b"abcd"[..]));
        assert!(Text::<4>::concat(&[b"abcde"]).is_none());
        assert_eq!(
            split_once(b"a value=b value=c", b" value="),
            Some((&b"a"[..], &b"b value=c"[..]))
        );
    }
}
