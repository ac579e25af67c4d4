//! The topics that `#[on]` knows by their strings; their types are in `jobtap_core::topic`.

use crate::{elsewhere, suggest};

/// A topic of the job manager as `#[on]` found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The type in `jobtap_core::topic`.
    pub(crate) type_name: &'static str,
    /// The topic, or its family with `*`.
    pub(crate) topic: &'static str,
    /// The member of the family.
    pub(crate) key: String,
}

const TOPICS: &[(&str, &str)] = &[
    ("conf.update", "ConfUpdate"),
    ("job.create", "JobCreate"),
    ("job.validate", "JobValidate"),
    ("job.new", "JobNew"),
    ("job.state.depend", "JobStateDepend"),
    ("job.state.priority", "JobStatePriority"),
    ("job.state.sched", "JobStateSched"),
    ("job.state.run", "JobStateRun"),
    ("job.state.cleanup", "JobStateCleanup"),
    ("job.state.inactive", "JobStateInactive"),
    ("job.state.*", "JobState"),
    ("job.priority.get", "JobPriorityGet"),
    ("job.update", "JobUpdate"),
    ("job.inactive-add", "JobInactiveAdd"),
    ("job.destroy", "JobDestroy"),
    ("job.inactive-remove", "JobInactiveRemove"),
    ("job.*", "JobAny"),
    ("plugin.query", "PluginQuery"),
    ("unload", "Unload"),
];

/// Families: `job.event.NAME` and so on, `*` for every member; with a member for messages.
const FAMILIES: &[(&str, &str, &str, &str)] = &[
    ("job.dependency.", "job.dependency.*", "JobDependency", "afterok"),
    ("job.event.", "job.event.*", "JobEvent", "start"),
    ("job.update.", "job.update.*", "JobUpdateKey", "attributes.system.duration"),
];

/// Events whose handlers may do more, or less, than those of others.
const EVENTS: &[(&str, &str)] = &[
    ("alloc", "JobEventAlloc"),
    ("finish", "JobEventFinish"),
    ("free", "JobEventFree"),
    ("clean", "JobEventClean"),
    ("*", "JobEventAny"),
];

/// Where something waits for an `async` handler: the types with `jobtap_core::plugin::AsyncTopic`.
const WAITING: &[&str] = &[
    "JobDependency",
    "JobStateCleanup",
    "JobStateDepend",
    "JobStatePriority",
    "JobStateRun",
    "JobValidate",
];

impl Found {
    /// The topic as its author wrote it.
    pub(crate) fn name(&self) -> String {
        if self.key.is_empty() { self.topic.to_owned() } else { self.topic.replace('*', &self.key) }
    }

    /// Whether something waits for an `async` handler.
    pub(crate) fn waits(&self) -> bool {
        WAITING.contains(&self.type_name)
    }
}

/// Whether `name` is the type of a topic.
pub(crate) fn is_type(name: &str) -> bool {
    let topics = TOPICS.iter().map(|(_, type_name)| *type_name);
    let families = FAMILIES.iter().map(|family| family.2);
    topics
        .chain(families)
        .chain(EVENTS.iter().map(|event| event.1))
        .chain(["Later", "Service"])
        .any(|known| known == name)
}

/// The string of a topic that is named by its type; of a family, with a member that shows the form.
pub(crate) fn string_of(type_name: &str) -> Option<String> {
    let families =
        FAMILIES.iter().map(|(prefix, _, name, member)| (*name, format!("{prefix}{member}")));
    let topics = TOPICS.iter().map(|(topic, name)| (*name, (*topic).to_owned()));
    let events = EVENTS.iter().map(|(event, name)| (*name, format!("job.event.{event}")));
    let mut all = topics.chain(families).chain(events);
    all.find(|(name, _)| *name == type_name).map(|(_, string)| string)
}

/// Finds a topic by its string.
///
/// # Errors
/// A sentence for the author, with the topic that was probably meant.
pub(crate) fn find(name: &str) -> Result<Found, String> {
    if let Some((topic, type_name)) = TOPICS.iter().find(|(topic, _)| *topic == name) {
        return Ok(Found { type_name, topic, key: String::new() });
    }
    for (prefix, topic, type_name, example) in FAMILIES {
        let Some(key) = name.strip_prefix(prefix) else {
            continue;
        };
        if key.is_empty() || (key != "*" && !key.chars().all(is_key_char)) {
            return Err(format!(
                "`{name}` names no member of `{topic}`\n\
                 note: write one name, as in `{prefix}{example}`, or `{topic}` for all"
            ));
        }
        let own = EVENTS.iter().find(|(event, _)| *topic == "job.event.*" && *event == key);
        let type_name = own.map_or(*type_name, |(_, own)| own);
        return Ok(Found { type_name, topic, key: key.to_owned() });
    }
    if let Some(instead) = elsewhere::serves(name) {
        return Err(format!("jobtap has no topic `{name}`\nnote: {instead}"));
    }
    if name.contains(['*', '?', '[']) {
        return Err(format!(
            "`{name}` is a pattern, and a handler names its topics\n\
             note: write each one, as in `#[on(\"job.state.run\", \"job.state.cleanup\")]`; only \
             `job.*`, `job.state.*`, `job.event.*`, `job.dependency.*` and `job.update.*` stand for \
             many"
        ));
    }
    let known = TOPICS.iter().map(|(topic, _)| *topic).chain(FAMILIES.iter().map(|f| f.1));
    let meant = suggest::nearest(name, known.clone()).map(str::to_owned);
    Err(match meant.or_else(|| elsewhere::short_for(name, known.clone())) {
        Some(meant) => format!("no topic is named `{name}`; did you mean `{meant}`?"),
        None => format!(
            "no topic is named `{name}`\nnote: the topics are {}",
            known.map(|topic| format!("`{topic}`")).collect::<Vec<_>>().join(", ")
        ),
    })
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn families_keep_the_member() {
        let found = find("job.dependency.afterok").unwrap();
        assert_eq!((found.type_name, &*found.key), ("JobDependency", "afterok"));
        let every = find("job.event.*").unwrap();
        assert_eq!((every.type_name, &*every.key), ("JobEventAny", "*"));
        assert_eq!(find("job.event.alloc").unwrap().type_name, "JobEventAlloc");
        assert!(find("job.event.").is_err());
    }

    #[test]
    fn a_misspelt_topic_is_answered_with_the_one_meant() {
        assert!(find("job.state.runs").unwrap_err().contains("did you mean `job.state.run`?"));
        assert!(find("validate").unwrap_err().contains("did you mean `job.validate`?"));
        assert!(find("weather").unwrap_err().contains("the topics are"));
    }

    #[test]
    fn what_is_never_called_is_answered_with_what_serves_instead() {
        assert!(find("job.state.new").unwrap_err().contains("`job.validate`"));
        assert!(find("job.state.r*").unwrap_err().contains("is a pattern"));
    }

    #[test]
    fn wildcards_are_topics_of_their_own() {
        assert_eq!(find("job.state.*").unwrap().type_name, "JobState");
        assert_eq!(find("job.*").unwrap().type_name, "JobAny");
        let update = find("job.update.attributes.system.duration").unwrap();
        assert_eq!(
            (update.type_name, &*update.key),
            ("JobUpdateKey", "attributes.system.duration")
        );
        assert_eq!(find("job.update").unwrap().type_name, "JobUpdate");
    }
}
