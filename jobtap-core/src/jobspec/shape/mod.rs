//! Resource shapes (RFC 46): the `resources` section of a jobspec as one short text, for command
//! lines and messages.

mod count;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value, json};
use thiserror::Error;

/// The label of a slot whose text has none: the one that Flux's tools give.
pub(super) const DEFAULT_LABEL: &str = "task";

/// A resource shape (RFC 46), e.g. `node=2/slot=3/[core=4;gpu=1]`.
///
/// The text of a shape is read with [`FromStr`], and `Display` gives a text that means the
/// same. Shapes can say more than a jobspec of version 1 may hold, such as ranges of counts:
/// validation refuses those.
///
/// ```
/// use jobtap_core::jobspec::{JobspecBuilder, Shape};
///
/// let shape: Shape = "node=2/slot=3/[core=4;gpu=1]".parse()?;
/// let counts = JobspecBuilder::new(["app"]).shape(shape).build()?.counts();
/// assert_eq!((counts.nnodes, counts.nslots, counts.slot_size, counts.slot_gpus), (2, 6, 4, 1));
///
/// let refused = "slot=2{blah".parse::<Shape>();
/// assert_eq!(refused.unwrap_err().to_string(), "Unclosed brace in position 6");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Shape(Vec<Value>);

/// Why a text is no resource shape (RFC 46). Positions count characters from 0.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The text ends where something must follow.
    #[error("Unexpected end of input in '{0}'")]
    End(String),
    /// A `{` that nothing closes.
    #[error("Unclosed brace in position {0}")]
    UnclosedBrace(usize),
    /// A `[` that nothing closes.
    #[error("Unclosed bracket in position {0}")]
    UnclosedBracket(usize),
    /// A quote that nothing closes.
    #[error("Unclosed quote in position {0}")]
    UnclosedQuote(usize),
    /// A `}` that closes nothing.
    #[error("Mismatched braces starting at position {0}.")]
    Braces(usize),
    /// A `]` that closes nothing.
    #[error("Mismatched brackets starting at position {0}.")]
    Brackets(usize),
    /// A character that can't be there.
    #[error("Illegal character '{0}' at position {1}")]
    Character(char, usize),
    /// A word or sign that can't be there.
    #[error("Invalid token '{0}' at position {1}")]
    Unexpected(String, usize),
    /// A count that is neither a number, nor an idset without 0, nor a range (RFC 14, RFC 45).
    #[error("Failed to decode '{0}' as idset or range")]
    Count(String),
    /// Tasks can't tell slots without labels from each other.
    #[error("Multiple slots require labels")]
    Labels,
    /// Resources inside each other beyond any hardware.
    #[error("a shape can't be nested deeper than {0} levels")]
    Depth(usize),
}

impl Shape {
    /// The `resources` section of a jobspec (RFC 14, RFC 25).
    #[must_use]
    pub fn resources(&self) -> &[Value] {
        &self.0
    }

    /// The label of the first slot, for the task that runs in it.
    #[must_use]
    pub fn slot(&self) -> Option<&str> {
        let mut left: Vec<&Value> = self.0.iter().rev().collect();
        while let Some(vertex) = left.pop() {
            if vertex.get("type") == Some(&json!("slot")) {
                return vertex.get("label")?.as_str();
            }
            left.extend(children(vertex).iter().rev());
        }
        None
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        parse::parse(text).map(Self)
    }
}

fn children(vertex: &Value) -> &[Value] {
    vertex.get("with").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(&self.0, f)
    }
}

fn write_list(list: &[Value], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let [vertex] = list {
        return write_vertex(vertex, f);
    }
    let mut before = "[";
    for vertex in list {
        f.write_str(before)?;
        write_vertex(vertex, f)?;
        before = ";";
    }
    f.write_str("]")
}

fn write_vertex(vertex: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(members) = vertex.as_object() else { return Ok(()) };
    let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
    write_text(kind, f)?;
    match members.get("count") {
        Some(Value::Number(count)) if count.as_u64() != Some(1) => write!(f, "={count}")?,
        Some(Value::String(count)) => write!(f, "={count}")?,
        _ => {}
    }
    write_items(kind, members, f)?;
    match children(vertex) {
        [] => Ok(()),
        with => {
            f.write_str("/")?;
            write_list(with, f)
        }
    }
}

fn write_items(
    kind: &str,
    members: &Map<String, Value>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut before = "{";
    let label = members.get("label").and_then(Value::as_str).filter(|_| kind == "slot");
    if let Some(label) = label {
        f.write_str(before)?;
        write_text(label, f)?;
        before = ",";
    }
    for (key, value) in members {
        if parse::is_structure(key) || (key == "label" && label.is_some()) {
            continue;
        }
        f.write_str(before)?;
        before = ",";
        let sign = match value {
            Value::Bool(true) if key != "x" => "+",
            Value::Bool(false) if key != "x" => "-",
            _ => "",
        };
        f.write_str(sign)?;
        write_text(if key == "exclusive" && !sign.is_empty() { "x" } else { key }, f)?;
        if sign.is_empty() {
            f.write_str(":")?;
            write_value(value, f)?;
        }
    }
    if before == "," { f.write_str("}") } else { Ok(()) }
}

fn write_value(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::String(text) => write_text(text, f),
        Value::Array(list) => {
            f.write_str("[")?;
            for (index, value) in list.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { "," })?;
                write_value(value, f)?;
            }
            f.write_str("]")
        }
        Value::Object(members) => {
            f.write_str("{")?;
            for (index, (key, value)) in members.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { "," })?;
                write_text(key, f)?;
                f.write_str(":")?;
                write_value(value, f)?;
            }
            f.write_str("}")
        }
        plain => write!(f, "{plain}"),
    }
}

/// A text, in quotes unless it reads as itself without them. A text that was read has at most one
/// of the two quotes in it.
fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let plain = parse::is_word(text)
        && text.chars().next().is_some_and(char::is_alphabetic)
        && matches!(parse::bare(text), Value::String(_));
    let quote = match (plain, text.contains('"')) {
        (true, _) => "",
        (false, true) => "'",
        (false, false) => "\"",
    };
    write!(f, "{quote}{text}{quote}")
}
