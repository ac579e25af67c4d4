//! The topics that `#[on]` knows by their strings; their types are in `jobtap_core::topic`.

use crate::suggest;

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
    ("job.validate", "JobValidate"),
    ("job.new", "JobNew"),
    ("job.state.depend", "JobStateDepend"),
    ("job.state.priority", "JobStatePriority"),
    ("job.state.sched", "JobStateSched"),
    ("job.state.run", "JobStateRun"),
    ("job.state.cleanup", "JobStateCleanup"),
    ("job.state.inactive", "JobStateInactive"),
    ("job.priority.get", "JobPriorityGet"),
];

/// Families: `job.event.NAME` and so on, `*` for every member.
const FAMILIES: &[(&str, &str, &str)] = &[
    ("job.dependency.", "job.dependency.*", "JobDependency"),
    ("job.event.", "job.event.*", "JobEvent"),
];

/// Topics of Flux that are not offered, and what serves instead.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "job.create",
        "handle `job.validate` to see a job before it is accepted, `job.new` once it is",
    ),
    (
        "job.update",
        "subscribe to the job with `cx.subscribe(job)` and handle `job.event.jobspec-update`",
    ),
    ("job.inactive-add", "handle `job.state.inactive`"),
    ("job.destroy", "handle `job.state.inactive`"),
];

/// Whether `name` is the type of a topic.
pub(crate) fn is_type(name: &str) -> bool {
    let topics = TOPICS.iter().map(|(_, type_name)| *type_name);
    let families = FAMILIES.iter().map(|(_, _, type_name)| *type_name);
    topics
        .chain(families)
        .chain(["Later"])
        .any(|known| known == name)
}

/// Finds a topic by its string.
///
/// # Errors
/// A sentence for the author, with the topic that was probably meant.
pub(crate) fn find(name: &str) -> Result<Found, String> {
    if let Some((topic, type_name)) = TOPICS.iter().find(|(topic, _)| *topic == name) {
        return Ok(Found {
            type_name,
            topic,
            key: String::new(),
        });
    }
    for (prefix, topic, type_name) in FAMILIES {
        if let Some(key) = name.strip_prefix(prefix) {
            if key.is_empty() || (key != "*" && !key.chars().all(is_key_char)) {
                return Err(format!(
                    "`{name}` names no member of `{topic}`\n\
                     note: write one name, as in `{prefix}{}`, or `{topic}` for all",
                    if *type_name == "JobEvent" {
                        "start"
                    } else {
                        "afterok"
                    }
                ));
            }
            return Ok(Found {
                type_name,
                topic,
                key: key.to_owned(),
            });
        }
    }
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(topic, _)| *topic == name) {
        return Err(format!("jobtap has no topic `{name}`\nnote: {instead}"));
    }
    if name.contains(['*', '?', '[']) {
        return Err(format!(
            "`{name}` is a pattern, and a handler names its topics\n\
             note: write each one, as in `#[on(\"job.state.run\", \"job.state.cleanup\")]`; only \
             `job.event.*` and `job.dependency.*` stand for many"
        ));
    }
    let known = TOPICS
        .iter()
        .map(|(topic, _)| *topic)
        .chain(FAMILIES.iter().map(|f| f.1));
    Err(match suggest::nearest(name, known.clone()) {
        Some(meant) => format!("no topic is named `{name}`; did you mean `{meant}`?"),
        None => format!(
            "no topic is named `{name}`\nnote: the topics are {}",
            known
                .map(|topic| format!("`{topic}`"))
                .collect::<Vec<_>>()
                .join(", ")
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
        assert_eq!(find("job.event.*").unwrap().key, "*");
        assert!(find("job.event.").is_err());
    }

    #[test]
    fn a_misspelt_topic_is_answered_with_the_one_meant() {
        assert!(
            find("job.state.runs")
                .unwrap_err()
                .contains("did you mean `job.state.run`?")
        );
        assert!(find("prolog").unwrap_err().contains("the topics are"));
    }

    #[test]
    fn what_flux_offers_beyond_is_answered_with_what_serves_instead() {
        assert!(find("job.create").unwrap_err().contains("`job.validate`"));
        assert!(find("job.state.*").unwrap_err().contains("is a pattern"));
    }
}
