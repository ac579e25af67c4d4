//! The JSON form of a constraint (RFC 31).

use super::{Constraint, ConstraintError, ConstraintFault};
use crate::resource::{Hostlist, Idset, Property};
use serde_json::{Map, Value};
use std::fmt::Display;

impl Constraint {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// [`ConstraintError`] names the place and what is wrong there. A constraint that is nested deeper
    /// than [`Constraint::MAX_DEPTH`] or has more than [`Constraint::MAX_TERMS`] terms is refused.
    pub fn from_value(value: &Value) -> Result<Self, ConstraintError> {
        Reader { path: String::new(), terms: 0, apart: Hostlist::MAX_APART }.constraint(value, 0)
    }

    /// The JSON form, with host lists and id sets in their shortest form.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let (operator, operands) = match self {
            Self::Always => return Value::Object(Map::new()),
            Self::Properties(all) => ("properties", texts(all)),
            Self::Hostlist(lists) => ("hostlist", texts(lists)),
            Self::Ranks(sets) => ("ranks", texts(sets)),
            Self::And(inner) => ("and", values(inner)),
            Self::Or(inner) => ("or", values(inner)),
            Self::Not(inner) => ("not", values(inner)),
        };
        Value::Object(Map::from_iter([(operator.to_owned(), operands)]))
    }
}

fn texts<T: Display>(items: &[T]) -> Value {
    items.iter().map(|item| Value::String(item.to_string())).collect()
}

fn values(inner: &[Constraint]) -> Value {
    inner.iter().map(Constraint::to_value).collect()
}

/// Reads a constraint and keeps track of the path, for errors.
struct Reader {
    path: String,
    /// Number of terms that have been read.
    terms: usize,
    /// Number of hosts that the lists may still have [apart](Hostlist::MAX_APART).
    apart: usize,
}

impl Reader {
    fn constraint(&mut self, value: &Value, depth: usize) -> Result<Constraint, ConstraintError> {
        let object = value.as_object().ok_or_else(|| self.refuse(ConstraintFault::Type))?;
        let mut members = object.iter();
        let Some((operator, value)) = members.next() else {
            return Ok(Constraint::Always);
        };
        self.terms += 1 + value.as_array().map_or(0, Vec::len);
        if self.terms > Constraint::MAX_TERMS {
            return Err(self.refuse(ConstraintFault::Terms));
        }
        if members.next().is_some() {
            return Err(self.refuse(ConstraintFault::Operators));
        }
        match operator.as_str() {
            "and" => self.inner("and", value, depth).map(Constraint::And),
            "or" => self.inner("or", value, depth).map(Constraint::Or),
            "not" => self.inner("not", value, depth).map(Constraint::Not),
            _ => {
                let read = operands(operator, value, &mut self.apart);
                read.map_err(|fault| self.refuse(fault))
            }
        }
    }

    fn inner(
        &mut self,
        operator: &'static str,
        value: &Value,
        depth: usize,
    ) -> Result<Vec<Constraint>, ConstraintError> {
        let Value::Array(items) = value else {
            return Err(self.refuse(ConstraintFault::Constraints(operator)));
        };
        if depth >= Constraint::MAX_DEPTH {
            return Err(self.refuse(ConstraintFault::Depth));
        }
        let length = self.path.len();
        let mut all = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let dot = if length == 0 { "" } else { "." };
            self.path.push_str(&format!("{dot}{operator}[{index}]"));
            all.push(self.constraint(item, depth + 1)?);
            self.path.truncate(length);
        }
        Ok(all)
    }

    fn refuse(&self, fault: ConstraintFault) -> ConstraintError {
        ConstraintError { path: self.path.clone(), fault }
    }
}

/// Reads a constraint whose operands are strings: all but `and`, `or` and `not`. `apart` is for
/// [`Hostlist::parse_within`].
pub(super) fn operands(
    operator: &str,
    value: &Value,
    apart: &mut usize,
) -> Result<Constraint, ConstraintFault> {
    match operator {
        "properties" => {
            let parse = |text: &str| text.parse::<Property>();
            each("properties", "property", value, parse).map(Constraint::Properties)
        }
        "hostlist" => {
            let parse = |text: &str| {
                Hostlist::parse_within(text, apart).map_err(|source| ConstraintFault::Hostlist {
                    text: text.to_owned(),
                    operands: value.to_string(),
                    source,
                })
            };
            each("hostlist", "hostlist", value, parse).map(Constraint::Hostlist)
        }
        "ranks" => {
            let parse = |text: &str| {
                text.parse::<Idset>().map_err(|source| ConstraintFault::Idset {
                    text: text.to_owned(),
                    operands: value.to_string(),
                    source,
                })
            };
            each("ranks", "idset", value, parse).map(Constraint::Ranks)
        }
        _ => Err(ConstraintFault::Operator(operator.to_owned())),
    }
}

fn each<T>(
    operator: &'static str,
    what: &'static str,
    value: &Value,
    mut parse: impl FnMut(&str) -> Result<T, ConstraintFault>,
) -> Result<Vec<T>, ConstraintFault> {
    let items = value.as_array().ok_or(ConstraintFault::Operands(operator))?;
    let mut text = |item: &Value| parse(item.as_str().ok_or(ConstraintFault::Operand(what))?);
    items.iter().map(&mut text).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::constraint;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn refused(value: Value) -> String {
        Constraint::from_value(&value).unwrap_err().to_string()
    }

    #[test]
    fn errors_have_the_text_of_flux() {
        for (value, text) in [
            (json!([]), "constraint must be JSON object"),
            (json!({"and": [], "or": []}), "constraint must only contain 1 element"),
            (json!({"foo": []}), "unknown constraint operator: foo"),
            (json!({"and": {}}), "and operator value must be an array"),
            (json!({"properties": "a"}), "properties value must be an array"),
            (json!({"properties": [1]}), "non-string property specified"),
            (json!({"ranks": [1]}), "non-string idset specified"),
            (json!({"properties": ["bar&"]}), "invalid character '&' in property \"bar&\""),
            (json!({"properties": ["a^b"]}), "invalid character '^' in property \"a^b\""),
            (json!({"properties": ["^"]}), "no name in property \"^\""),
        ] {
            assert_eq!(refused(value), text);
        }
        let hosts = refused(json!({"hostlist": ["foo0-10]"]}));
        assert!(hosts.starts_with("invalid hostlist 'foo0-10]' in [\"foo0-10]\"]: "), "{hosts}");
        let ranks = refused(json!({"ranks": ["5,1-3"]}));
        assert!(ranks.starts_with("invalid idset '5,1-3' in [\"5,1-3\"]: "), "{ranks}");
    }

    #[test]
    fn errors_name_the_place() {
        assert_eq!(
            refused(json!({"and": [{}, {"not": [{"or": []}, {"ranks": "0"}]}]})),
            "and[1].not[1]: ranks value must be an array"
        );
    }

    #[test]
    fn refuses_deep_nesting() {
        let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({"not": [inner]}));
        assert!(Constraint::from_value(&nested(Constraint::MAX_DEPTH)).is_ok());
        let text = refused(nested(Constraint::MAX_DEPTH + 1));
        assert!(text.ends_with("not[0]: constraint is nested deeper than 50 levels"), "{text}");
    }

    #[test]
    fn refuses_too_many_terms() {
        let names = |count| json!({"properties": vec!["a"; count]});
        assert!(Constraint::from_value(&names(Constraint::MAX_TERMS - 1)).is_ok());
        assert_eq!(refused(names(Constraint::MAX_TERMS)), "constraint has more than 4096 terms");
        // The terms of all levels count together.
        let many = json!({"and": vec![names(99); 50]});
        assert!(refused(many).ends_with("constraint has more than 4096 terms"));
    }

    /// Four thousand lists of a few bytes each would fill the manager's memory.
    #[test]
    fn hosts_that_take_memory_of_their_own_count_together() {
        let lists = |count| json!({"not": [{"hostlist": vec!["n[1-1024]x"; count]}, {"hostlist": ["m[1-1024]x"]}]});
        assert!(Constraint::from_value(&lists(63)).is_ok());
        assert!(refused(lists(64)).contains("invalid hostlist 'm[1-1024]x'"));
    }

    /// JSON that resembles a constraint and may have mistakes.
    fn nearly() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
            "[0-9,a^-]{0,5}|h\\[[0-9,-]{0,5}\\]".prop_map(Value::from),
        ];
        let key = "and|or|not|properties|hostlist|ranks|[a-z]";
        leaf.prop_recursive(5, 40, 4, move |inner| {
            let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
            let object = |value: BoxedStrategy<Value>| {
                prop::collection::vec((key, value), 0..2)
                    .prop_map(|members| Value::Object(members.into_iter().collect()))
            };
            prop_oneof![2 => object(list.clone().boxed()), 1 => object(inner.boxed()), 1 => list]
        })
    }

    proptest! {
        #[test]
        fn the_json_form_round_trips(constraint in constraint()) {
            prop_assert_eq!(Constraint::from_value(&constraint.to_value()), Ok(constraint));
        }

        #[test]
        fn accepted_json_round_trips(value in nearly()) {
            match Constraint::from_value(&value) {
                Ok(constraint) => {
                    let again = Constraint::from_value(&constraint.to_value());
                    prop_assert_eq!(again, Ok(constraint));
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
