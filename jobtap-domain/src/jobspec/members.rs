//! Looks up members of JSON objects. A jobspec has many small objects.

use serde_json::{Map, Value};

/// The maximum number of keys that are compared one by one, which takes less time than hashing the wanted key.
const FEW: usize = 16;

/// A value that may have members.
pub(super) trait Members {
    /// The member of this name; `None` if it is missing, or if the value isn't an object.
    fn member(&self, name: &str) -> Option<&Value>;
}

impl Members for Map<String, Value> {
    fn member(&self, name: &str) -> Option<&Value> {
        if self.len() > FEW {
            return self.get(name);
        }
        self.iter().find_map(|(key, value)| (key == name).then_some(value))
    }
}

impl Members for Value {
    fn member(&self, name: &str) -> Option<&Value> {
        self.as_object()?.member(name)
    }
}

/// The first element of `tasks`; a valid jobspec has exactly one. [`Value::pointer`] would copy each name of the path
/// twice.
pub(super) fn first_task(jobspec: &Value) -> Option<&Value> {
    jobspec.member("tasks")?.as_array()?.first()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_is_found_in_small_and_in_large_objects() {
        for count in [1, FEW, FEW + 1, 100] {
            let object: Map<String, Value> =
                (0..count).map(|number| (format!("k{number}"), json!(number))).collect();
            let value = Value::Object(object);
            assert_eq!(value.member(&format!("k{}", count - 1)), Some(&json!(count - 1)));
            assert_eq!(value.member("other"), None);
        }
        assert_eq!(json!(["k0"]).member("k0"), None);
    }
}
