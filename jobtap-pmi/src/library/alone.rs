//! The values of a process that is alone: a sequence of keys, each followed by its value, both NUL-terminated. If a key
//! occurs twice, its last value counts.

use super::error::Error;
use super::text::{Text, split_once};

/// The number of bytes that all keys and values may take together.
const ROOM: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Values(Text<ROOM>);

impl Values {
    pub(crate) const EMPTY: Self = Self(Text::EMPTY);

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let needed = key.len() + value.len() + 2;
        if needed > ROOM - self.0.bytes().len() {
            return Err(Error::Memory);
        }
        for part in [key, &[0], value, &[0]] {
            self.0.push(part).ok_or(Error::Memory)?;
        }
        Ok(())
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let mut found = None;
        let mut rest = self.0.bytes();
        while let Some((name, after)) = split_once(rest, &[0]) {
            let (value, after) = split_once(after, &[0])?;
            if name == key {
                found = Some(value);
            }
            rest = after;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_counts() {
        let mut values = Box::new(Values::EMPTY);
        values.put(b"a", b"1").unwrap();
        values.put(b"b", b"").unwrap();
        values.put(b"a", b"2").unwrap();
        assert_eq!(values.get(b"a"), Some(&b"2"[..]));
        assert_eq!((values.get(b"b"), values.get(b"c")), (Some(&b""[..]), None));
    }

    #[test]
    fn the_room_for_values_is_bounded() {
        let mut values = Box::new(Values::EMPTY);
        let stored = (0..).take_while(|_| values.put(b"key", &[b'v'; 1000]).is_ok()).count();
        assert_eq!(stored, ROOM / 1005);
        assert_eq!(values.get(b"key").map(<[u8]>::len), Some(1000));
    }
}
