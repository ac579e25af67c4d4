//! Reads the text of a shape.

use serde_json::{Map, Value, json};

use super::count::count;
use super::{DEFAULT_LABEL, ShapeError};

/// No machine has so many levels, and the stack has room for them.
const MAX_DEPTH: usize = 64;

/// Signs that are tokens by themselves.
const SIGNS: &str = "[]{}/;,:=+-";

pub(super) fn parse(text: &str) -> Result<Vec<Value>, ShapeError> {
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

/// Whether the shape's own signs say this member of a vertex, so that no item may.
pub(super) fn is_structure(key: &str) -> bool {
    matches!(key, "type" | "count" | "with")
}

/// Whether a text can stand without quotes.
pub(super) fn is_word(text: &str) -> bool {
    text.chars().all(in_word)
}

/// The value of a word without quotes.
pub(super) fn bare(word: &str) -> Value {
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
    /// Positions of the brackets and braces that are open.
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

    /// What is wrong with the next character, whatever it is.
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

    /// The characters from here on that belong together.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let run: String = rest.iter().copied().take_while(|c| belongs(*c)).collect();
        self.at += run.chars().count();
        run
    }

    /// A word or quoted text, and whether it was quoted.
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

    /// One item; the first bare word of a slot is its label.
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

    /// A member that is there already was said twice, or is said by the shape's own signs.
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
