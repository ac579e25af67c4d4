//! Cuts a constraint query (RFC 35) into tokens.

use super::QueryError;
use std::iter::{Enumerate, Peekable};
use std::str::Chars;

/// A piece of a query and where it begins, in characters from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// As written; without the quotes if it was quoted.
    pub(super) text: String,
    pub(super) position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Open,
    Close,
    And,
    Or,
    Not,
    /// `-` in front of a term.
    Minus,
    Word,
    Quoted,
}

/// The characters that end a word.
fn ends_word(c: char) -> bool {
    c.is_whitespace() || "()&|\"'".contains(c)
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut chars = text.chars().enumerate().peekable();
    let mut tokens = Vec::new();
    while let Some((position, first)) = chars.next() {
        let (kind, text) = match first {
            _ if first.is_whitespace() => continue,
            '(' => (Kind::Open, first.into()),
            ')' => (Kind::Close, first.into()),
            '&' => (Kind::And, doubled(&mut chars, first)),
            '|' => (Kind::Or, doubled(&mut chars, first)),
            '-' => (Kind::Minus, first.into()),
            '\'' | '"' => (Kind::Quoted, quoted(&mut chars, first, position)?),
            _ => {
                let mut word = String::from(first);
                while let Some((_, c)) = chars.next_if(|(_, c)| !ends_word(*c)) {
                    word.push(c);
                }
                (keyword(&word), word)
            }
        };
        tokens.push(Token { kind, text, position });
    }
    Ok(tokens)
}

fn keyword(word: &str) -> Kind {
    match word {
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        _ => Kind::Word,
    }
}

type Rest<'a> = Peekable<Enumerate<Chars<'a>>>;

/// One or two of the same character, as in `&` and `&&`.
fn doubled(chars: &mut Rest<'_>, first: char) -> String {
    let second = chars.next_if(|(_, c)| *c == first);
    std::iter::once(first).chain(second.map(|(_, c)| c)).collect()
}

fn quoted(chars: &mut Rest<'_>, quote: char, position: usize) -> Result<String, QueryError> {
    let mut text = String::new();
    for (_, c) in chars {
        if c == quote {
            return Ok(text);
        }
        text.push(c);
    }
    Err(QueryError::Quote { quote, position })
}
