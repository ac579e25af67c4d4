//! The topics that `#[on]` knows by their strings, and what was probably meant by another string.

use jobtap_topics::suggest::{nearest, slip_of};
use jobtap_topics::{EVENT_TOPICS, TOPICS, Topic};

use crate::no_topic::NoTopic;

/// A topic of the job manager as `#[on]` found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The type in `jobtap_core::topic`.
    pub(crate) type_name: &'static str,
    /// The topic, or its family with `*`.
    pub(crate) topic: &'static str,
    /// The member of the family; empty if the topic is not a family.
    pub(crate) key: String,
    /// Whether a handler may be `async`.
    pub(crate) may_be_async: bool,
}

impl Found {
    /// The topic of services, which `#[on]` doesn't take.
    pub(crate) fn service(name: String) -> Self {
        Found { type_name: "Service", topic: "service", key: name, may_be_async: true }
    }

    /// Returns the topic as its author wrote it.
    pub(crate) fn name(&self) -> String {
        if self.key.is_empty() { self.topic.to_owned() } else { self.topic.replace('*', &self.key) }
    }
}

/// Returns whether `name` is the type of a topic.
pub(crate) fn is_type(name: &str) -> bool {
    let topics = TOPICS.iter().chain(EVENT_TOPICS).map(|topic| topic.type_name);
    topics.chain(["Later", "Service"]).any(|known| known == name)
}

/// Returns the string of the topic with this type; for a family, with a member that shows the form.
pub(crate) fn string_of(type_name: &str) -> Option<String> {
    let topic = TOPICS.iter().chain(EVENT_TOPICS).find(|topic| topic.type_name == type_name)?;
    Some(topic.name.replace('*', topic.example.unwrap_or("*")))
}

/// Finds a topic by its string.
///
/// # Errors
/// No topic has this string.
pub(crate) fn find(name: &str) -> Result<Found, NoTopic> {
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == name && topic.example.is_none()) {
        return Ok(found(topic, topic.name, ""));
    }
    for topic in families() {
        let family = topic.name;
        let Some(key) = name.strip_prefix(family.trim_end_matches('*')) else { continue };
        if key.is_empty() || (key != "*" && !key.chars().all(is_key_char)) {
            let example = topic.example.unwrap_or_default();
            return Err(NoTopic::Member { name: name.to_owned(), family, example });
        }
        if let Some(meant) = (family == "job.dependency.*").then(|| as_scheme(key))
            && meant != key
        {
            return Err(NoTopic::Scheme { written: key.to_owned(), meant });
        }
        if let Some(meant) = (family == "job.event.*").then(|| slip_of(key, events())).flatten() {
            return Err(NoTopic::Event { written: key.to_owned(), meant });
        }
        // Some events are topics of their own, with the string of their family.
        let own = EVENT_TOPICS.iter().find(|event| event.name == name);
        return Ok(found(own.unwrap_or(topic), family, key));
    }
    Err(unknown(name.to_owned()))
}

fn found(topic: &Topic, family: &'static str, key: &str) -> Found {
    let Topic { type_name, may_be_async, .. } = *topic;
    Found { type_name, topic: family, key: key.to_owned(), may_be_async }
}

/// The topics of which handlers name a member: `job.event.NAME` and so on.
fn families() -> impl Iterator<Item = &'static Topic> + Clone {
    TOPICS.iter().filter(|topic| topic.example.is_some())
}

/// The error for a name that no topic has and no family begins with.
fn unknown(name: String) -> NoTopic {
    if let Some(instead) = serves(&name) {
        return NoTopic::Foreign { name, instead };
    }
    if name.contains(['*', '?', '[']) {
        return NoTopic::Pattern { name };
    }
    let single = TOPICS.iter().filter(|topic| topic.example.is_none());
    let known = single.chain(families()).map(|topic| topic.name);
    let meant = nearest(&name, known.clone()).map(str::to_owned);
    match meant.or_else(|| short_for(&name, known.clone())) {
        Some(meant) => NoTopic::Misspelt { name, meant },
        None => NoTopic::Unknown { name, known: known.collect() },
    }
}

/// The scheme of a URI (RFC 3986, as jobspecs are read) that is nearest to this name: `AfterQuota` and
/// `after_quota` become `after-quota`. A scheme stays as it is.
fn as_scheme(name: &str) -> String {
    if name == "*" {
        return name.to_owned();
    }
    let mut scheme = String::new();
    for c in name.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).chars() {
        match c {
            '_' => scheme.push('-'),
            c if c.is_ascii_uppercase() => {
                if !scheme.is_empty() && !scheme.ends_with(['-', '.', '+']) {
                    scheme.push('-');
                }
                scheme.push(c.to_ascii_lowercase());
            }
            c => scheme.push(c),
        }
    }
    scheme
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+')
}

/// Names of moments in Flux and Slurm that are not topics here, and what serves instead.
const SERVES: &[(&str, &str)] = &[
    (
        "job.state.new",
        "NEW is the state before a job is accepted: handle `job.validate`, or `job.new` once it is",
    ),
    (
        "job.submit",
        "a job is accepted or refused in `job.validate`, and is there from `job.new` on",
    ),
    (
        "job_submit",
        "handle `slurm.job_submit` to see and change a request in Slurm's terms; `job.validate` accepts or \
         refuses the job",
    ),
    (
        "job_modify",
        "handle `slurm.job_modify` to see and change a request in Slurm's terms; `job.update.KEY` decides on \
         the change of a jobspec",
    ),
    ("job.modify", "a user's change is decided in `job.update.KEY`"),
    (
        "prolog",
        "a prolog is an `async` handler of `job.state.run`, or a `cx.prolog_start(..)` there",
    ),
    (
        "epilog",
        "an epilog is an `async` handler of `job.state.cleanup`, or a `cx.epilog_start(..)` there",
    ),
    (
        "job.prolog",
        "a prolog is an `async` handler of `job.state.run`, or a `cx.prolog_start(..)` there",
    ),
    (
        "job.epilog",
        "an epilog is an `async` handler of `job.state.cleanup`, or a `cx.epilog_start(..)` there",
    ),
    ("job.cancel", "a cancelled job comes to `job.state.cleanup`; its end is `job.end_event()`"),
    ("load", "a plugin is built by the function under `#[init]`"),
    ("init", "a plugin is built by the function under `#[init]`"),
];

/// Events of RFC 21, which authors write without `event.`.
const EVENTS: &[&str] = &[
    "alloc",
    "annotations",
    "clean",
    "exception",
    "finish",
    "free",
    "memo",
    "release",
    "start",
    "urgency",
];

/// The other events of RFC 21. Their names are also those of other topics, or a handler of a topic serves
/// better.
const OTHER_EVENTS: &[&str] = &[
    "dependency-add",
    "dependency-remove",
    "depend",
    "epilog-finish",
    "epilog-start",
    "jobspec-update",
    "priority",
    "prolog-finish",
    "prolog-start",
    "resource-update",
    "set-flags",
    "validate",
];

/// All events of RFC 21 that a handler can be called for.
fn events() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().chain(OTHER_EVENTS).copied()
}

/// Returns what serves instead of a moment of Flux or Slurm.
fn serves(name: &str) -> Option<&'static str> {
    SERVES.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}

/// Returns the topic whose last words are `name`, with or without `job.` before them: `validate`,
/// `state.run`, `job.run`.
fn short_for<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let words = name.strip_prefix("job.").unwrap_or(name);
    if words.is_empty() {
        return None;
    }
    let ends = |topic: &&str| topic.strip_suffix(words).is_some_and(|rest| rest.ends_with('.'));
    let mut topics = known.into_iter().filter(ends);
    if let Some(topic) = topics.next() {
        return Some(topic.to_owned());
    }
    EVENTS.contains(&words).then(|| format!("job.event.{words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the author of this string reads.
    fn error(name: &str) -> String {
        find(name).unwrap_err().to_string()
    }

    #[test]
    fn a_member_of_a_family_keeps_its_name() {
        let found = find("job.dependency.afterok").unwrap();
        assert_eq!((found.type_name, &*found.key), ("JobDependency", "afterok"));
        assert_eq!(found.name(), "job.dependency.afterok");
        let every = find("job.event.*").unwrap();
        assert_eq!((every.type_name, &*every.key), ("JobEventAny", "*"));
        let alloc = find("job.event.alloc").unwrap();
        assert_eq!((alloc.type_name, alloc.topic), ("JobEventAlloc", "job.event.*"));
        assert!(find("job.event.").is_err());
    }

    #[test]
    fn a_misspelt_event_is_not_taken_for_a_plugins_own() {
        let error = error("job.event.finsh");
        assert!(error.contains("did you mean `job.event.finish`?"), "{error}");
        for event in events().chain(["finished", "checkpoint"]) {
            find(&format!("job.event.{event}")).unwrap();
        }
    }

    #[test]
    fn a_scheme_that_no_dependency_can_have_is_refused() {
        for (name, scheme) in
            [("AfterQuota", "after-quota"), ("after_quota", "after-quota"), ("2nd", "nd")]
        {
            let error = error(&format!("job.dependency.{name}"));
            assert!(error.ends_with(&format!("write `job.dependency.{scheme}`")), "{error}");
        }
        for scheme in ["begin-time", "x+y.z2", "*"] {
            find(&format!("job.dependency.{scheme}")).unwrap();
        }
    }

    #[test]
    fn a_misspelt_topic_is_answered_with_the_one_meant() {
        assert!(error("job.state.runs").contains("did you mean `job.state.run`?"));
        assert!(error("validate").contains("did you mean `job.validate`?"));
        assert!(error("weather").contains("the topics are"));
    }

    #[test]
    fn a_name_of_flux_or_slurm_is_answered_with_what_serves() {
        assert!(error("job.state.new").contains("`job.validate`"));
        assert!(error("job_submit").contains("`slurm.job_submit`"));
        assert!(error("slurm.job_submits").contains("did you mean `slurm.job_submit`?"));
        assert!(error("epilog").contains("`job.state.cleanup`"));
        assert!(error("job.state.r*").contains("is a pattern"));
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

    #[test]
    fn a_type_is_answered_with_the_string_to_write() {
        assert_eq!(string_of("JobValidate").as_deref(), Some("job.validate"));
        assert_eq!(string_of("JobDependency").as_deref(), Some("job.dependency.afterok"));
        assert_eq!(string_of("JobEvent").as_deref(), Some("job.event.start"));
        assert_eq!(string_of("JobEventAny").as_deref(), Some("job.event.*"));
        assert_eq!(string_of("JobState").as_deref(), Some("job.state.*"));
        assert_eq!(string_of("Weather"), None);
    }

    #[test]
    fn the_end_of_a_topic_is_enough_to_know_which_is_meant() {
        let known = ["job.validate", "job.state.run", "job.state.priority", "job.state.*"];
        for (written, meant) in [
            ("validate", Some("job.validate")),
            ("job.run", Some("job.state.run")),
            ("state.run", Some("job.state.run")),
            ("priority", Some("job.state.priority")),
            ("job.exception", Some("job.event.exception")),
            ("start", Some("job.event.start")),
            ("alidate", None),
            ("job.", None),
            ("", None),
        ] {
            assert_eq!(short_for(written, known).as_deref(), meant, "{written}");
        }
    }
}
