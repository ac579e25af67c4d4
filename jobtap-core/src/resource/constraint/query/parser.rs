//! The grammar of constraint queries (RFC 35): negation binds tightest, then `and`, then `or`.

use super::token::{Kind, Token, tokens};
use super::{Constraint, ConstraintFault, QueryError};
use std::iter::Peekable;
use std::vec::IntoIter;

/// A query, before its terms have a meaning.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Term(Term),
    Not(Box<Self>),
    /// Two or more.
    And(Vec<Self>),
    /// Two or more.
    Or(Vec<Self>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    /// `None` when the term has no colon.
    pub(super) operator: Option<String>,
    pub(super) operand: String,
    /// Where the term begins, in characters from 0.
    pub(super) position: usize,
}

pub(super) fn parse(text: &str) -> Result<Expr, QueryError> {
    let mut parser = Parser { text, tokens: tokens(text)?.into_iter().peekable() };
    let expr = parser.any_of(0)?;
    match parser.tokens.next() {
        None => Ok(expr),
        Some(Token { kind: Kind::Close, position, .. }) => Err(QueryError::Mismatched(position)),
        Some(token) => Err(invalid(token)),
    }
}

fn invalid(token: Token) -> QueryError {
    QueryError::Unexpected { token: token.text, position: token.position }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Peekable<IntoIter<Token>>,
}

impl Parser<'_> {
    fn any_of(&mut self, depth: usize) -> Result<Expr, QueryError> {
        let mut expr = self.all_of(depth)?;
        while self.tokens.next_if(|token| token.kind == Kind::Or).is_some() {
            let next = self.all_of(depth)?;
            expr = match expr {
                Expr::Or(mut list) => {
                    list.push(next);
                    Expr::Or(list)
                }
                first => Expr::Or(vec![first, next]),
            };
        }
        Ok(expr)
    }

    fn all_of(&mut self, depth: usize) -> Result<Expr, QueryError> {
        let mut expr = self.one(depth)?;
        while let Some(kind) = self.tokens.peek().map(|token| token.kind) {
            match kind {
                Kind::And => drop(self.tokens.next()),
                Kind::Or | Kind::Close => break,
                Kind::Open | Kind::Not | Kind::Minus | Kind::Word | Kind::Quoted => {}
            }
            let next = self.one(depth)?;
            expr = match expr {
                Expr::And(mut list) => {
                    list.push(next);
                    Expr::And(list)
                }
                first => Expr::And(vec![first, next]),
            };
        }
        Ok(expr)
    }

    fn one(&mut self, depth: usize) -> Result<Expr, QueryError> {
        let token = self.next()?;
        if depth > Constraint::MAX_DEPTH {
            let position = token.position;
            return Err(QueryError::Term { fault: ConstraintFault::Depth, position });
        }
        match token.kind {
            Kind::Word | Kind::Quoted => self.term(token).map(Expr::Term),
            Kind::Not => Ok(Expr::Not(Box::new(self.one(depth + 1)?))),
            Kind::Minus => {
                let token = self.next()?;
                match token.kind {
                    Kind::Word | Kind::Quoted => {
                        Ok(Expr::Not(Box::new(Expr::Term(self.term(token)?))))
                    }
                    _ => Err(invalid(token)),
                }
            }
            Kind::Open => {
                let inner = self.any_of(depth + 1)?;
                match self.tokens.next() {
                    Some(token) if token.kind == Kind::Close => Ok(inner),
                    Some(token) => Err(invalid(token)),
                    None => Err(QueryError::Unclosed(token.position)),
                }
            }
            Kind::Close if depth == 0 => Err(QueryError::Mismatched(token.position)),
            Kind::Close | Kind::And | Kind::Or => Err(invalid(token)),
        }
    }

    fn next(&mut self) -> Result<Token, QueryError> {
        self.tokens.next().ok_or_else(|| QueryError::End(self.text.to_owned()))
    }

    fn term(&mut self, token: Token) -> Result<Term, QueryError> {
        let Token { kind, mut text, position } = token;
        if kind == Kind::Word && text.ends_with(':') {
            let operand = |token: &Token| matches!(token.kind, Kind::Word | Kind::Quoted);
            match self.tokens.next_if(operand) {
                Some(next) => text.push_str(&next.text),
                None => return Err(QueryError::Argument { token: text, position }),
            }
        }
        let Some((operator, operand)) = text.split_once(':') else {
            return Ok(Term { operator: None, operand: text, position });
        };
        let foreign = |c: char| !c.is_ascii_alphanumeric() && !"_.+@-".contains(c);
        let offending = operator.chars().enumerate().find(|(_, c)| foreign(*c));
        if let Some((offset, character)) = offending {
            let quote = usize::from(kind == Kind::Quoted);
            return Err(QueryError::Operator {
                character,
                operator: operator.to_owned(),
                position: position + quote + offset,
            });
        }
        if operator.is_empty() {
            return Err(QueryError::Unexpected { token: text, position });
        }
        if operand.is_empty() {
            return Err(QueryError::Argument { token: text, position });
        }
        Ok(Term { operator: Some(operator.to_owned()), operand: operand.to_owned(), position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// As RFC 35 shows it, with `t` as the default operator.
    fn shown(expr: &Expr) -> Value {
        let all = |list: &[Expr]| list.iter().map(shown).collect::<Value>();
        match expr {
            Expr::Term(term) => json!({term.operator.as_deref().unwrap_or("t"): [term.operand]}),
            Expr::Not(inner) => json!({"not": [shown(inner)]}),
            Expr::And(list) => json!({"and": all(list)}),
            Expr::Or(list) => json!({"or": all(list)}),
        }
    }

    fn t(name: &str) -> Value {
        json!({"t": [name]})
    }

    #[test]
    fn flux_vectors() {
        let three = |operator: &str| json!({operator: [t("a"), t("b"), t("c")]});
        for (text, expected) in [
            ("a", t("a")),
            ("-a", json!({"not": [t("a")]})),
            ("not a", json!({"not": [t("a")]})),
            ("not not a", json!({"not": [{"not": [t("a")]}]})),
            ("a b c", three("and")),
            ("a & b and c", three("and")),
            ("a&&b c", three("and")),
            ("(a b) c", three("and")),
            ("a (b c)", json!({"and": [t("a"), {"and": [t("b"), t("c")]}]})),
            ("a|b|c", three("or")),
            ("a or b || c", three("or")),
            ("a|b&c", json!({"or": [t("a"), {"and": [t("b"), t("c")]}]})),
            ("a|b c", json!({"or": [t("a"), {"and": [t("b"), t("c")]}]})),
            ("a&b|c", json!({"or": [{"and": [t("a"), t("b")]}, t("c")]})),
            ("(a|b)&c", json!({"and": [{"or": [t("a"), t("b")]}, t("c")]})),
            ("(a&(b|-c))", json!({"and": [t("a"), {"or": [t("b"), {"not": [t("c")]}]}]})),
            ("a or time:11:00am", json!({"or": [t("a"), {"time": ["11:00am"]}]})),
            ("x:y:z", json!({"x": ["y:z"]})),
            ("name:'a b'", json!({"name": ["a b"]})),
            ("name: \"it's\"", json!({"name": ["it's"]})),
            ("not a b", json!({"and": [{"not": [t("a")]}, t("b")]})),
            ("android nota AND", json!({"and": [t("android"), t("nota"), t("AND")]})),
            ("'and' a-b", json!({"and": [t("and"), t("a-b")]})),
        ] {
            assert_eq!(shown(&parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn errors_are_those_that_flux_users_know() {
        for (text, expected) in [
            ("", "Unexpected end of input in ''"),
            ("a|", "Unexpected end of input in 'a|'"),
            ("(a|b", "Unclosed parenthesis in position 0"),
            ("a|b)", "Mismatched parentheses starting at position 3"),
            (")", "Mismatched parentheses starting at position 0"),
            ("()", "Invalid token ')' at position 1"),
            ("-(a|b)", "Invalid token '(' at position 1"),
            ("a and or b", "Invalid token 'or' at position 6"),
            ("a &&& b", "Invalid token '&' at position 4"),
            (":a", "Invalid token ':a' at position 0"),
            ("ab 'c", "Unclosed quote \"'\" at position 3"),
            ("ü \"c", "Unclosed quote '\"' at position 2"),
            ("a:", "Missing argument to token 'a:' at position 0"),
            ("b a: and c", "Missing argument to token 'a:' at position 2"),
            ("a:''", "Missing argument to token 'a:' at position 0"),
            ("4g,host:x", "invalid character ',' in operator '4g,host:' at position 2"),
            ("'4g,host:x'", "invalid character ',' in operator '4g,host:' at position 3"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
