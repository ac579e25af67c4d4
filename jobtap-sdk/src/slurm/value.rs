//! The values of Slurm's fields as a script sees them, and how a value is written into a field.
//!
//! Slurm's job descriptor is a C structure, and its scripts see it through Lua: a text that is not set
//! is `nil`, a number that is not set is a large constant, and whatever is written is converted to the
//! width of the C member. The rules are implemented here once, for every field.

use std::fmt;
use thiserror::Error;

/// The value of a field, as Lua sees it.
///
/// ```
/// use jobtap_core::slurm::{JobDescriptor, NO_VAL, Value};
///
/// let mut desc = JobDescriptor::default();
/// assert_eq!(desc.get("account"), Some(Value::Nil));
/// assert_eq!(desc.get("time_limit"), Some(Value::Number(f64::from(NO_VAL))));
///
/// desc.set("time_limit", Value::from("90"))?;
/// assert_eq!(desc.time_limit, Some(90));
/// # Ok::<(), jobtap_core::slurm::SetError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value: a text that is not set.
    Nil,
    /// Yes or no.
    Boolean(bool),
    /// A number. Lua's numbers are of double precision, so 64-bit values lose their last digits here.
    Number(f64),
    /// A text.
    Text(String),
    /// Several texts, such as the arguments of a script.
    List(Vec<String>),
}

impl Value {
    /// Lua's name for the value's type, as in its messages.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "table",
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl fmt::Display for Value {
    /// Writes the value as Lua's `print` would, a list with spaces between its texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Boolean(boolean) => boolean.fmt(f),
            Self::Number(number) => f.write_str(&number_text(*number)),
            Self::Text(text) => f.write_str(text),
            Self::List(list) => f.write_str(&list.join(" ")),
        }
    }
}

/// Why a value was not written into a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetError {
    /// Slurm has no field of this name.
    #[error("unrecognized field: {0}")]
    Unknown(String),
    /// The field can be read but not written.
    #[error("field {0} can't be written")]
    ReadOnly(String),
    /// The value is of a type that the field doesn't take. The text is Lua's.
    #[error("{expected} expected, got {got}")]
    Type {
        /// What the field takes: `string` or `number`.
        expected: &'static str,
        /// The type of the value.
        got: &'static str,
    },
}

/// The type of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A text; `nil` when it is not set.
    Text,
    /// A number. What it reads as when it is not set depends on the field.
    Number,
    /// Yes or no.
    Boolean,
    /// A list of texts, which Lua sees as a table with this first index; `nil` when it is empty.
    List {
        /// The index of the first text.
        first: u8,
    },
    /// The environment of the job: a table by the names of the variables.
    Environment,
}

impl Kind {
    /// The name of the type in Lua.
    #[must_use]
    pub fn lua_type(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::List { .. } | Self::Environment => "table",
        }
    }
}

/// A text as Lua's `luaL_checkstring` takes it: a string or a number. An empty one clears the field.
pub(super) fn text_from(value: Value) -> Result<Option<String>, SetError> {
    let text = match value {
        Value::Text(text) => text,
        Value::Number(number) => number_text(number),
        other => return Err(SetError::Type { expected: "string", got: other.type_name() }),
    };
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A number as Lua's `luaL_checknumber` takes it: a number, or a string that reads as one.
pub(super) fn number_from(value: &Value) -> Result<f64, SetError> {
    let number = match value {
        Value::Number(number) => Some(*number),
        Value::Text(text) => number_of(text),
        _ => None,
    };
    number.ok_or(SetError::Type { expected: "number", got: value.type_name() })
}

/// The number that a text stands for in Lua: decimal or hexadecimal, with blanks around it.
fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|number| sign * number as f64);
    }
    // Rust reads `inf` and `nan` too, which are not numbers in Lua.
    let plain = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let number = digits.parse::<f64>().ok().filter(|_| plain)?;
    Some(sign * number)
}

/// A number as Lua 5.1 writes it: an integer without a fraction, else with up to 14 digits.
fn number_text(number: f64) -> String {
    if number.trunc() == number && number.abs() < 1e14 {
        return (number as i64).to_string();
    }
    if !number.is_finite() {
        let text = if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        };
        return text.to_owned();
    }
    // The exponent after rounding to the 14 digits that are shown.
    let text = format!("{number:.13e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    if let Some(digits) =
        exponent.parse().ok().filter(|e| (-4..14).contains(e)).map(|e: i32| 13 - e)
    {
        let text = format!("{number:.0$}", digits.unsigned_abs() as usize);
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// An unsigned integer with the width of a member of Slurm's structures.
pub(super) trait Width: Copy + PartialEq + Into<u64> {
    /// Converts a Lua number as Slurm's C code does on x86-64: the fraction is cut off, and what doesn't
    /// fit into the width wraps around, or becomes 0 where it doesn't fit into the register either.
    fn from_lua(number: f64) -> Self;
}

impl Width for u8 {
    fn from_lua(number: f64) -> Self {
        register32(number) as Self
    }
}

impl Width for u16 {
    fn from_lua(number: f64) -> Self {
        register32(number) as Self
    }
}

impl Width for u32 {
    fn from_lua(number: f64) -> Self {
        register64(number) as Self
    }
}

impl Width for u64 {
    fn from_lua(number: f64) -> Self {
        match number {
            // NO_VAL64 and INFINITE64 have this value in Lua, too: they can't be written.
            number if number >= 18_446_744_073_709_551_616.0 => 0,
            number if number >= 9_223_372_036_854_775_808.0 => number as Self,
            number => register64(number) as Self,
        }
    }
}

fn register32(number: f64) -> i32 {
    let whole = number.trunc();
    let fits = whole >= f64::from(i32::MIN) && whole <= f64::from(i32::MAX);
    // What doesn't fit becomes the smallest integer, whose low bits are zero.
    if fits { whole as i32 } else { i32::MIN }
}

fn register64(number: f64) -> i64 {
    let whole = number.trunc();
    let fits = whole >= i64::MIN as f64 && whole < -(i64::MIN as f64);
    if fits { whole as i64 } else { i64::MIN }
}

/// A number, as Lua reads it.
pub(super) fn number<W: Width>(number: W) -> Value {
    Value::Number(number.into() as f64)
}

/// A number that may be unset, which then reads as `unset`.
pub(super) fn number_or<W: Width>(number: Option<W>, unset: W) -> Value {
    self::number(number.unwrap_or(unset))
}

/// Converts a value to a number; the number `unset` becomes `None`.
pub(super) fn optional_from<W: Width>(value: &Value, unset: W) -> Result<Option<W>, SetError> {
    Ok(Some(W::from_lua(number_from(value)?)).filter(|number| *number != unset))
}

/// Converts a value to a point in time. 0 and times before 1970 count as not set.
pub(super) fn time_from(value: &Value) -> Result<Option<u64>, SetError> {
    let seconds = register64(number_from(value)?);
    Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0))
}

/// A text, as Lua reads it.
pub(super) fn text(text: Option<&String>) -> Value {
    text.map_or(Value::Nil, |text| Value::Text(text.clone()))
}

/// A list, as Lua reads it.
pub(super) fn list(list: &[String]) -> Value {
    if list.is_empty() { Value::Nil } else { Value::List(list.to_vec()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::constants::{NO_VAL, NO_VAL16, NO_VAL64};

    #[test]
    fn numbers_become_text_as_in_lua() {
        for (number, text) in [
            (5.0, "5"),
            (-5.0, "-5"),
            (0.0, "0"),
            (-0.0, "0"),
            (0.5, "0.5"),
            (-10.25, "-10.25"),
            (1.0 / 3.0, "0.33333333333333"),
            (99_999_999_999_999.0, "99999999999999"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e14, "1e+14"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (1e-7, "1e-07"),
            (18_446_744_073_709_551_616.0, "1.844674407371e+19"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn text_becomes_a_number_where_lua_reads_one() {
        assert_eq!(number_of(" 12 "), Some(12.0));
        assert_eq!(number_of("-0x10"), Some(-16.0));
        assert_eq!(number_of(".5"), Some(0.5));
        assert_eq!(number_of("1e3"), Some(1000.0));
        for text in ["", "abc", "12m", "inf", "nan", "0x", "--1", "+"] {
            assert_eq!(number_of(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_cut_to_the_width_as_in_c() {
        assert_eq!(u32::from_lua(1.9), 1);
        assert_eq!(u32::from_lua(-1.0), u32::MAX);
        assert_eq!(u32::from_lua(4_294_967_296.0), 0);
        assert_eq!(u16::from_lua(70_000.0), 4464);
        assert_eq!(u16::from_lua(f64::from(NO_VAL16)), NO_VAL16);
        // NO_VAL in a member of 16 bits, a mistake of many scripts.
        assert_eq!(u16::from_lua(f64::from(NO_VAL)), 0);
        assert_eq!(u64::from_lua(-1.0), u64::MAX);
        assert_eq!(
            (u64::from_lua(NO_VAL64 as f64), u64::from_lua(1.5e19)),
            (0, 15_000_000_000_000_000_000)
        );
        assert_eq!(
            (u32::from_lua(f64::NAN), u16::from_lua(f64::NAN), u32::from_lua(1e300)),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused_in_lua_words() {
        let refused = text_from(Value::Nil).unwrap_err().to_string();
        assert_eq!(refused, "string expected, got nil");
        let refused = number_from(&Value::from("abc")).unwrap_err().to_string();
        assert_eq!(refused, "number expected, got string");
        assert_eq!(text_from(Value::from("")), Ok(None));
        assert_eq!(text_from(Value::from(5.0)), Ok(Some("5".to_owned())));
    }
}
