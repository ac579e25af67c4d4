//! How annotations are merged.

use serde_json::{Map, Value};

/// Merges annotations into those of a job, as job managers do: objects are merged key by key; `null` removes a
/// key, and an object that becomes empty is removed, too.
///
/// ```
/// use jobtap_core::job::merge_annotations;
/// use serde_json::{Map, Value, json};
///
/// fn object(value: Value) -> Map<String, Value> {
///     value.as_object().cloned().unwrap_or_default()
/// }
///
/// let mut shown = object(json!({"quota": {"left": 3, "of": 9}, "site": "north"}));
/// merge_annotations(&mut shown, object(json!({"quota": {"left": 2}, "site": null})));
/// assert_eq!(Value::Object(shown), json!({"quota": {"left": 2, "of": 9}}));
/// ```
pub fn merge_annotations(target: &mut Map<String, Value>, mut notes: Map<String, Value>) {
    if target.is_empty() {
        // The case of most jobs, which get annotations once, from the scheduler.
        drop_blank(&mut notes);
        *target = notes;
        return;
    }
    for (key, note) in notes {
        match (target.get_mut(&key), note) {
            (_, Value::Null) => {
                target.shift_remove(&key);
            }
            (Some(Value::Object(inner)), Value::Object(more)) => {
                merge_annotations(inner, more);
                if inner.is_empty() {
                    target.shift_remove(&key);
                }
            }
            (_, Value::Object(mut inner)) => {
                drop_blank(&mut inner);
                if !inner.is_empty() {
                    target.insert(key, Value::Object(inner));
                }
            }
            (_, note) => {
                target.insert(key, note);
            }
        }
    }
}

/// Removes `null` and objects that are or become empty from notes whose key the target doesn't have yet.
fn drop_blank(notes: &mut Map<String, Value>) {
    notes.retain(|_, note| match note {
        Value::Null => false,
        Value::Object(inner) => {
            drop_blank(inner);
            !inner.is_empty()
        }
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(a: Value, b: Value) -> Value {
        let Value::Object(mut target) = a else { unreachable!() };
        let Value::Object(notes) = b else { unreachable!() };
        merge_annotations(&mut target, notes);
        Value::Object(target)
    }

    #[test]
    fn objects_merge_by_key_and_null_removes() {
        let a = json!({"sched": {"t_estimate": 1, "reason": "x"}, "user": {"keep": 1}});
        let b = json!({"sched": {"reason": null}, "user": {"more": 2}});
        assert_eq!(
            merged(a, b),
            json!({"sched": {"t_estimate": 1}, "user": {"keep": 1, "more": 2}})
        );
    }

    #[test]
    fn what_became_empty_goes() {
        assert_eq!(merged(json!({"a": {"b": 1}}), json!({"a": {"b": null}})), json!({}));
        assert_eq!(merged(json!({}), json!({"a": {"b": null}, "c": null})), json!({}));
        assert_eq!(merged(json!({"a": 1}), json!({"a": {"b": 2}})), json!({"a": {"b": 2}}));
    }
}
