//! What most targets assert: a value that was read is written in a form that is read back as the same value.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The input as text; `None` if it isn't.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Reads a text, and asserts that the value is read back from its own text. Returns the value.
pub(crate) fn parsed<T>(text: &str) -> Option<T>
where
    T: FromStr + Display + PartialEq + Debug,
{
    let value: T = text.parse().ok()?;
    let written = value.to_string();
    assert_eq!(written.parse().ok().as_ref(), Some(&value), "{text:?} is written as {written:?}");
    Some(value)
}

/// Reads JSON, and asserts that the value is read back from its own JSON. Returns the value.
pub(crate) fn json<T>(bytes: &[u8]) -> Option<T>
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let value: T = serde_json::from_slice(bytes).ok()?;
    let written = written(&value);
    let again = serde_json::from_str(&written);
    assert_eq!(again.ok().as_ref(), Some(&value), "it is written as {written}");
    Some(value)
}

/// The JSON of a value.
pub(crate) fn written(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(text) => text,
        Err(error) => panic!("the value has no JSON: {error}"),
    }
}

/// Asserts that what `normal` makes of the input is a fixed point: it is read, and written as it is.
pub(crate) fn settles<T: AsRef<[u8]>>(bytes: &[u8], normal: impl Fn(&[u8]) -> Option<T>) {
    let Some(first) = normal(bytes) else { return };
    let second = normal(first.as_ref());
    let second = second.as_ref().map(|second| String::from_utf8_lossy(second.as_ref()));
    assert_eq!(second, Some(String::from_utf8_lossy(first.as_ref())));
}
