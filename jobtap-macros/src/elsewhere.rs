//! Names that are no topics but stand for one elsewhere: in Flux, in Slurm, or among the events.

/// What Flux or Slurm call a moment, and what serves here.
const SERVES: &[(&str, &str)] = &[
    (
        "job.state.new",
        "NEW is the state before a job is accepted: handle `job.validate`, or `job.new` once it is",
    ),
    (
        "job.submit",
        "a job is accepted or refused in `job.validate`, and is there from `job.new` on",
    ),
    ("job_submit", "a job is accepted or refused in `job.validate`"),
    ("job_modify", "a user's change is decided in `job.update.KEY`"),
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

/// Events of RFC 21, which authors write without their `event`.
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

/// What serves instead of this.
pub(crate) fn serves(name: &str) -> Option<&'static str> {
    SERVES.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}

/// The topic whose last word, or all but its first, this is: `validate`, `state.run`, `job.run`.
pub(crate) fn short_for<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
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

    #[test]
    fn hooks_of_others_are_answered_with_what_serves() {
        assert!(serves("job_submit").is_some_and(|text| text.contains("`job.validate`")));
        assert!(serves("epilog").is_some_and(|text| text.contains("`job.state.cleanup`")));
        assert_eq!(serves("job.new"), None);
    }
}
