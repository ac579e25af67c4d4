//! The query syntax of RFC 35 with the operators of RFC 31, as users write it after `--requires`.
//!
//! A query is split into tokens, which are parsed into an expression, whose terms are then read as constraints.
//! Negation binds tightest, then `and`, then `or`.

use super::{Constraint, ConstraintFault, Property, QueryError};
use crate::resource::Hostlist;
use std::iter::{Enumerate, Peekable};
use std::str::Chars;
use std::vec::IntoIter;

impl Constraint {
    /// Reads a constraint query (RFC 35).
    ///
    /// A term is `OPERATOR:OPERAND`, or properties with commas between them. The operators are those
    /// of RFC 31; `host` and `hosts` stand for `hostlist`, `rank` for `ranks`. Terms are joined by
    /// `and`, `&` or a blank, by `or` or `|`, and negated by `not` or a leading `-`; `and` binds
    /// tighter than `or`. Blanks and the characters `( ) & | ' "` of an operand have to be quoted.
    ///
    /// ```
    /// use jobtap_core::resource::Constraint;
    /// use serde_json::json;
    ///
    /// let constraint = Constraint::from_query("ssd,^old (host:n[0-9] | rank:40-49)")?;
    /// assert_eq!(
    ///     constraint.to_value(),
    ///     json!({"and": [
    ///         {"properties": ["ssd", "^old"]},
    ///         {"or": [{"hostlist": ["n[0-9]"]}, {"ranks": ["40-49"]}]},
    ///     ]}),
    /// );
    /// let refused = Constraint::from_query("(a|b").unwrap_err();
    /// assert_eq!(refused.to_string(), "Unclosed parenthesis in position 0");
    /// # Ok::<(), jobtap_core::resource::QueryError>(())
    /// ```
    ///
    /// # Errors
    /// [`QueryError`] names the position in characters, counted from 0, or from 1 for an unclosed quote, as in
    /// Flux.
    pub fn from_query(text: &str) -> Result<Self, QueryError> {
        let constraint = of_expr(parse(text)?)?;
        if constraint.depth() > Self::MAX_DEPTH {
            return Err(QueryError::Term { fault: ConstraintFault::Depth, position: 0 });
        }
        Ok(constraint)
    }
}

fn of_expr(expr: Expr) -> Result<Constraint, QueryError> {
    let all = |list: Vec<Expr>| list.into_iter().map(of_expr).collect::<Result<Vec<_>, _>>();
    Ok(match expr {
        Expr::Term(term) => {
            let position = term.position;
            of_term(&term).map_err(|fault| QueryError::Term { fault, position })?
        }
        Expr::Not(inner) => Constraint::Not(vec![of_expr(*inner)?]),
        Expr::Or(list) => Constraint::Or(all(list)?),
        Expr::And(list) => all(list)?.into_iter().fold(Constraint::Always, Constraint::and),
    })
}

fn of_term(term: &Term) -> Result<Constraint, ConstraintFault> {
    let operand = &term.operand;
    let operator = match term.operator.as_deref() {
        None => "properties",
        Some("host" | "hosts") => "hostlist",
        Some("rank") => "ranks",
        Some(operator) => operator,
    };
    if operator == "properties" {
        let names: Result<_, _> = operand.split(',').map(str::parse::<Property>).collect();
        return names.map(Constraint::Properties);
    }
    // Commas separate properties, but belong to the operand in host lists and id sets.
    let mut apart = Hostlist::MAX_APART;
    super::value::operands(operator, &serde_json::json!([operand]), &mut apart)
}

/// A piece of a query and where it begins, in characters from 0.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    kind: Kind,
    /// As written; without the quotes if it was quoted.
    text: String,
    position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
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

fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
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
    // Unlike other positions, Flux counts this one from 1.
    Err(QueryError::Quote { quote, position: position + 1 })
}

/// A parsed query, whose terms have not been read yet.
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    Term(Term),
    Not(Box<Self>),
    /// Two or more.
    And(Vec<Self>),
    /// Two or more.
    Or(Vec<Self>),
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    /// `None` when the term has no colon.
    operator: Option<String>,
    operand: String,
    /// Where the term begins, in characters from 0.
    position: usize,
}

fn parse(text: &str) -> Result<Expr, QueryError> {
    let tokens = tokens(text)?.into_iter().peekable();
    let mut parser = Parser { text, tokens, open: 0, last_open: 0 };
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
    /// The number of parentheses that are still open.
    open: usize,
    /// Where the last parenthesis was opened.
    last_open: usize,
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
                self.open += 1;
                self.last_open = token.position;
                let inner = self.any_of(depth + 1)?;
                let token = self.next()?;
                if token.kind != Kind::Close {
                    return Err(invalid(token));
                }
                self.open -= 1;
                Ok(inner)
            }
            Kind::Close if depth == 0 => Err(QueryError::Mismatched(token.position)),
            Kind::Close | Kind::And | Kind::Or => Err(invalid(token)),
        }
    }

    fn next(&mut self) -> Result<Token, QueryError> {
        // Like Flux, this names the parenthesis that was opened last, even if it is closed and an earlier one
        // isn't.
        self.tokens.next().ok_or_else(|| match self.open {
            0 => QueryError::End(self.text.to_owned()),
            _ => QueryError::Unclosed(self.last_open),
        })
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
    use super::super::sample::nodes;
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn query(text: &str) -> Value {
        Constraint::from_query(text).unwrap().to_value()
    }

    fn refused(text: &str) -> String {
        Constraint::from_query(text).unwrap_err().to_string()
    }

    #[test]
    fn reads_every_kind_of_term() {
        for (text, constraint) in [
            ("a", json!({"properties": ["a"]})),
            ("^a", json!({"properties": ["^a"]})),
            ("-a", json!({"not": [{"properties": ["a"]}]})),
            ("not a", json!({"not": [{"properties": ["a"]}]})),
            ("a,b", json!({"properties": ["a", "b"]})),
            ("a b", json!({"properties": ["a", "b"]})),
            ("a&b and ^c", json!({"properties": ["a", "b", "^c"]})),
            ("a|b", json!({"or": [{"properties": ["a"]}, {"properties": ["b"]}]})),
            ("-host:fluke7", json!({"not": [{"hostlist": ["fluke7"]}]})),
            ("hosts:n[1,3],x", json!({"hostlist": ["n[1,3],x"]})),
            ("hostlist:n1", json!({"hostlist": ["n1"]})),
            ("rank:0,2-3", json!({"ranks": ["0,2-3"]})),
            ("host: n1", json!({"hostlist": ["n1"]})),
            ("a b host:x", json!({"and": [{"properties": ["a", "b"]}, {"hostlist": ["x"]}]})),
            ("host:x host:y", json!({"and": [{"hostlist": ["x"]}, {"hostlist": ["y"]}]})),
            ("a|b c", json!({"or": [{"properties": ["a"]}, {"properties": ["b", "c"]}]})),
        ] {
            assert_eq!(query(text), constraint, "{text}");
        }
    }

    #[test]
    fn errors_name_the_position() {
        assert_eq!(refused("a b&&x:1"), "unknown constraint operator: x at position 5");
        assert_eq!(refused("a 'b|c'"), "invalid character '|' in property \"b|c\" at position 2");
        assert_eq!(refused("ab,"), "no name in property \"\" at position 0");
        let text = refused("a|rank:5,1-3");
        assert!(text.starts_with("invalid idset '5,1-3' in [\"5,1-3\"]: "), "{text}");
        assert!(text.ends_with(" at position 2"), "{text}");
    }

    #[test]
    fn refuses_deep_nesting() {
        for deep in ["(".repeat(100_000), "not ".repeat(100_000), "a|b&(".repeat(40)] {
            let text = format!("{deep}x{}", ")".repeat(deep.matches('(').count()));
            assert!(refused(&text).starts_with("constraint is nested deeper than 50 levels"));
        }
        assert!(Constraint::from_query(&format!("{}x", "not ".repeat(50))).is_ok());
    }

    /// A query with every operation in parentheses, and a bit for each of `nodes()` that it selects.
    fn queries() -> impl Strategy<Value = (String, u32)> {
        let leaf = prop::sample::select(vec!["xx", "yy", "^xx", "host:foo[1-3]", "rank:0,5,9"])
            .prop_map(|term| {
                let bits = match term {
                    "xx" => 0b100_0111,
                    "yy" => 0b001_0101,
                    "^xx" => 0b011_1000,
                    "host:foo[1-3]" => 0b000_1110,
                    _ => 0b110_0001,
                };
                (term.to_owned(), bits)
            });
        leaf.prop_recursive(4, 24, 2, |inner| {
            let and = prop::sample::select(vec![" ", " and ", "&", "&&"]);
            let or = prop::sample::select(vec![" or ", "|", " || "]);
            prop_oneof![
                inner.clone().prop_map(|(text, bits)| (format!("not ({text})"), !bits & 0x7f)),
                (inner.clone(), and, inner.clone())
                    .prop_map(|((a, x), by, (b, y))| (format!("({a}){by}({b})"), x & y)),
                (inner.clone(), or, inner)
                    .prop_map(|((a, x), by, (b, y))| (format!("({a}){by}({b})"), x | y)),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_query_selects_the_expected_nodes((text, bits) in queries()) {
            let constraint = Constraint::from_query(&text).unwrap();
            for (bit, node) in nodes().iter().enumerate() {
                prop_assert_eq!(constraint.matches(&node), bits >> bit & 1 == 1, "{}", text);
            }
            let again = Constraint::from_value(&constraint.to_value());
            prop_assert_eq!(again, Ok(constraint));
        }

        #[test]
        fn accepted_text_round_trips_through_json(text in "[a-c():&|'\" ,^-]{0,12}|(and|or|not|host:|[a-c] |[()]){0,9}|\\PC*") {
            match Constraint::from_query(&text) {
                Ok(constraint) => {
                    let again = Constraint::from_value(&constraint.to_value());
                    prop_assert_eq!(again, Ok(constraint));
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    /// The expression in the form that RFC 35 uses, with `t` as the default operator.
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
    fn parses_the_examples_of_flux() {
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
    fn errors_have_the_text_of_flux() {
        for (text, expected) in [
            ("", "Unexpected end of input in ''"),
            ("a|", "Unexpected end of input in 'a|'"),
            ("(a|b", "Unclosed parenthesis in position 0"),
            ("((a)|(b)", "Unclosed parenthesis in position 5"),
            ("a b (", "Unclosed parenthesis in position 4"),
            ("((", "Unclosed parenthesis in position 1"),
            ("(a)|", "Unexpected end of input in '(a)|'"),
            ("a|b)", "Mismatched parentheses starting at position 3"),
            (")", "Mismatched parentheses starting at position 0"),
            ("()", "Invalid token ')' at position 1"),
            ("-(a|b)", "Invalid token '(' at position 1"),
            ("a and or b", "Invalid token 'or' at position 6"),
            ("a &&& b", "Invalid token '&' at position 4"),
            (":a", "Invalid token ':a' at position 0"),
            ("ab 'c", "Unclosed quote \"'\" at position 4"),
            ("ü \"c", "Unclosed quote '\"' at position 3"),
            ("a:", "Missing argument to token 'a:'"),
            ("b a: and c", "Missing argument to token 'a:'"),
            ("a:''", "Missing argument to token 'a:'"),
            ("4g,host:x", "invalid character ',' in operator '4g,host:' at position 2"),
            ("'4g,host:x'", "invalid character ',' in operator '4g,host:' at position 3"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
