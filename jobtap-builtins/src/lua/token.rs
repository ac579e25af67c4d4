//! The tokens of Lua source text.
//!
//! Two readers need them: the dialect of Lua 5.1 rewrites single tokens before Lua 5.4 compiles a script, and
//! `jobtap slurm explain` finds what a script uses. Neither checks the text: anything that is no token of Lua
//! ends the list, and Lua's own compiler reports it.

use std::ops::Range;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name that is no keyword.
    Name,
    /// A keyword, such as `function`.
    Keyword,
    /// A number.
    Number,
    /// A string in quotes.
    Quoted,
    /// A string in long brackets.
    Long,
    /// An operator or a bracket.
    Symbol,
}

/// A token: its kind and its place in the source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes in the source text.
    pub range: Range<usize>,
    /// The number of its line; the first is 1.
    pub line: usize,
}

/// The tokens of a source text, without comments, and the text itself.
#[derive(Debug)]
pub struct Tokens<'s> {
    source: &'s [u8],
    list: Vec<Token>,
}

const KEYWORDS: [&[u8]; 22] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"goto",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

/// Operators and brackets, longer ones before their prefixes.
const SYMBOLS: [&[u8]; 33] = [
    b"...", b"..", b"==", b"~=", b"<=", b">=", b"//", b"::", b"<<", b">>", b"+", b"-", b"*", b"/",
    b"%", b"^", b"#", b"&", b"~", b"|", b"<", b">", b"=", b"(", b")", b"{", b"}", b"[", b"]", b";",
    b":", b",", b".",
];

impl<'s> Tokens<'s> {
    /// Splits a source text. A first line that begins with `#` is no part of the program.
    #[must_use]
    pub fn new(source: &'s [u8]) -> Self {
        let mut reader = Reader { source, at: 0, line: 1 };
        if source.first() == Some(&b'#') {
            reader.skip_line();
        }
        let mut list = Vec::new();
        while let Some(token) = reader.token() {
            list.push(token);
        }
        Self { source, list }
    }

    /// The tokens in their order.
    #[must_use]
    pub fn list(&self) -> &[Token] {
        &self.list
    }

    /// The token at this place of the list.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Token> {
        self.list.get(index)
    }

    /// The bytes of the token at this place; empty past the end.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &'s [u8] {
        let range = self.list.get(index).map(|token| token.range.clone());
        range.and_then(|range| self.source.get(range)).unwrap_or_default()
    }

    /// Whether the token at this place is this symbol or keyword.
    #[must_use]
    pub fn is(&self, index: usize, text: &str) -> bool {
        let fixed = |token: &Token| matches!(token.kind, Kind::Symbol | Kind::Keyword);
        self.list.get(index).is_some_and(fixed) && self.bytes(index) == text.as_bytes()
    }

    /// The name at this place, if the token is one.
    #[must_use]
    pub fn name(&self, index: usize) -> Option<&'s str> {
        let token = self.list.get(index).filter(|token| token.kind == Kind::Name)?;
        std::str::from_utf8(self.source.get(token.range.clone())?).ok()
    }

    /// The text between the quotes at this place, if the token is a string without escapes.
    #[must_use]
    pub fn plain_string(&self, index: usize) -> Option<&'s str> {
        self.list.get(index).filter(|token| token.kind == Kind::Quoted)?;
        let text = std::str::from_utf8(self.bytes(index)).ok()?;
        let inner = text.get(1..text.len().checked_sub(1)?)?;
        Some(inner).filter(|inner| !inner.contains('\\'))
    }
}

struct Reader<'s> {
    source: &'s [u8],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &[u8] {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip_line(&mut self) {
        let length = self.rest().iter().position(|byte| *byte == b'\n');
        self.at += length.unwrap_or(self.rest().len());
    }

    /// Advances by some bytes and counts their lines.
    fn advance(&mut self, bytes: usize) {
        let passed = self.rest().get(..bytes).unwrap_or_default();
        let lines = passed.iter().filter(|byte| **byte == b'\n').count();
        self.line += lines;
        self.at = (self.at + bytes).min(self.source.len());
    }

    fn skip_blanks_and_comments(&mut self) -> Option<()> {
        loop {
            match self.peek(0)? {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => self.advance(1),
                b'-' if self.peek(1) == Some(b'-') => {
                    self.at += 2;
                    match self.long_bracket() {
                        Some(length) => self.advance(length?),
                        None => self.skip_line(),
                    }
                }
                _ => return Some(()),
            }
        }
    }

    /// The next token; `None` at the end of the text, or at anything that is no token.
    fn token(&mut self) -> Option<Token> {
        self.skip_blanks_and_comments()?;
        let (start, line) = (self.at, self.line);
        let (kind, length) = match self.peek(0)? {
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            b'0'..=b'9' => (Kind::Number, self.number()),
            b'.' if self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) => {
                (Kind::Number, self.number())
            }
            quote @ (b'"' | b'\'') => (Kind::Quoted, self.quoted(quote)?),
            b'[' if let Some(length) = self.long_bracket() => (Kind::Long, length?),
            _ => {
                let symbol = SYMBOLS.iter().find(|symbol| self.rest().starts_with(symbol))?;
                (Kind::Symbol, symbol.len())
            }
        };
        self.advance(length);
        Some(Token { kind, range: start..self.at, line })
    }

    fn word(&self) -> (Kind, usize) {
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = self.rest().iter().take_while(|byte| part(byte)).count();
        let word = self.rest().get(..length).unwrap_or_default();
        (if KEYWORDS.contains(&word) { Kind::Keyword } else { Kind::Name }, length)
    }

    /// The length of a number. As in Lua, it includes all characters that could belong to one.
    fn number(&self) -> usize {
        let hex = matches!(self.rest(), [b'0', b'x' | b'X', ..]);
        let (low, high) = if hex { (b'p', b'P') } else { (b'e', b'E') };
        let mut length = if hex { 2 } else { 0 };
        while let Some(byte) = self.peek(length) {
            let exponent =
                (byte == low || byte == high) && matches!(self.peek(length + 1), Some(b'+' | b'-'));
            match byte {
                _ if exponent => length += 2,
                b'.' if self.peek(length + 1) == Some(b'.') => break,
                b'.' => length += 1,
                _ if byte.is_ascii_alphanumeric() => length += 1,
                _ => break,
            }
        }
        length
    }

    /// The length of a string in quotes; `None` if it doesn't end on its line.
    fn quoted(&self, quote: u8) -> Option<usize> {
        let mut length = 1;
        loop {
            match self.peek(length)? {
                byte if byte == quote => return Some(length + 1),
                b'\n' | b'\r' => return None,
                b'\\' => {
                    length += match (self.peek(length + 1)?, self.peek(length + 2)) {
                        (b'\r', Some(b'\n')) | (b'\n', Some(b'\r')) => 3,
                        // Blanks after `\z` are skipped, including newlines.
                        (b'z', _) => {
                            let blanks = self.rest().get(length + 2..).unwrap_or_default();
                            2 + blanks.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
                        }
                        _ => 2,
                    };
                }
                _ => length += 1,
            }
        }
    }

    /// Returns the length of the long bracket (`[[`, `[=[`) that begins here. `None` means that none begins here,
    /// `Some(None)` that it is never closed.
    fn long_bracket(&self) -> Option<Option<usize>> {
        if self.peek(0) != Some(b'[') {
            return None;
        }
        let level = self.rest().iter().skip(1).take_while(|byte| **byte == b'=').count();
        if self.peek(level + 1) != Some(b'[') {
            return None;
        }
        let open = level + 2;
        let close: Vec<u8> = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
        let inner = self.rest().get(open..).unwrap_or_default();
        let end = inner.windows(close.len()).position(|window| window == close);
        Some(end.map(|end| open + end + close.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(source: &str) -> Vec<String> {
        let tokens = Tokens::new(source.as_bytes());
        let text = |index| String::from_utf8_lossy(tokens.bytes(index)).into_owned();
        (0..tokens.list().len()).map(text).collect()
    }

    #[test]
    fn source_is_split_as_lua_splits_it() {
        assert_eq!(texts("a..b...c"), ["a", "..", "b", "...", "c"]);
        assert_eq!(texts("x=1 ..2"), ["x", "=", "1", "..", "2"]);
        assert_eq!(texts("x = 0x1F + 1e-3 - .5"), ["x", "=", "0x1F", "+", "1e-3", "-", ".5"]);
        assert_eq!(texts("t[1]~=t[[x]]"), ["t", "[", "1", "]", "~=", "t", "[[x]]"]);
        assert_eq!(texts("\"a\\\"b\" 'c'"), ["\"a\\\"b\"", "'c'"]);
        assert_eq!(texts("a --x\nb --[[ y\n ]] c --[==[ ]] ]==] d"), ["a", "b", "c", "d"]);
        assert_eq!(texts("#!/usr/bin/lua\nreturn"), ["return"]);
    }

    #[test]
    fn lines_are_counted_over_strings_and_comments() {
        let tokens = Tokens::new(b"a --[[\n\n]] b\n'c\\\nd' e [[\n]] f");
        let lines: Vec<_> = tokens.list().iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 4, 5, 5, 6]);
    }

    #[test]
    fn what_is_no_token_ends_the_list() {
        assert_eq!(texts("a 'b\n c"), ["a"]);
        assert_eq!(texts("a [[b"), ["a"]);
        assert_eq!(texts("a $ b"), ["a"]);
    }

    #[test]
    fn names_keywords_and_plain_strings_are_told_apart() {
        let tokens = Tokens::new(b"if job['name'] == 'a\\n' then");
        assert!(tokens.is(0, "if") && tokens.is(7, "then") && !tokens.is(1, "job"));
        assert_eq!((tokens.name(0), tokens.name(1)), (None, Some("job")));
        assert_eq!((tokens.plain_string(3), tokens.plain_string(6)), (Some("name"), None));
    }

    proptest! {
        #[test]
        fn tokens_of_any_bytes_lie_in_order(source in proptest::collection::vec(any::<u8>(), 0..200)) {
            let tokens = Tokens::new(&source);
            let mut end = 0;
            for token in tokens.list() {
                prop_assert!(token.range.start >= end && token.range.end > token.range.start);
                end = token.range.end;
            }
            prop_assert!(end <= source.len());
        }
    }
}
