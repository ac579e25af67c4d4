//! The counts of RFC 14 and RFC 45: a number, an idset without 0, or a range with a step.

use serde_json::{Value, json};

use super::ShapeError;
use crate::resource::Idset;

/// The count that a text means: a number where it is one, else the text itself, as Flux keeps it.
///
/// # Errors
/// [`ShapeError::Count`].
pub(super) fn count(text: &str) -> Result<Value, ShapeError> {
    if let Some(number) = number(text) {
        return Ok(json!(number));
    }
    let is_count = is_set(text) || is_range(text).unwrap_or(false);
    is_count.then(|| json!(text)).ok_or_else(|| ShapeError::Count(text.to_owned()))
}

/// A number as it is written: in digits, without zeros in front.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !text.starts_with('0')).then(|| text.parse().ok()).flatten()
}

fn is_set(text: &str) -> bool {
    let written_well = text.split([',', '-']).all(|part| number(part).is_some());
    written_well && text.parse::<Idset>().is_ok_and(|ids| !ids.is_empty() && !ids.contains(0))
}

/// `MIN-MAX` or `MIN+`, then `:OPERAND`, then `:OPERATOR`.
fn is_range(text: &str) -> Option<bool> {
    let mut parts = text.split(':');
    let bounds = parts.next()?;
    let (min, max) = match bounds.strip_suffix('+') {
        Some(min) => (number(min)?, None),
        None => {
            let (min, max) = bounds.split_once('-')?;
            (number(min)?, Some(number(max)?))
        }
    };
    let operand = parts.next().map_or(Some(1), number)?;
    let operator = parts.next().unwrap_or("+");
    let advances = match operator {
        "+" => true,
        "*" => operand > 1,
        "^" => operand > 1 && min > 1,
        _ => false,
    };
    Some(advances && max.is_none_or(|max| min <= max) && parts.next().is_none())
}
