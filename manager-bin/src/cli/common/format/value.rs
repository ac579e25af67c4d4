//! The values of fields: their text, and their order in sorted listings.

use std::cmp::Ordering;

use serde_json::Value;

use crate::cli::common::json::spaced_json;

/// The value of a field in a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldValue {
    /// Shown as `True` or `False`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A job id: formatted as a number by a format specification, and shown as this text without one.
    JobId {
        /// The number.
        number: u64,
        /// The text in the form that the user prefers.
        text: String,
    },
    /// Durations and times since the epoch in seconds, and fractions.
    Float(f64),
    /// Any other value. The empty text means that there is no value.
    Text(String),
}

impl FieldValue {
    /// The value of a field that has no value in this row.
    pub(crate) fn empty() -> Self {
        FieldValue::Text(String::new())
    }

    /// Converts a JSON value: scalars keep their type, `null` becomes empty. As in Flux, an object
    /// becomes its text as JSON, and an array its text in Python.
    pub(crate) fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => FieldValue::empty(),
            Value::Bool(b) => FieldValue::Bool(*b),
            Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(i), _) => FieldValue::Int(i.into()),
                (None, Some(u)) => FieldValue::Int(u.into()),
                (None, None) => FieldValue::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(s) => FieldValue::Text(s.clone()),
            Value::Object(_) => FieldValue::Text(spaced_json(value)),
            Value::Array(_) => FieldValue::Text(python(value)),
        }
    }

    /// The value as a number, if it is a number or a text that contains one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            FieldValue::Bool(_) => None,
            FieldValue::JobId { number, .. } => Some(*number as f64),
            FieldValue::Int(i) => Some(*i as f64),
            FieldValue::Float(f) => Some(*f),
            FieldValue::Text(t) => {
                // `f64::from_str` accepts `inf` and `nan` as well, which are more likely to be names.
                let numeric = t.contains(|c: char| c.is_ascii_digit());
                t.parse().ok().filter(|_| numeric)
            }
        }
    }

    /// The text of the value without a format specification.
    pub(crate) fn text(&self) -> String {
        match self {
            FieldValue::Bool(true) => "True".to_owned(),
            FieldValue::Bool(false) => "False".to_owned(),
            FieldValue::Int(i) => i.to_string(),
            FieldValue::Float(f) => super::number::shortest(*f),
            FieldValue::JobId { text, .. } | FieldValue::Text(text) => text.clone(),
        }
    }

    /// The order in sorted listings: empty values first, then numbers, then texts.
    pub(crate) fn sort_cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (SortClass::from_value(self), SortClass::from_value(other));
        match (a, b) {
            (SortClass::Number(a), SortClass::Number(b)) => a.cmp(&b),
            (SortClass::Text(a), SortClass::Text(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

/// A text as Python writes it: in single quotes, or in double quotes if it contains single ones.
pub(super) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            c if c == quote => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

/// The text of a JSON value in Python: `{'a': [1, True, None]}`.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(python).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                format!("{}: {}", python(&Value::String(key.clone())), python(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Bool(_) | Value::Number(_) => FieldValue::from_json(value).text(),
    }
}

/// The class by which a value is sorted.
#[derive(Clone, Copy)]
enum SortClass<'a> {
    Empty,
    Number(SortNumber),
    Text(&'a str),
}

/// A number as a sort key. Job ids exceed the precision of `f64`, so integers with the same `f64` are compared exactly,
/// and precede a float of that size, so that the order is total.
#[derive(Clone, Copy)]
struct SortNumber {
    size: f64,
    exact: Option<i128>,
}

impl SortNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let exact = match (self.exact, other.exact) {
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        self.size.total_cmp(&other.size).then(exact)
    }
}

impl<'a> SortClass<'a> {
    fn from_value(value: &'a FieldValue) -> Self {
        let int = |i: i128| SortClass::Number(SortNumber { size: i as f64, exact: Some(i) });
        match value {
            FieldValue::Bool(b) => int(i128::from(*b)),
            FieldValue::Int(i) => int(*i),
            FieldValue::JobId { number, .. } => int((*number).into()),
            FieldValue::Text(t) if t.is_empty() => SortClass::Empty,
            FieldValue::Float(_) | FieldValue::Text(_) => match (value.number(), value) {
                (Some(size), _) => SortClass::Number(SortNumber { size, exact: None }),
                (None, FieldValue::Text(t)) => SortClass::Text(t),
                (None, _) => SortClass::Empty,
            },
        }
    }

    fn rank(self) -> u8 {
        match self {
            SortClass::Empty => 0,
            SortClass::Number(_) => 1,
            SortClass::Text(_) => 2,
        }
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        FieldValue::Text(text.to_owned())
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        FieldValue::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn json_scalars_keep_their_type() {
        assert_eq!(FieldValue::from_json(&json!(true)).text(), "True");
        assert_eq!(FieldValue::from_json(&json!(3)).text(), "3");
        assert_eq!(FieldValue::from_json(&json!(300.0)).text(), "300.0");
        assert_eq!(FieldValue::from_json(&json!("a b")).text(), "a b");
        assert_eq!(FieldValue::from_json(&json!(null)).text(), "");
        let list = json!([1, 2.5, true, null, "it's", {"a": "say \"it's\""}]);
        assert_eq!(
            FieldValue::from_json(&list).text(),
            r#"[1, 2.5, True, None, "it's", {'a': 'say "it\'s"'}]"#
        );
        let map = json!({"a": list});
        assert_eq!(
            FieldValue::from_json(&map).text(),
            r#"{"a": [1, 2.5, true, null, "it's", {"a": "say \"it's\""}]}"#
        );
        let largest = FieldValue::from_json(&json!(u64::MAX));
        assert_eq!(largest.text(), "18446744073709551615");
    }

    #[test]
    fn empty_values_precede_numbers_and_texts() {
        let mut values: Vec<FieldValue> =
            ["b", "10", "", "a", "9", "inf"].into_iter().map(FieldValue::from).collect();
        values.push(FieldValue::Int(-1));
        values.push(FieldValue::Float(9.5));
        values.sort_by(FieldValue::sort_cmp);
        let texts: Vec<String> = values.iter().map(FieldValue::text).collect();
        assert_eq!(texts, ["", "-1", "9", "9.5", "10", "a", "b", "inf"]);
    }

    #[test]
    fn adjacent_large_ids_are_ordered_exactly() {
        let (a, b) = (FieldValue::Int(1 << 60), FieldValue::Int((1 << 60) + 1));
        assert_eq!(a.sort_cmp(&b), Ordering::Less);
    }

    fn any_value() -> impl Strategy<Value = FieldValue> {
        prop_oneof![
            any::<bool>().prop_map(FieldValue::Bool),
            any::<i64>().prop_map(|i| FieldValue::Int(i.into())),
            any::<f64>().prop_map(FieldValue::Float),
            (0i128..4).prop_map(|i| FieldValue::Int((1 << 60) + i)),
            Just(FieldValue::Float((1u64 << 60) as f64)),
            "[a-c0-9.]{0,3}".prop_map(FieldValue::Text),
        ]
    }

    proptest! {
        #[test]
        fn the_order_of_any_values_is_total(mut values in proptest::collection::vec(any_value(), 0..40)) {
            values.sort_by(FieldValue::sort_cmp);
            for (at, a) in values.iter().enumerate() {
                for b in &values[at..] {
                    prop_assert_ne!(a.sort_cmp(b), Ordering::Greater, "{:?} {:?}", a, b);
                    prop_assert_eq!(a.sort_cmp(b), b.sort_cmp(a).reverse());
                }
            }
        }
    }
}
