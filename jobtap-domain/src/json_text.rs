//! Writes JSON values as text: what serde_json writes, in a fraction of its time.
//!
//! A job has a dozen events, an R and a summary. Most of their members are names and numbers, which need no escapes
//! and no formatter behind several layers of traits.

use serde::Serialize;
use serde_json::{Map, Value};

/// Adds a string.
pub(crate) fn push_string(text: &mut Vec<u8>, value: &str) {
    if needs_no_escape(value.as_bytes()) {
        text.push(b'"');
        text.extend_from_slice(value.as_bytes());
        text.push(b'"');
    } else {
        push(text, &value);
    }
}

/// Whether a JSON string can contain these bytes unescaped. Checks eight bytes at a time.
fn needs_no_escape(text: &[u8]) -> bool {
    let plain = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let each = |byte: u8| u64::from_le_bytes([byte; 8]);
        // Sets the highest bit of each byte that is 0. A borrow from such a byte can also set the bits of the bytes
        // above it, which does no harm: it only matters whether any bit is set.
        let zeros = |word: u64| word.wrapping_sub(each(1)) & !word;
        let controls = word.wrapping_sub(each(b' ')) & !word;
        (controls | zeros(word ^ each(b'"')) | zeros(word ^ each(b'\\'))) & each(0x80) == 0
    };
    // The last word may overlap the one before it, and so may the two halves of a text of 4 to 7 bytes.
    match (text.last_chunk::<8>(), text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(last), ..) => text.as_chunks::<8>().0.iter().all(plain) && plain(last),
        (None, Some([a, b, c, d]), Some([e, f, g, h])) => plain(&[*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => text.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\'),
    }
}

/// Adds an object with these members.
pub(crate) fn push_object<'m>(
    text: &mut Vec<u8>,
    members: impl Iterator<Item = (&'m str, &'m Value)>,
) {
    text.push(b'{');
    for (i, (key, value)) in members.enumerate() {
        if i > 0 {
            text.push(b',');
        }
        push_string(text, key);
        text.push(b':');
        push_value(text, value);
    }
    text.push(b'}');
}

/// Adds an object.
pub fn push_map(text: &mut Vec<u8>, members: &Map<String, Value>) {
    push_object(text, members.iter().map(|(key, value)| (key.as_str(), value)));
}

/// Adds any value.
pub(crate) fn push_value(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => text.extend_from_slice(b"null"),
        Value::Bool(true) => text.extend_from_slice(b"true"),
        Value::Bool(false) => text.extend_from_slice(b"false"),
        Value::String(value) => push_string(text, value),
        Value::Object(members) => push_map(text, members),
        Value::Array(_) => push(text, value),
        Value::Number(number) => match number.as_u64() {
            Some(number) => push_integer(text, number),
            None => push(text, value),
        },
    }
}

/// Adds an integer.
pub fn push_integer(text: &mut Vec<u8>, number: impl itoa::Integer) {
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Adds a time in seconds as serde does, with the fewest digits that identify the number. A whole number of
/// microseconds, which is what the manager's clock returns, needs no search for those digits.
pub fn push_time(text: &mut Vec<u8>, seconds: f64) {
    match whole_microseconds(seconds) {
        Some(micros) => push_microseconds(text, micros),
        None => push(text, &seconds),
    }
}

/// Returns a time in microseconds if it is a whole number of them and not before the year 2001. Its seconds then have
/// ten digits, and below 2^33 no two numbers with six more digits are the same floating-point number.
fn whole_microseconds(seconds: f64) -> Option<u64> {
    if !(1e9..8e9).contains(&seconds) {
        return None;
    }
    let micros = (seconds * 1e6 + 0.5) as u64;
    (micros as f64 / 1e6 == seconds).then_some(micros)
}

/// Adds a number of microseconds, which has 16 digits, as seconds.
fn push_microseconds(text: &mut Vec<u8>, micros: u64) {
    let (high, low) = (eight_digits(micros / 100_000_000), eight_digits(micros % 100_000_000));
    let [tens, ones, fraction @ ..] = low.to_le_bytes().map(|digit| digit | b'0');
    let mut digits = [0; 17];
    let (seconds, rest) = digits.split_at_mut(8);
    seconds.copy_from_slice(&high.to_le_bytes().map(|digit| digit | b'0'));
    if let [first, second, point, behind @ ..] = rest {
        (*first, *second, *point) = (tens, ones, b'.');
        behind.copy_from_slice(&fraction);
    }
    // Without trailing zeros, but with at least one digit after the point.
    let zeros = (low.leading_zeros() / 8).min(5) as usize;
    text.extend_from_slice(digits.get(..17 - zeros).unwrap_or_default());
}

/// The eight decimal digits of a number, one in each byte, the first in the lowest byte. They are computed together:
/// two numbers of four digits, four of two, eight of one. A multiplication and a shift divide each of them by 100, and
/// then by 10.
fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((twos - tens * 10) << 8)
}

/// Adds a value as serde writes it. It can't fail, since callers pass only numbers, strings and JSON values.
pub fn push(text: &mut Vec<u8>, value: &impl Serialize) {
    let _ = serde_json::to_writer(text, value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}|[\\x00-\\x7f]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let array = prop::collection::vec(inner.clone(), 0..4);
            let object = prop::collection::hash_map("[a-z\"\n]{0,4}", inner, 0..4);
            prop_oneof![
                array.prop_map(Value::from),
                object.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_is_written_as_serde_writes_it(value in any_value()) {
            let mut text = Vec::new();
            push_value(&mut text, &value);
            prop_assert_eq!(String::from_utf8(text).unwrap(), value.to_string());
        }
    }

    proptest! {
        #[test]
        fn a_time_is_written_as_serde_writes_it(
            seconds in prop_oneof![any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()), 0.0..1e10],
            micros in 0..11_000_000_000_000_000u64,
            zeros in 0..8u32,
        ) {
            let unit = 10u64.pow(zeros);
            let whole = (micros / unit * unit) as f64 / 1e6;
            for seconds in [seconds, whole, f64::from_bits(whole.to_bits() + 1), whole.floor()] {
                let mut text = Vec::new();
                push_time(&mut text, seconds);
                prop_assert_eq!(String::from_utf8(text).unwrap(), serde_json::to_string(&seconds).unwrap());
            }
        }
    }

    /// Tests every position in texts of every length, since up to eight bytes are checked together.
    #[test]
    fn each_character_is_escaped_where_serde_escapes_it() {
        for (length, place) in (1..18).flat_map(|length| (0..length).map(move |at| (length, at))) {
            for character in '\0'..='\u{ff}' {
                let mut value = vec!['x'; length];
                value[place] = character;
                let value: String = value.into_iter().collect();
                let mut text = Vec::new();
                push_string(&mut text, &value);
                assert_eq!(String::from_utf8(text).unwrap(), Value::from(value).to_string());
            }
        }
    }

    #[test]
    fn what_json_escapes_is_escaped() {
        let value = json!({"a\"b": "c\\d\u{1f}\u{7f}\u{e9}", "n": -1, "f": 1.0});
        let mut text = Vec::new();
        push_value(&mut text, &value);
        assert_eq!(String::from_utf8(text).unwrap(), value.to_string());
    }
}
