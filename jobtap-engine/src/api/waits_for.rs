//! What a job waits for, in one word.
//!
//! `job-manager.why` has a sentence for each thing that holds a job, and lists have one word for the first of them. Both
//! take the word from here, and so do the commands that show it in Slurm's words.

/// What holds a job: the kind of a reason in `job-manager.why`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitsFor {
    /// It is being accepted.
    Submission,
    /// Another job, or a plugin that has added a dependency.
    Dependency,
    /// It may not begin before some time.
    BeginTime,
    /// A limit on what a user, a bank or a queue may have at once.
    Limit,
    /// There are not enough licenses.
    License,
    /// It has no priority yet.
    Priority,
    /// A plugin that leaves its priority open, or that has failed.
    Plugin,
    /// Its user or a plugin holds it: its urgency or its priority is 0.
    Held,
    /// Its queue is stopped, or not configured any more.
    Queue,
    /// The scheduler of its queue is offline.
    Scheduler,
    /// Jobs that are before it in its queue.
    Order,
    /// Nodes that an elastic instance asks for.
    Allocation,
    /// Other jobs have the resources.
    Resources,
    /// It needs nodes that are drained or offline.
    Nodes,
    /// It could still run when a maintenance begins.
    Maintenance,
    /// As many elements of its array are active as may be at once.
    ArrayLimit,
    /// Elements of its array are refused, and tried again.
    Refused,
    /// A prolog.
    Prolog,
    /// Its tasks are being started.
    Start,
    /// Its tasks are being ended.
    Tasks,
    /// An epilog.
    Epilog,
    /// Its resources are being freed.
    Release,
}

impl WaitsFor {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Submission,
        Self::Dependency,
        Self::BeginTime,
        Self::Limit,
        Self::License,
        Self::Priority,
        Self::Plugin,
        Self::Held,
        Self::Queue,
        Self::Scheduler,
        Self::Order,
        Self::Allocation,
        Self::Resources,
        Self::Nodes,
        Self::Maintenance,
        Self::ArrayLimit,
        Self::Refused,
        Self::Prolog,
        Self::Start,
        Self::Tasks,
        Self::Epilog,
        Self::Release,
    ];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Submission => "submission",
            Self::Dependency => "dependency",
            Self::BeginTime => "begin-time",
            Self::Limit => "limit",
            Self::License => "license",
            Self::Priority => "priority",
            Self::Plugin => "plugin",
            Self::Held => "held",
            Self::Queue => "queue",
            Self::Scheduler => "scheduler",
            Self::Order => "order",
            Self::Allocation => "allocation",
            Self::Resources => "resources",
            Self::Nodes => "nodes",
            Self::Maintenance => "maintenance",
            Self::ArrayLimit => "array-limit",
            Self::Refused => "refused",
            Self::Prolog => "prolog",
            Self::Start => "start",
            Self::Tasks => "tasks",
            Self::Epilog => "epilog",
            Self::Release => "release",
        }
    }

    /// The one with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.word() == word)
    }

    /// What an open dependency with this description is. Limits hold jobs by dependencies: the builtin `limits` by one of
    /// this name, flux-accounting by names such as `max-running-jobs-user-limit`.
    pub(crate) fn of_dependency(description: &str) -> Self {
        match description.split_once('=').map_or(description, |(scheme, _)| scheme) {
            "begin-time" => Self::BeginTime,
            "license" => Self::License,
            "limits" => Self::Limit,
            name if name.starts_with("max-") => Self::Limit,
            _ => Self::Dependency,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_names_one() {
        for one in WaitsFor::ALL {
            assert_eq!(WaitsFor::named(one.word()), Some(one));
        }
        assert_eq!(WaitsFor::named("x"), None);
    }

    #[test]
    fn dependencies_are_told_apart_by_their_names() {
        for (description, kind) in [
            ("after-success=f4fr", WaitsFor::Dependency),
            ("singleton", WaitsFor::Dependency),
            ("maximal", WaitsFor::Dependency),
            ("begin-time=17.5", WaitsFor::BeginTime),
            ("license=matlab:2", WaitsFor::License),
            ("limits", WaitsFor::Limit),
            ("max-running-jobs-user-limit", WaitsFor::Limit),
        ] {
            assert_eq!(WaitsFor::of_dependency(description), kind, "{description}");
        }
    }
}
