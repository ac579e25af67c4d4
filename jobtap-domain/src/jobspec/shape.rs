//! Resource shapes (RFC 46): the `resources` section of a jobspec as one short text, for command
//! lines and messages.

use crate::resource::Idset;
use serde_json::{Map, Value, json};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The label of a slot without a label in the text, as in Flux's tools.
const DEFAULT_LABEL: &str = "task";

/// A resource shape (RFC 46), e.g. `node=2/slot=3/[core=4;gpu=1]`.
///
/// [`FromStr`] parses the text of a shape, and `Display` writes an equivalent text. A shape can express
/// more than a jobspec of version 1 allows, such as ranges of counts, which validation refuses.
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

/// Why a text isn't a resource shape (RFC 46). Positions count characters from 0.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The text ends too early.
    #[error("Unexpected end of input in '{0}'")]
    End(String),
    /// A `{` isn't closed.
    #[error("Unclosed brace in position {0}")]
    UnclosedBrace(usize),
    /// A `[` isn't closed.
    #[error("Unclosed bracket in position {0}")]
    UnclosedBracket(usize),
    /// A quote isn't closed.
    #[error("Unclosed quote in position {0}")]
    UnclosedQuote(usize),
    /// A `}` has no opening brace.
    #[error("Mismatched braces starting at position {0}.")]
    Braces(usize),
    /// A `]` has no opening bracket.
    #[error("Mismatched brackets starting at position {0}.")]
    Brackets(usize),
    /// A character is not allowed at this place.
    #[error("Illegal character '{0}' at position {1}")]
    Character(char, usize),
    /// A token is not allowed at this place.
    #[error("Invalid token '{0}' at position {1}")]
    Unexpected(String, usize),
    /// A count is neither a number, nor an idset without 0, nor a range (RFC 14, RFC 45).
    #[error("Failed to decode '{0}' as idset or range")]
    Count(String),
    /// There are several slots, and not all of them have labels, which tasks refer to.
    #[error("Multiple slots require labels")]
    Labels,
    /// The resources are nested too deeply.
    #[error("a shape can't be nested deeper than {0} levels")]
    Depth(usize),
}

impl Shape {
    /// The shape of a `resources` section, which is checked only as part of a jobspec.
    #[must_use]
    pub fn from_resources(resources: Vec<Value>) -> Self {
        Self(resources)
    }

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
        parse(text).map(Self)
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
        if is_structure(key) || (key == "label" && label.is_some()) {
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

/// Writes a text, with quotes only where they are needed. A text that was parsed contains at most one
/// of the two quotation marks.
fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let plain = is_word(text)
        && text.chars().next().is_some_and(char::is_alphabetic)
        && matches!(bare(text), Value::String(_));
    let quote = match (plain, text.contains('"')) {
        (true, _) => "",
        (false, true) => "'",
        (false, false) => "\"",
    };
    write!(f, "{quote}{text}{quote}")
}

/// The maximum depth of nesting: more than any machine has, and low enough for the stack.
const MAX_DEPTH: usize = 64;

/// Characters that are tokens by themselves.
const SIGNS: &str = "[]{}/;,:=+-";

fn parse(text: &str) -> Result<Vec<Value>, ShapeError> {
    let mut parser = Parser {
        text,
        chars: text.chars().collect(),
        at: 0,
        open: Vec::new(),
        slots: 0,
        unlabelled: 0,
    };
    let list = parser.list(0)?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    if parser.slots > 1 && parser.unlabelled > 0 {
        return Err(ShapeError::Labels);
    }
    Ok(list)
}

/// Whether this member of a vertex has its own syntax in shapes, so that it can't be given as an item.
fn is_structure(key: &str) -> bool {
    matches!(key, "type" | "count" | "with")
}

/// Whether a text needs no quotes.
fn is_word(text: &str) -> bool {
    text.chars().all(in_word)
}

/// The value of a word without quotes.
fn bare(word: &str) -> Value {
    match serde_json::from_str(word) {
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_))) => value,
        _ => json!(word),
    }
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

struct Parser<'t> {
    text: &'t str,
    chars: Vec<char>,
    at: usize,
    /// The open brackets and braces with their positions.
    open: Vec<usize>,
    slots: usize,
    unlabelled: usize,
}

impl Parser<'_> {
    /// The next character that isn't white space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ShapeError> {
        if self.take(wanted) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn open(&mut self, sign: char) -> bool {
        let found = self.take(sign);
        if found {
            self.open.push(self.at - 1);
        }
        found
    }

    fn close(&mut self, sign: char) -> Result<(), ShapeError> {
        self.expect(sign)?;
        self.open.pop();
        Ok(())
    }

    /// The error for the next character, which is not allowed here.
    fn unexpected(&mut self) -> ShapeError {
        let Some(next) = self.peek() else {
            let sign = self.open.last().and_then(|at| Some((*at, *self.chars.get(*at)?)));
            return match sign {
                Some((at, '{')) => ShapeError::UnclosedBrace(at),
                Some((at, _)) => ShapeError::UnclosedBracket(at),
                None => ShapeError::End(self.text.to_owned()),
            };
        };
        let is_open = |sign| self.open.iter().any(|at| self.chars.get(*at) == Some(&sign));
        let at = self.at;
        match next {
            '}' if !is_open('{') => ShapeError::Braces(at),
            ']' if !is_open('[') => ShapeError::Brackets(at),
            sign if SIGNS.contains(sign) => ShapeError::Unexpected(sign.to_string(), at),
            c if c.is_alphanumeric() || c == '_' => ShapeError::Unexpected(self.run(in_word), at),
            other => ShapeError::Character(other, at),
        }
    }

    /// Takes characters as long as `belongs` holds for them.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let run: String = rest.iter().copied().take_while(|c| belongs(*c)).collect();
        self.at += run.chars().count();
        run
    }

    /// Reads a word or a quoted text, and returns whether it was quoted.
    fn word(&mut self) -> Result<(String, bool), ShapeError> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                let start = self.at;
                self.at += 1;
                let text = self.run(|c| c != quote);
                let closed = self.chars.get(self.at) == Some(&quote);
                self.at += 1;
                if closed { Ok((text, true)) } else { Err(ShapeError::UnclosedQuote(start)) }
            }
            Some(c) if c.is_alphanumeric() || c == '_' => Ok((self.run(in_word), false)),
            _ => Err(self.unexpected()),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, ShapeError> {
        if depth > MAX_DEPTH {
            return Err(ShapeError::Depth(MAX_DEPTH));
        }
        if !self.open('[') {
            return Ok(vec![self.vertex(depth)?]);
        }
        let mut list = vec![self.vertex(depth)?];
        while self.take(';') {
            list.push(self.vertex(depth)?);
        }
        self.close(']')?;
        Ok(list)
    }

    fn vertex(&mut self, depth: usize) -> Result<Value, ShapeError> {
        let (mut kind, _) = self.word()?;
        let is_slot = kind.eq_ignore_ascii_case("slot");
        if is_slot {
            kind.make_ascii_lowercase();
        }
        let mut vertex = Map::new();
        vertex.insert("type".to_owned(), json!(kind));
        let count = if self.take('=') { self.count()? } else { json!(1) };
        vertex.insert("count".to_owned(), count);
        if self.open('{') {
            self.items(is_slot, &mut vertex)?;
            self.close('}')?;
        }
        if is_slot {
            self.slots += 1;
            if !vertex.contains_key("label") {
                self.unlabelled += 1;
                vertex.insert("label".to_owned(), json!(DEFAULT_LABEL));
            }
            self.expect('/')?;
            vertex.insert("with".to_owned(), self.list(depth + 1)?.into());
        } else if self.take('/') {
            vertex.insert("with".to_owned(), self.list(depth + 1)?.into());
        }
        Ok(vertex.into())
    }

    fn count(&mut self) -> Result<Value, ShapeError> {
        let bracket = self.open('[');
        match self.peek() {
            Some('1'..='9') => {}
            Some(c) if !SIGNS.contains(c) => return Err(ShapeError::Character(c, self.at)),
            _ => return Err(self.unexpected()),
        }
        let text = self.run(|c| c.is_ascii_digit() || ",-+:*^".contains(c) || c.is_whitespace());
        if bracket {
            self.close(']')?;
        }
        count(&text.split_whitespace().collect::<String>())
    }

    fn items(&mut self, of_slot: bool, vertex: &mut Map<String, Value>) -> Result<(), ShapeError> {
        self.item(of_slot, vertex)?;
        while self.take(',') {
            self.item(false, vertex)?;
        }
        Ok(())
    }

    /// Reads one item. The first bare word of a slot is its label.
    fn item(&mut self, label: bool, vertex: &mut Map<String, Value>) -> Result<(), ShapeError> {
        let sign = match self.peek() {
            Some(sign @ ('+' | '-')) => {
                self.at += 1;
                Some(sign)
            }
            _ => None,
        };
        self.peek();
        let start = self.at;
        let (mut key, _) = self.word()?;
        if sign.is_none() && self.take(':') {
            let value = self.value(0)?;
            return self.insert(vertex, key, value, start);
        }
        if label && sign.is_none() {
            return self.insert(vertex, "label".to_owned(), json!(key), start);
        }
        if key == "x" {
            key = "exclusive".to_owned();
        }
        self.insert(vertex, key, json!(sign != Some('-')), start)
    }

    /// Inserts a member. Fails if it occurs twice or has its own syntax.
    fn insert(
        &self,
        vertex: &mut Map<String, Value>,
        key: String,
        value: Value,
        at: usize,
    ) -> Result<(), ShapeError> {
        if is_structure(&key) || vertex.contains_key(&key) {
            return Err(ShapeError::Unexpected(key, at));
        }
        vertex.insert(key, value);
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, ShapeError> {
        if depth > MAX_DEPTH {
            return Err(ShapeError::Depth(MAX_DEPTH));
        }
        if self.open('[') {
            let mut list = Vec::new();
            while self.peek() != Some(']') {
                list.push(self.value(depth + 1)?);
                if !self.take(',') {
                    break;
                }
            }
            self.close(']')?;
            return Ok(list.into());
        }
        if self.open('{') {
            let mut members = Map::new();
            while self.peek() != Some('}') {
                let (key, _) = self.word()?;
                self.expect(':')?;
                members.insert(key, self.value(depth + 1)?);
                if !self.take(',') {
                    break;
                }
            }
            self.close('}')?;
            return Ok(members.into());
        }
        self.peek();
        let start = self.at;
        if self.take('-') {
            let word = format!("-{}", self.run(|c| in_word(c) || c == '+'));
            return match bare(&word) {
                number @ Value::Number(_) => Ok(number),
                _ => Err(ShapeError::Unexpected(word, start)),
            };
        }
        match self.word()? {
            (text, true) => Ok(json!(text)),
            (word, false) => Ok(bare(&word)),
        }
    }
}

/// Reads a count (RFC 14, RFC 45): a number, an idset without 0, or a range with a step. The latter two
/// are kept as text, as in Flux.
///
/// # Errors
/// [`ShapeError::Count`].
fn count(text: &str) -> Result<Value, ShapeError> {
    if let Some(number) = number(text) {
        return Ok(json!(number));
    }
    let is_count = is_set(text) || is_range(text).unwrap_or(false);
    is_count.then(|| json!(text)).ok_or_else(|| ShapeError::Count(text.to_owned()))
}

/// Reads a number in digits without leading zeros.
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

#[cfg(test)]
mod tests;
