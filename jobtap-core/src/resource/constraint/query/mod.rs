//! What users write after `--requires`: the query syntax of RFC 35, with the operators of RFC 31.

mod parser;
mod token;

use super::{Constraint, ConstraintFault, QueryError};
use crate::resource::Property;
use parser::{Expr, Term};

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
    /// [`QueryError`] names the position, in characters from 0.
    pub fn from_query(text: &str) -> Result<Self, QueryError> {
        let constraint = of_expr(parser::parse(text)?)?;
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
    // The commas of host lists and id sets are their own.
    super::value::operands(operator, &serde_json::json!([operand]))
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
    fn the_terms_of_requires() {
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
    fn errors_name_the_column() {
        assert_eq!(refused("a b&&x:1"), "unknown constraint operator: x at position 5");
        assert_eq!(refused("a 'b|c'"), "invalid character '|' in property \"b|c\" at position 2");
        assert_eq!(refused("ab,"), "no name in property \"\" at position 0");
        let text = refused("a|rank:5,1-3");
        assert!(text.starts_with("invalid idset '5,1-3' in [\"5,1-3\"]: "), "{text}");
        assert!(text.ends_with(" at position 2"), "{text}");
    }

    #[test]
    fn nesting_has_an_end() {
        for deep in ["(".repeat(100_000), "not ".repeat(100_000), "a|b&(".repeat(40)] {
            let text = format!("{deep}x{}", ")".repeat(deep.matches('(').count()));
            assert!(refused(&text).starts_with("constraint is nested deeper than 50 levels"));
        }
        assert!(Constraint::from_query(&format!("{}x", "not ".repeat(50))).is_ok());
    }

    /// A query with every operation in parentheses, and what it means, by the bits of `nodes()`.
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
        fn a_query_selects_what_it_says((text, bits) in queries()) {
            let constraint = Constraint::from_query(&text).unwrap();
            for (bit, node) in nodes().iter().enumerate() {
                prop_assert_eq!(constraint.matches(&node), bits >> bit & 1 == 1, "{}", text);
            }
            let again = Constraint::from_value(&constraint.to_value());
            prop_assert_eq!(again, Ok(constraint));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-c():&|'\" ,^-]{0,12}|(and|or|not|host:|[a-c] |[()]){0,9}|\\PC*") {
            match Constraint::from_query(&text) {
                Ok(constraint) => {
                    let again = Constraint::from_value(&constraint.to_value());
                    prop_assert_eq!(again, Ok(constraint));
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
