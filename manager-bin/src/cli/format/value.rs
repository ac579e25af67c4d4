//! What a field of a listed row can hold, how it reads as text, and how two of them compare.

use std::cmp::Ordering;

use serde_json::Value;

/// The value of one field in one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldValue {
    /// Shown as `True` or `False`.
    Bool(bool),
    /// Wide enough for job ids (u64) and for negative return codes.
    Int(i128),
    /// Seconds, fractions, times since the UNIX epoch.
    Float(f64),
    /// Anything else; the empty text means "nothing to show".
    Text(String),
}

impl FieldValue {
    /// The value that stands for "not known for this row".
    pub(crate) fn empty() -> Self {
        FieldValue::Text(String::new())
    }

    /// A JSON value as a field: scalars as they are, `null` as empty, the rest as compact JSON.
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
            Value::Array(_) | Value::Object(_) => FieldValue::Text(value.to_string()),
        }
    }

    /// The number in it, also when it is written as text.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            FieldValue::Bool(_) => None,
            FieldValue::Int(i) => Some(*i as f64),
            FieldValue::Float(f) => Some(*f),
            FieldValue::Text(t) => {
                // `f64::from_str` also takes `inf` and `nan`, which are more likely names.
                let numeric = t.contains(|c: char| c.is_ascii_digit());
                t.parse().ok().filter(|_| numeric)
            }
        }
    }

    /// The text without any format specification.
    pub(crate) fn text(&self) -> String {
        match self {
            FieldValue::Bool(true) => "True".to_owned(),
            FieldValue::Bool(false) => "False".to_owned(),
            FieldValue::Int(i) => i.to_string(),
            FieldValue::Float(f) => super::number::shortest(*f),
            FieldValue::Text(t) => t.clone(),
        }
    }

    /// The order of listings: empty first, then numbers, then texts.
    pub(crate) fn sort_cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (SortClass::of(self), SortClass::of(other));
        match (a, b) {
            (SortClass::Number(a), SortClass::Number(b)) => a.cmp(&b),
            (SortClass::Text(a), SortClass::Text(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

/// How a value takes part in sorting.
#[derive(Clone, Copy)]
enum SortClass<'a> {
    Empty,
    Number(SortNumber),
    Text(&'a str),
}

/// A number by its size. Job ids exceed the precision of f64, so integers of the same f64 are
/// ordered exactly among each other and before the float: any mixture has one total order.
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
    fn of(value: &'a FieldValue) -> Self {
        let int = |i: i128| SortClass::Number(SortNumber { size: i as f64, exact: Some(i) });
        match value {
            FieldValue::Bool(b) => int(i128::from(*b)),
            FieldValue::Int(i) => int(*i),
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
    fn json_scalars_keep_their_kind_and_the_rest_is_compact_json() {
        assert_eq!(FieldValue::from_json(&json!(true)).text(), "True");
        assert_eq!(FieldValue::from_json(&json!(3)).text(), "3");
        assert_eq!(FieldValue::from_json(&json!(300.0)).text(), "300.0");
        assert_eq!(FieldValue::from_json(&json!("a b")).text(), "a b");
        assert_eq!(FieldValue::from_json(&json!(null)).text(), "");
        assert_eq!(FieldValue::from_json(&json!({"a": [1, 2]})).text(), r#"{"a":[1,2]}"#);
        let largest = FieldValue::from_json(&json!(u64::MAX));
        assert_eq!(largest.text(), "18446744073709551615");
    }

    #[test]
    fn order_is_empty_then_numbers_then_texts() {
        let mut values: Vec<FieldValue> =
            ["b", "10", "", "a", "9", "inf"].into_iter().map(FieldValue::from).collect();
        values.push(FieldValue::Int(-1));
        values.push(FieldValue::Float(9.5));
        values.sort_by(FieldValue::sort_cmp);
        let texts: Vec<String> = values.iter().map(FieldValue::text).collect();
        assert_eq!(texts, ["", "-1", "9", "9.5", "10", "a", "b", "inf"]);
    }

    #[test]
    fn neighbouring_large_ids_are_ordered_exactly() {
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
        fn any_mixture_has_one_order(mut values in proptest::collection::vec(any_value(), 0..40)) {
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
