//! The table of topics, made from the code: what each topic gives a handler, takes from it, and lets
//! it call.

use std::fmt::Write as _;

use jobtap_core::plugin::AsyncTopic;
use jobtap_core::topic::{EVENT_TOPICS, OnFailure, TOPICS, TopicInfo};

/// What a capability of a topic means for the author of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// A parameter that can be taken.
    Takes(&'static str),
    /// A value that can be returned.
    Returns(&'static str),
    /// An error that can be returned.
    Fails(&'static str),
    /// A call that can be made.
    Calls(&'static str),
}

use Means::{Calls, Fails, Returns, Takes};

/// Each capability trait by its name, with what it means.
pub const CAPABILITIES: &[(&str, Means)] = &[
    ("HasJob", Takes("the job")),
    ("HasActiveJob", Calls("calls on `&Job`")),
    ("HasPendingJob", Calls("`PendingJob`'s too")),
    ("HasResources", Takes("`&ResourceSet`")),
    ("HasPrevState", Takes("`PrevState`")),
    ("HasCause", Takes("`Option<&EventEntry>`")),
    ("HasEntry", Takes("`&EventEntry`")),
    ("HasDependency", Takes("`&Dependency`")),
    ("HasUpdates", Takes("`Updates`")),
    ("HasUpdateRequest", Takes("`&UpdateRequest`")),
    ("HasDemand", Takes("`&Demand`")),
    ("HasMember", Takes("`JobTopic`")),
    ("HasNode", Takes("`Node`")),
    ("HasDescriptor", Takes("`Descriptor`")),
    ("HasSubmitUid", Takes("`SubmitUid`")),
    ("HasPartitions", Takes("`Partitions`")),
    ("HasJobRecord", Takes("`&JobRecord`")),
    ("HasConf", Takes("`InstanceConf<C>`")),
    ("HasOwnConf", Takes("`Conf<C>`")),
    ("ReturnsUnit", Returns("`()`")),
    ("ReturnsPriority", Returns("`Priority`")),
    ("ReturnsAnnotations", Returns("`Annotations`")),
    ("ReturnsResources", Returns("`ResourceSet`")),
    ("ReturnsUpdate", Returns("`Update`")),
    ("ReturnsPlan", Returns("`Plan`")),
    ("ReturnsQuery", Returns("`QueryData`")),
    ("ReturnsVerdict", Fails("`Reject`")),
    ("ReturnsConf", Fails("`ConfError`")),
    ("ReturnsEnd", Fails("`PrologFailed`, `EpilogFailed`")),
    ("ReturnsSlurmError", Fails("`SlurmError`")),
    ("ReturnsFault", Fails("`HandlerError`")),
    ("ReturnsQueryFailure", Fails("`HandlerError`")),
    ("AllowsDependencyAdd", Calls("`dependency_add`")),
    ("AllowsProlog", Calls("`prolog_start`")),
    ("AllowsEpilog", Calls("`epilog_start`")),
    ("AllowsRetain", Calls("`retain_resources`")),
    ("AllowsJobspecUpdate", Calls("`jobspec_update`")),
    ("AllowsUserMessage", Calls("`user_message`")),
    ("AllowsFatal", Calls("`fail`")),
];

fn means(capability: &str) -> Option<Means> {
    CAPABILITIES.iter().find(|(name, _)| *name == capability).map(|(_, means)| *means)
}

/// Turns a bound into a `bool`: where the bound holds, the inherent constant hides that of the trait.
struct Probe<T>(std::marker::PhantomData<T>);

impl<T: AsyncTopic> Probe<T> {
    const IS_ASYNC: bool = true;
}

trait Otherwise {
    const IS_ASYNC: bool = false;
}

impl<T> Otherwise for Probe<T> {}

macro_rules! asynchronous {
    ($($topic:ident)*) => {
        /// Whether a handler of a topic may be `async`, by the topic's type.
        pub const ASYNC: &[(&str, bool)] = &[$((
            stringify!($topic),
            Probe::<jobtap_core::topic::$topic>::IS_ASYNC,
        )),*];
    };
}

asynchronous! {
    ConfUpdate SlurmJobSubmit JobCreate JobValidate JobDependency JobNew JobStateDepend JobStatePriority
    JobStateSched JobStateRun SlurmPrologSlurmctld SlurmProlog JobStateCleanup SlurmEpilogSlurmctld SlurmEpilog JobStateInactive JobState JobEvent JobEventAlloc
    JobEventFinish JobEventFree JobEventClean JobEventAny JobPriorityGet SlurmJobModify JobUpdateKey JobUpdate JobInactiveAdd
    JobDestroy JobInactiveRemove JobAny AllocationPlan PluginQuery Unload
}

/// Every topic. The family of events is followed by its members that are topics of their own.
fn topics() -> impl Iterator<Item = (&'static str, &'static TopicInfo)> {
    TOPICS.iter().flat_map(|topic| {
        let family = topic.type_name == "JobEvent";
        let name = if family { "job.event.NAME" } else { topic.name };
        let own: &[TopicInfo] = if family { EVENT_TOPICS } else { &[] };
        std::iter::once((name, topic)).chain(own.iter().map(|topic| (topic.name, topic)))
    })
}

fn cell(topic: &TopicInfo, pick: impl Fn(Means) -> Option<&'static str>) -> String {
    let found = topic.capabilities.iter().filter_map(|name| means(name).and_then(&pick));
    let found: Vec<&str> = found.collect();
    if found.is_empty() { "–".to_owned() } else { found.join(", ") }
}

/// The lines of the table.
pub fn table() -> String {
    let mut text = String::from(
        "| topic | takes | returns | fails with | may call | may be `async` | a failure |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (name, topic) in topics() {
        let takes = cell(topic, |m| if let Takes(text) = m { Some(text) } else { None });
        let returns = cell(topic, |m| if let Returns(text) = m { Some(text) } else { None });
        let fails = cell(topic, |m| if let Fails(text) = m { Some(text) } else { None });
        let calls = cell(topic, |m| if let Calls(text) = m { Some(text) } else { None });
        let is_async = ASYNC.iter().any(|(name, is)| *name == topic.type_name && *is);
        let is_async = if is_async { "yes" } else { "–" };
        let failure = match topic.on_failure {
            OnFailure::Reject => "rejects",
            OnFailure::Log => "is logged",
        };
        let _ = writeln!(
            text,
            "| `{name}` | {takes} | {returns} | {fails} | {calls} | {is_async} | {failure} |"
        );
    }
    text
}

/// When each topic is called: what the source says above its type.
///
/// `source` is the text of `jobtap-topics/src/lib.rs`.
pub fn list(source: &str) -> String {
    let mut text = String::from("| topic | its type | when it is called |\n|---|---|---|\n");
    for (name, topic) in topics() {
        let declared = format!(" {} = \"{}\"", topic.type_name, topic.name);
        let words = source.split_once(&declared).map(|(before, _)| doc_above(before));
        let words = words.unwrap_or_default();
        let words = words.split_once("`: ").map_or(&*words, |(_, words)| words);
        let _ = writeln!(text, "| `{name}` | `{}` | {} |", topic.type_name, without_links(words));
    }
    text
}

fn doc_above(before: &str) -> String {
    let lines = before.trim_end_matches(' ').lines().rev();
    let mut doc: Vec<&str> =
        lines.map_while(|line| line.trim_start().strip_prefix("///")).map(str::trim).collect();
    doc.reverse();
    doc.join(" ")
}

/// Links into the code lead nowhere from here: only their text is kept.
fn without_links(words: &str) -> String {
    let mut text = String::new();
    let mut rest = words;
    while let Some((before, link)) = rest.split_once("[`") {
        text.push_str(before);
        let (name, after) = link.split_once("`]").unwrap_or((link, ""));
        let _ = write!(text, "`{name}`");
        rest = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, after)| after),
            None => after,
        };
    }
    text + rest
}

/// Returns the text of the chapter.
pub fn chapter(source: &str) -> String {
    let (table, list) = (table(), list(source));
    format!(
        "# What each topic gives and takes\n\n\
         <!-- Generated. `UPDATE_DOCS=1 cargo test -p jobtap-guide` writes it again. -->\n\n\
         The table has one row for each topic that `#[on]` accepts. It is generated from the declarations\n\
         against which the compiler checks handlers. [Handlers](handlers-in-full.md) explains the entries.\n\n\
         - *the job* means `&Job`, `&Jobspec`, `JobInfo` and `Option<&ResourceSet>`; with `data = D`\n  \
           also `Data<'_, D>`.\n\
         - Every topic has `Cx<'_, T>` and `Remote<Self>`, and `InstanceData<'_, D>` with\n  \
           `instance_data = D`.\n\
         - A handler can return each return type also in an `Option`, or as the `Ok` type of a `Result`.\n\
         - The table names only the calls that some topics lack. The others are in\n  \
           [Calls](handlers-in-full.md#calls).\n\
         - *calls on `&Job`*: the job is active, so calls on a job take the handler's `&Job`.\n  \
           At other topics, and for another job, use `cx.active_job(id)?`. *`PendingJob`'s too*: the job has\n  \
           no resources yet either, see [Jobs](handlers-in-full.md#jobs-as-calls-take-them).\n\n\
         {table}\n\
         ## When each topic is called\n\n\
         {list}"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn read(path: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::read_to_string(root.join(path)).unwrap()
    }

    #[test]
    fn the_chapter_agrees_with_the_code() {
        let wanted = chapter(&read("jobtap-topics/src/lib.rs"));
        crate::generated::agrees("topics-table.md", &wanted);
    }

    #[test]
    fn every_capability_of_a_topic_is_explained() {
        for (_, topic) in topics() {
            for capability in topic.capabilities {
                assert!(means(capability).is_some(), "{capability} of {} has no row", topic.name);
            }
        }
    }

    #[test]
    fn every_explained_capability_is_one_of_a_topic() {
        for (name, _) in CAPABILITIES {
            let used = topics().any(|(_, topic)| topic.capabilities.contains(name));
            assert!(used, "no topic has {name}");
        }
    }

    #[test]
    fn every_topic_is_probed_and_described() {
        let probed: Vec<&str> = ASYNC.iter().map(|(name, _)| *name).collect();
        let all: Vec<&str> = topics().map(|(_, topic)| topic.type_name).collect();
        assert_eq!(probed, all);
        let list = list(&read("jobtap-topics/src/lib.rs"));
        assert!(!list.contains("|  |"), "{list}");
    }

    #[test]
    fn async_topics_of_the_table_implement_the_trait() {
        let declared: Vec<(&str, bool)> =
            topics().map(|(_, topic)| (topic.type_name, topic.may_be_async)).collect();
        assert_eq!(ASYNC, declared);
    }

    /// Makes each call that the table names, so that a renamed one doesn't compile.
    #[test]
    fn the_calls_that_are_named_exist() {
        use jobtap_core::path;
        use jobtap_core::plugin::Cx;
        use jobtap_core::topic::{JobStateCleanup, JobStateDepend};
        let _ = |cx: &Cx<'_, JobStateDepend>| {
            let _ = cx.dependency_add("");
            let _ = cx.jobspec_update(path!("tasks"), 0);
            let _ = cx.fail("", "");
            drop(cx.prolog_start(""));
        };
        let _ = |cx: &Cx<'_, JobStateCleanup>| drop(cx.epilog_start(""));
    }
}
