//! Finds the value of a configuration that a message is about. Messages name it by a dotted key, `log.ring-size`, or,
//! as Flux does, by its table and its key: `[queues.debug] config table: 'requires' must be`.

use std::fmt::Write;

use serde_json::Value;

/// A step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the value of a key.
    Key(String),
    /// To an element of an array, from 0.
    Index(usize),
}

/// Returns the path of the value that a message is about, as far as it exists in the configuration.
pub(in crate::daemon) fn locate(text: &str, config: &Value) -> Vec<Step> {
    let mut place = Vec::new();
    // The suggested name is not in the configuration.
    let text = text.split("; did you mean").next().unwrap_or(text);
    // A message about a plugin has its own place in front: `[job-manager.plugins][0]: load: [plugins.x]: ...`.
    for part in text.split(": ") {
        let bracketed = bracketed(part, config);
        if !bracketed.is_empty() {
            place = bracketed;
            continue;
        }
        let word = part.split_whitespace().next().unwrap_or_default();
        if let Some(inner) = inside(config, &place).and_then(|value| dotted(word, value)) {
            place.extend(inner);
        }
    }
    if let Some(key) = quoted(text).find_map(|key| inner_key(config, &place, key)) {
        place.push(key);
    }
    place
}

/// Writes a place as messages do.
pub fn show(place: &[Step]) -> String {
    let mut text = String::new();
    for step in place {
        // Writing to a String can't fail.
        let _ = match step {
            Step::Key(key) if text.is_empty() => write!(text, "{key}"),
            Step::Key(key) => write!(text, ".{key}"),
            Step::Index(index) => write!(text, "[{index}]"),
        };
    }
    text
}

/// Removes the value at a place. Returns false if there is no such value.
pub(super) fn remove(config: &mut Value, place: &[Step]) -> bool {
    let Some((last, path)) = place.split_last() else { return false };
    let table = path.iter().try_fold(config, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(*index),
    });
    match (table, last) {
        (Some(Value::Object(table)), Step::Key(key)) => table.shift_remove(key).is_some(),
        (Some(Value::Array(array)), Step::Index(index)) if *index < array.len() => {
            array.remove(*index);
            true
        }
        _ => false,
    }
}

pub(super) fn inside<'a>(config: &'a Value, place: &[Step]) -> Option<&'a Value> {
    place.iter().try_fold(config, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(*index),
    })
}

/// Finds the first `[a.b]` in a text that begins with a table of the configuration, with any `[0]` behind it.
fn bracketed(text: &str, config: &Value) -> Vec<Step> {
    for (start, _) in text.match_indices('[') {
        let Some((path, mut rest)) = text.get(start + 1..).and_then(|text| text.split_once(']'))
        else {
            break;
        };
        let mut place = longest(path, config);
        if place.is_empty() {
            continue;
        }
        while let Some((number, more)) =
            rest.strip_prefix('[').and_then(|text| text.split_once(']'))
        {
            let Ok(index) = number.parse() else { break };
            place.push(Step::Index(index));
            if inside(config, &place).is_none() {
                place.pop();
                break;
            }
            rest = more;
        }
        return place;
    }
    Vec::new()
}

/// The longest existing prefix of a dotted path.
fn longest(path: &str, value: &Value) -> Vec<Step> {
    let mut place = Vec::new();
    for key in path.split('.') {
        place.push(Step::Key(key.to_owned()));
        if inside(value, &place).is_none() {
            place.pop();
            break;
        }
    }
    place
}

/// A dotted path, if all of it exists.
fn dotted(word: &str, value: &Value) -> Option<Vec<Step>> {
    let word = word.trim_end_matches([':', ',']);
    if let Some(found) = indexed(word, value) {
        return Some(found);
    }
    let found = longest(word, value);
    (!word.is_empty() && found.len() == word.split('.').count()).then_some(found)
}

/// A key in one of several tables, such as `allocation[0].nodes`; the table itself if it lacks the key.
fn indexed(word: &str, value: &Value) -> Option<Vec<Step>> {
    let (name, rest) = word.split_once('[')?;
    let (index, rest) = rest.split_once(']')?;
    let index = index.parse().ok()?;
    let element = value.get(name)?.get(index)?;
    let mut found = vec![Step::Key(name.to_owned()), Step::Index(index)];
    found.extend(dotted(rest.trim_start_matches('.'), element).unwrap_or_default());
    Some(found)
}

/// The words in quotes, and the last word.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let marks = ['\'', '"', '`'];
    let inside = text.split(marks).skip(1).step_by(2);
    inside.chain(text.split_whitespace().next_back())
}

fn inner_key(config: &Value, place: &[Step], key: &str) -> Option<Step> {
    inside(config, place)?.get(key)?;
    Some(Step::Key(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_name_places_in_several_forms() {
        let config = json!({
            "log": {"ring-size": 0},
            "queues": {"debug": {"requires": 1, "require": [], "policy": {"limits": {"duration": 3}}}},
            "policy": {"limits": {"job-size": {"max": {"nnodes": "x"}}}},
            "job-manager": {"plugins": [{"load": "limits"}]},
            "plugins": {"limits": {"foo": 1, "users": {"7": 1}}},
            "polcy": {},
            "allocation": [{}, {"nodes": 0, "properties": ["a"]}],
        });
        for (text, wanted) in [
            ("log.ring-size: 0 is not a number of lines, 1 or more", "log.ring-size"),
            ("polcy: the manager knows no such key; did you mean policy?", "polcy"),
            ("allocation[1].nodes: 0 is not in the range", "allocation[1].nodes"),
            ("allocation[0].cores: is missing", "allocation[0]"),
            ("allocation[1].properties[0]: no property", "allocation[1].properties[0]"),
            (
                "error parsing [queues.debug] config table: 'requires' must be an array",
                "queues.debug.requires",
            ),
            (
                "error parsing [queues.debug] config table: 1 object item(s) left unpacked: require; did you mean requires?",
                "queues.debug.require",
            ),
            (
                "error parsing [queues.debug.policy.limits] config table: 'duration' is not a valid FSD",
                "queues.debug.policy.limits.duration",
            ),
            // Flux leaves `job-size` out.
            ("error parsing [policy.limits.max] config table: Expected integer", "policy.limits"),
            (
                "[job-manager.plugins][0]: load: [plugins.limits]: unknown key \"foo\": the keys are",
                "plugins.limits.foo",
            ),
            (
                "[job-manager.plugins][0]: load: nosuch: No such plugin found",
                "job-manager.plugins[0].load",
            ),
            ("[plugins.limits]: users.7: invalid type", "plugins.limits.users.7"),
            ("the manager ran out of luck", ""),
        ] {
            assert_eq!(show(&locate(text, &config)), wanted, "{text}");
        }
    }

    #[test]
    fn a_value_can_be_removed_by_its_place() {
        let mut config = json!({"a": [{"b": 1}, 2]});
        let place = [Step::Key("a".into()), Step::Index(0), Step::Key("b".into())];
        assert!(remove(&mut config, &place));
        assert!(!remove(&mut config, &place));
        assert!(remove(&mut config, &[Step::Key("a".into()), Step::Index(1)]));
        assert_eq!(config, json!({"a": [{}]}));
        assert!(!remove(&mut config, &[]));
    }
}
