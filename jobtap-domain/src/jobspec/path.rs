//! Dotted paths into a jobspec, as in `jobspec-update` events and in the tools' `--setattr`. Tools and
//! manager must agree on their meaning, so the rules are in one place.

use serde_json::{Map, Value};

use super::JobspecError;
use super::error::type_name;
use super::members::Members;

/// The value at a path with periods; `None` if a component is missing or isn't an object.
///
/// ```
/// use jobtap_core::jobspec::path;
/// use serde_json::json;
///
/// let spec = json!({"attributes": {"system": {"queue": "batch"}}});
/// assert_eq!(path::get(&spec, "attributes.system.queue"), Some(&json!("batch")));
/// ```
#[must_use]
pub fn get<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, component| value.member(component))
}

/// Sets the value at a path with periods. Missing objects on the path are created. An existing value is
/// replaced, not merged.
///
/// # Errors
/// [`JobspecError::Update`] if a component is empty or if a value on the path isn't an object; `target`
/// is then unchanged.
pub fn set(target: &mut Value, path: &str, value: Value) -> Result<(), JobspecError> {
    if path.split('.').any(str::is_empty) {
        return Err(refused(path, "the path has an empty component"));
    }
    let (parents, last) = path.rsplit_once('.').map_or((None, path), |(p, last)| (Some(p), last));
    let mut place = target;
    for component in parents.into_iter().flat_map(|parents| parents.split('.')) {
        place = object(place, path, component)?
            .entry(component)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    object(place, path, last)?.insert(last.to_owned(), value);
    Ok(())
}

fn object<'v>(
    place: &'v mut Value,
    path: &str,
    component: &str,
) -> Result<&'v mut Map<String, Value>, JobspecError> {
    let found = type_name(place);
    place.as_object_mut().ok_or_else(|| {
        let text = format!("'{component}' is inside a value of type {found}: replace it whole");
        refused(path, &text)
    })
}

fn refused(path: &str, text: &str) -> JobspecError {
    JobspecError::Update { path: path.to_owned(), text: text.to_owned() }
}

/// Removes the member at a path with periods, if it is there.
#[doc(hidden)]
pub fn remove(target: &mut Value, path: &str) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut place = Some(target);
    for component in parents.split('.').filter(|component| !component.is_empty()) {
        place = place.and_then(|place| place.get_mut(component));
    }
    if let Some(object) = place.and_then(Value::as_object_mut) {
        object.shift_remove(last);
    }
}

/// The full path of a key of `--setattr`. A leading `.` stands for `attributes.`; keys that start with
/// `attributes.` are full paths; keys that start with `system.` or `user.` are relative to
/// `attributes`; any other key is in `attributes.system`.
///
/// ```
/// use jobtap_core::jobspec::path::attribute_key;
///
/// assert_eq!(attribute_key("bank"), "attributes.system.bank");
/// assert_eq!(attribute_key("user.tag"), "attributes.user.tag");
/// assert_eq!(attribute_key(".top"), "attributes.top");
/// ```
#[must_use]
pub fn attribute_key(key: &str) -> String {
    if key.starts_with('.') {
        format!("attributes{key}")
    } else if key.starts_with("attributes.") {
        key.to_owned()
    } else if key.starts_with("system.") || key.starts_with("user.") {
        format!("attributes.{key}")
    } else {
        format!("attributes.system.{key}")
    }
}

/// The full path of a key of `jobtap update`. `name` is the job's name; keys that start with
/// `attributes.`, `resources.` or `tasks.` are full paths; any other key is in `attributes.system`.
#[must_use]
pub fn update_key(key: &str) -> String {
    const FULL: [&str; 3] = ["attributes.", "resources.", "tasks."];
    if key == "name" {
        "attributes.system.job.name".to_owned()
    } else if FULL.iter().any(|prefix| key.starts_with(prefix)) {
        key.to_owned()
    } else {
        format!("attributes.system.{key}")
    }
}

/// Whether a `jobspec-update` event may have this path (RFC 21): `attributes`, `resources` or `tasks`,
/// or a path below one of them.
#[must_use]
pub fn is_updatable(path: &str) -> bool {
    ["attributes", "resources", "tasks"].iter().any(|section| {
        path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn set_creates_objects_and_replaces_the_last_value() {
        let mut spec = json!({"a": {"b": {"old": 1}}});
        set(&mut spec, "a.b", json!({"new": 2})).unwrap();
        set(&mut spec, "x.y.z", json!([1])).unwrap();
        assert_eq!(spec, json!({"a": {"b": {"new": 2}}, "x": {"y": {"z": [1]}}}));
        assert_eq!(get(&spec, "x.y.z"), Some(&json!([1])));
        assert_eq!(get(&spec, "x.y.z.0"), None);
    }

    #[test]
    fn refuses_empty_components() {
        for path in ["", ".a", "a..b", "a.", "."] {
            let mut spec = json!({"a": {}});
            let error = set(&mut spec, path, json!(1)).unwrap_err();
            assert_eq!(error.path(), path);
            assert_eq!(spec, json!({"a": {}}));
        }
    }

    #[test]
    fn a_path_only_leads_through_objects() {
        for inside in [json!(1), json!("s"), json!(null), json!([{"count": 1}])] {
            let before = json!({ "a": inside });
            let mut spec = before.clone();
            let error = set(&mut spec, "a.0.count", json!(2)).unwrap_err().to_string();
            assert!(error.starts_with("a.0.count: '0' is inside a value of type "), "{error}");
            assert_eq!(spec, before);
        }
    }

    #[test]
    fn only_three_sections_can_be_updated() {
        for path in ["attributes", "attributes.system.duration", "resources", "tasks.x"] {
            assert!(is_updatable(path), "{path}");
        }
        for path in ["", "version", "attribute", "attributesx", "system.duration", ".tasks"] {
            assert!(!is_updatable(path), "{path}");
        }
    }

    #[test]
    fn other_update_keys_are_system_attributes() {
        assert_eq!(update_key("name"), "attributes.system.job.name");
        assert_eq!(update_key("duration"), "attributes.system.duration");
        assert_eq!(update_key("attributes.user.x"), "attributes.user.x");
        assert_eq!(update_key("resources.x"), "resources.x");
        assert_eq!(update_key("attributes"), "attributes.system.attributes");
    }

    proptest! {
        #[test]
        fn get_returns_the_value_that_was_set(
            path in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}",
            other in "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}",
            value in any::<i64>(),
        ) {
            let mut spec = json!({});
            set(&mut spec, &other, json!({})).unwrap();
            set(&mut spec, &path, json!(value)).unwrap();
            prop_assert_eq!(get(&spec, &path), Some(&json!(value)));
        }

        #[test]
        fn a_refused_path_changes_nothing(path in "\\PC{0,12}") {
            let before = json!({"a": {"b": 1}});
            let mut spec = before.clone();
            match set(&mut spec, &path, json!(true)) {
                Ok(()) => prop_assert_eq!(get(&spec, &path), Some(&json!(true))),
                Err(_) => prop_assert_eq!(spec, before),
            }
        }
    }
}
