//! The form of a constraint object (RFC 31). Whether its host names and ranks exist, and which
//! resources it selects, is the scheduler's to say.

use serde_json::Value;

use crate::jobspec::JobspecError;
use crate::jobspec::error::Place;

const RESERVED: [char; 9] = ['!', '&', '\'', '"', '^', '`', '|', '(', ')'];

pub(super) fn check(constraint: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    let Value::Object(constraint) = constraint else {
        return Err(at.refuse("constraints must be a mapping"));
    };
    let mut members = constraint.iter();
    let Some((operator, value)) = members.next() else {
        return Ok(());
    };
    if members.next().is_some() {
        return Err(at.refuse("constraint must only contain 1 element"));
    }
    match operator.as_str() {
        "and" | "or" | "not" => {
            let text = || at.refuse(format!("{operator} operator value must be an array"));
            let at = at.key(operator);
            let operands = value.as_array().ok_or_else(text)?;
            operands.iter().enumerate().try_for_each(|(i, operand)| check(operand, &at.index(i)))
        }
        "properties" => check_strings(operator, value, "property", at, check_property),
        "hostlist" => check_strings(operator, value, "hostlist", at, |_, _| Ok(())),
        "ranks" => check_strings(operator, value, "idset", at, |_, _| Ok(())),
        _ => Err(at.refuse(format!("unknown constraint operator '{operator}'"))),
    }
}

fn check_strings(
    operator: &str,
    value: &Value,
    what: &str,
    at: &Place<'_>,
    check: impl Fn(&str, &Place<'_>) -> Result<(), JobspecError>,
) -> Result<(), JobspecError> {
    let Value::Array(operands) = value else {
        return Err(at.refuse(format!("{operator} value must be an array")));
    };
    operands.iter().try_for_each(|operand| match operand {
        Value::String(text) => check(text, at),
        _ => Err(at.refuse(format!("non-string {what} specified"))),
    })
}

/// A leading `^` negates; what is left must be a plain, non-empty name.
fn check_property(property: &str, at: &Place<'_>) -> Result<(), JobspecError> {
    let name = property.strip_prefix('^').unwrap_or(property);
    if name.is_empty() || name.contains(RESERVED) {
        return Err(at.refuse(format!("invalid character in property '{property}'")));
    }
    Ok(())
}
