//! The typed events of a job: one variant for each event that the job manager knows, with a type for its context.
//!
//! Only this file knows the keys of the members of a context. An [`EventEntry`] keeps its context as it was read, with
//! unknown members, so that it can be written back unchanged. An [`Event`] is the typed view of an entry.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Context, EventEntry, Name};
use crate::job::{Flags, FlagsError, JobFlag, JobId, Timestamp, Uid, Urgency, UrgencyError};

/// An event of a job with its typed context (RFC 21).
///
/// Code that must handle every event matches without a wildcard. When a variant is added here, that code doesn't
/// compile until it handles the variant.
///
/// ```
/// use jobtap_core::eventlog::{Event, EventEntry};
/// use jobtap_core::job::Timestamp;
///
/// let line = r#"{"timestamp":5.5,"name":"finish","context":{"status":256}}"#;
/// let entry = EventEntry::decode(line)?;
/// assert_eq!(entry.event(), Ok(Event::Finish { status: 256 }));
/// assert_eq!(Event::Finish { status: 256 }.at(Timestamp(5.5)), entry);
/// # Ok::<(), jobtap_core::eventlog::EntryError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'e> {
    /// The job was submitted.
    Submit(Submitted),
    /// It was accepted.
    Validate,
    /// It was not accepted.
    Invalidate,
    /// It waits for a dependency.
    DependencyAdd {
        /// Names the dependency within the job.
        description: &'e str,
    },
    /// It no longer waits for a dependency.
    DependencyRemove {
        /// The description with which the dependency was added.
        description: &'e str,
    },
    /// It no longer waits for any dependency.
    Depend,
    /// It got a priority.
    Priority {
        /// The priority.
        priority: u32,
    },
    /// Its urgency was changed.
    Urgency {
        /// The user who changed it.
        userid: Option<Uid>,
        /// The urgency.
        urgency: Urgency,
    },
    /// Its jobspec was changed: new values by their paths, such as `attributes.system.duration`.
    JobspecUpdate(&'e Context),
    /// The expiration of its resources was changed.
    ResourceUpdate {
        /// The new expiration, in seconds since the UNIX epoch, or 0 if the resources don't expire.
        expiration: f64,
    },
    /// Resources were allocated to it.
    Alloc(Allocated<'e>),
    /// A prolog has begun: the job's tasks are not started before it has ended.
    PrologStart {
        /// Names the prolog within the job.
        description: &'e str,
    },
    /// A prolog has ended.
    PrologFinish {
        /// The description with which it was started.
        description: &'e str,
        /// 0 is success.
        status: i32,
    },
    /// The job's tasks were started.
    Start,
    /// All of the tasks have exited.
    Finish {
        /// The greatest wait status of all tasks; see [`WaitStatus`](crate::job::WaitStatus).
        status: i32,
    },
    /// An epilog has begun: the job's resources are not freed before it has ended.
    EpilogStart {
        /// Names the epilog within the job.
        description: &'e str,
    },
    /// An epilog has ended.
    EpilogFinish {
        /// The description with which it was started.
        description: &'e str,
        /// 0 is success.
        status: i32,
    },
    /// Some or all of the job's ranks no longer have tasks.
    Release {
        /// The ranks as an idset, or `all`.
        ranks: &'e str,
        /// Whether these are the last ranks.
        is_final: bool,
    },
    /// Its resources were freed.
    Free,
    /// It is inactive.
    Clean,
    /// An exception was raised.
    Exception(Raised<'e>),
    /// The user's annotations were changed. The context maps their keys to the new values; null removes an annotation.
    Memo(&'e Context),
    /// Flags were set.
    SetFlags(Vec<JobFlag>),
    /// The manager was restarted, so that the job needs a new priority.
    FluxRestart,
    /// Its annotations have changed. The context has all of them as `annotations`, or null.
    Annotations(&'e Context),
    /// Resources were requested. Only jobs with the flag `debug` have this event and the next three.
    DebugAllocRequest,
    /// The start of its tasks was requested.
    DebugStartRequest,
    /// A restarted manager looks for its tasks.
    DebugExecReattachStart,
    /// A restarted manager has found its tasks.
    DebugExecReattachFinish,
    /// An identical job was submitted in its place, as when Slurm requeues a job. Flux has no such event: a job doesn't go
    /// back to an earlier state (RFC 21).
    Requeue {
        /// The new job.
        id: JobId,
    },
    /// Another event, such as one that a plugin has posted.
    Other {
        /// The name.
        name: &'e str,
        /// The context.
        context: Option<&'e Context>,
    },
}

/// The context of a `submit` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The user who submitted the job.
    pub userid: Uid,
    /// The urgency at submission.
    pub urgency: Urgency,
    /// The submit flags.
    pub flags: Flags,
    /// Whether the event has a version. It has none in eventlogs older than the `validate` event, whose jobs were
    /// validated before `submit`.
    pub is_versioned: bool,
}

/// The context of an `alloc` event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allocated<'e> {
    /// A context whose key `annotations` has all annotations of the job at that moment, including the user's.
    pub annotations: Option<&'e Context>,
    /// Whether a plugin allocated the resources instead of the scheduler. If there are annotations, too, their context
    /// also has this member.
    pub bypass: bool,
}

/// The context of an `exception` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised<'e> {
    /// The type, such as `cancel` or `timeout`.
    pub kind: &'e str,
    /// The severity, from 0 (fatal) to 7.
    pub severity: i64,
    /// The reason, for users; may be empty.
    pub note: &'e str,
    /// The user who raised it.
    pub userid: Option<Uid>,
    /// The wait status of the job's tasks according to the exception, if it has one.
    pub wait_status: Option<i32>,
}

impl<'e> Raised<'e> {
    /// An exception that this user raises.
    pub fn new(kind: &'e str, severity: u8, note: &'e str, userid: Uid) -> Self {
        let (severity, userid) = (severity.into(), Some(userid));
        Self { kind, severity, note, userid, wait_status: None }
    }

    /// Whether the exception is fatal: its severity is 0.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.severity == 0
    }
}

/// Why the context of an event isn't what RFC 21 asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The event has no context.
    #[error("no context")]
    NoContext,
    /// A member is missing, or has another type.
    #[error("no {expected} under {key:?}")]
    NoMember {
        /// The type.
        expected: &'static str,
        /// The key of the member.
        key: &'static str,
    },
    /// A number is too small or too large.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// The urgency is invalid.
    #[error(transparent)]
    Urgency(#[from] UrgencyError),
    /// The submit flags have a bit that no flag has.
    #[error(transparent)]
    Flags(#[from] FlagsError),
    /// A flag of `set-flags` that isn't known.
    #[error("unknown flag {0:?}")]
    UnknownFlag(String),
    /// The eventlog has an unknown version.
    #[error("eventlog v{0} is unsupported")]
    Version(i64),
}

static EMPTY: LazyLock<Context> = LazyLock::new(Context::default);

/// The version of eventlogs.
const VERSION: i64 = 1;

/// The keys of contexts.
mod key {
    pub(super) const ANNOTATIONS: &str = "annotations";
    pub(super) const BYPASS: &str = "bypass";
    pub(super) const DESCRIPTION: &str = "description";
    pub(super) const EXPIRATION: &str = "expiration";
    pub(super) const FINAL: &str = "final";
    pub(super) const FLAGS: &str = "flags";
    pub(super) const ID: &str = "id";
    pub(super) const NOTE: &str = "note";
    pub(super) const PRIORITY: &str = "priority";
    pub(super) const RANKS: &str = "ranks";
    pub(super) const SEVERITY: &str = "severity";
    pub(super) const STATUS: &str = "status";
    pub(super) const TYPE: &str = "type";
    pub(super) const URGENCY: &str = "urgency";
    pub(super) const USERID: &str = "userid";
    pub(super) const VERSION: &str = "version";
    pub(super) const WAIT_STATUS: &str = "wait_status";
}

impl EventEntry {
    /// Returns the typed event. Unknown members of the context are left out; the entry keeps them.
    ///
    /// # Errors
    /// [`ContextError`] if the context lacks something that the event needs.
    pub fn event(&self) -> Result<Event<'_>, ContextError> {
        let members = Members(self.context.as_ref());
        let description = || members.text(key::DESCRIPTION);
        Ok(match &self.name {
            Name::Submit => Event::Submit(members.submitted()?),
            Name::Validate => Event::Validate,
            Name::Invalidate => Event::Invalidate,
            Name::DependencyAdd => Event::DependencyAdd { description: description()? },
            Name::DependencyRemove => Event::DependencyRemove { description: description()? },
            Name::Depend => Event::Depend,
            Name::Priority => Event::Priority { priority: members.natural(key::PRIORITY)? },
            Name::Urgency => {
                Event::Urgency { userid: members.userid(), urgency: members.urgency()? }
            }
            Name::JobspecUpdate => Event::JobspecUpdate(members.all()?),
            Name::ResourceUpdate => {
                Event::ResourceUpdate { expiration: members.number(key::EXPIRATION)? }
            }
            Name::Alloc => Event::Alloc(members.allocated()),
            Name::PrologStart => Event::PrologStart { description: description()? },
            Name::PrologFinish => Event::PrologFinish {
                description: description()?,
                status: members.status(key::STATUS)?,
            },
            Name::Start => Event::Start,
            Name::Finish => Event::Finish { status: members.status(key::STATUS)? },
            Name::EpilogStart => Event::EpilogStart { description: description()? },
            Name::EpilogFinish => Event::EpilogFinish {
                description: description()?,
                status: members.status(key::STATUS)?,
            },
            Name::Release => Event::Release {
                ranks: members.text(key::RANKS)?,
                is_final: members.truth(key::FINAL)?,
            },
            Name::Free => Event::Free,
            Name::Clean => Event::Clean,
            Name::Exception => Event::Exception(members.raised()?),
            // An empty memo may have no context.
            Name::Memo => Event::Memo(members.0.unwrap_or(&EMPTY)),
            Name::SetFlags => Event::SetFlags(members.flags()?),
            Name::FluxRestart => Event::FluxRestart,
            Name::Annotations => Event::Annotations(members.all()?),
            Name::DebugAllocRequest => Event::DebugAllocRequest,
            Name::DebugStartRequest => Event::DebugStartRequest,
            Name::DebugExecReattachStart => Event::DebugExecReattachStart,
            Name::DebugExecReattachFinish => Event::DebugExecReattachFinish,
            Name::Requeue => Event::Requeue { id: members.id()? },
            Name::Other(name) => Event::Other { name, context: self.context.as_ref() },
        })
    }
}

/// Reads the members of a context.
#[derive(Clone, Copy)]
struct Members<'e>(Option<&'e Context>);

impl<'e> Members<'e> {
    fn all(self) -> Result<&'e Context, ContextError> {
        self.0.ok_or(ContextError::NoContext)
    }

    /// Reads a member with `read`, which returns `None` if the member has another type than `expected`.
    fn member<T>(
        self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&'e Value) -> Option<T>,
    ) -> Result<T, ContextError> {
        let value = self.0.and_then(|context| context.get(key));
        value.and_then(read).ok_or(ContextError::NoMember { expected, key })
    }

    fn text(self, key: &'static str) -> Result<&'e str, ContextError> {
        self.member(key, "text", Value::as_str)
    }

    fn number(self, key: &'static str) -> Result<f64, ContextError> {
        self.member(key, "number", Value::as_f64)
    }

    fn truth(self, key: &'static str) -> Result<bool, ContextError> {
        self.member(key, "true or false", Value::as_bool)
    }

    fn integer(self, key: &'static str) -> Result<i64, ContextError> {
        self.member(key, "number", Value::as_i64)
    }

    fn natural(self, key: &'static str) -> Result<u32, ContextError> {
        u32::try_from(self.integer(key)?).map_err(|_| ContextError::OutOfRange(key))
    }

    fn status(self, key: &'static str) -> Result<i32, ContextError> {
        i32::try_from(self.integer(key)?).map_err(|_| ContextError::OutOfRange(key))
    }

    fn id(self) -> Result<JobId, ContextError> {
        self.member(key::ID, "number", Value::as_u64).map(JobId::new)
    }

    /// The user who posted the event. Not all job managers record it.
    fn userid(self) -> Option<Uid> {
        self.natural(key::USERID).ok().map(Uid)
    }

    fn urgency(self) -> Result<Urgency, ContextError> {
        Ok(Urgency::new(self.integer(key::URGENCY)?)?)
    }

    fn submitted(self) -> Result<Submitted, ContextError> {
        let version = self.integer(key::VERSION).ok();
        // This is checked first, since another version may have other members.
        if let Some(other) = version.filter(|version| *version != VERSION) {
            return Err(ContextError::Version(other));
        }
        Ok(Submitted {
            userid: Uid(self.natural(key::USERID)?),
            urgency: self.urgency()?,
            flags: Flags::from_bits(self.natural(key::FLAGS)?)?,
            is_versioned: version.is_some(),
        })
    }

    fn allocated(self) -> Allocated<'e> {
        Allocated {
            annotations: self.0.filter(|context| context.contains_key(key::ANNOTATIONS)),
            bypass: self.truth(key::BYPASS).unwrap_or(false),
        }
    }

    fn raised(self) -> Result<Raised<'e>, ContextError> {
        Ok(Raised {
            kind: self.text(key::TYPE)?,
            severity: self.integer(key::SEVERITY)?,
            // Some exceptions in Flux's eventlogs have no note.
            note: self.text(key::NOTE).unwrap_or_default(),
            userid: self.userid(),
            wait_status: self.status(key::WAIT_STATUS).ok(),
        })
    }

    fn flags(self) -> Result<Vec<JobFlag>, ContextError> {
        let names = self.member(key::FLAGS, "list", Value::as_array)?;
        let flag = |name: &Value| {
            let name = name.as_str().unwrap_or_default();
            JobFlag::named(name).ok_or_else(|| ContextError::UnknownFlag(name.to_owned()))
        };
        names.iter().map(flag).collect()
    }
}

impl Event<'_> {
    /// The event as an entry of an eventlog, with this time.
    #[must_use]
    pub fn at(&self, timestamp: Timestamp) -> EventEntry {
        let (name, context) = self.parts();
        EventEntry { timestamp, name, context }
    }

    /// The name and the context. The members have the order in which Flux writes them.
    fn parts(&self) -> (Name, Option<Context>) {
        match self {
            Self::Submit(submitted) => (Name::Submit, Some(submitted.context())),
            Self::Validate => (Name::Validate, None),
            Self::Invalidate => (Name::Invalidate, None),
            Self::DependencyAdd { description } => (Name::DependencyAdd, named(description)),
            Self::DependencyRemove { description } => (Name::DependencyRemove, named(description)),
            Self::Depend => (Name::Depend, None),
            Self::Priority { priority } => {
                (Name::Priority, members([(key::PRIORITY, (*priority).into())]))
            }
            Self::Urgency { userid, urgency } => {
                let urgency = (key::URGENCY, urgency.value().into());
                let context = match userid {
                    Some(userid) => members([(key::USERID, userid.0.into()), urgency]),
                    None => members([urgency]),
                };
                (Name::Urgency, context)
            }
            Self::JobspecUpdate(updates) => (Name::JobspecUpdate, Some((*updates).clone())),
            Self::ResourceUpdate { expiration } => {
                (Name::ResourceUpdate, members([(key::EXPIRATION, (*expiration).into())]))
            }
            Self::Alloc(allocated) => (Name::Alloc, allocated.context()),
            Self::PrologStart { description } => (Name::PrologStart, named(description)),
            Self::PrologFinish { description, status } => {
                (Name::PrologFinish, ended(description, *status))
            }
            Self::Start => (Name::Start, None),
            Self::Finish { status } => (Name::Finish, members([(key::STATUS, (*status).into())])),
            Self::EpilogStart { description } => (Name::EpilogStart, named(description)),
            Self::EpilogFinish { description, status } => {
                (Name::EpilogFinish, ended(description, *status))
            }
            Self::Release { ranks, is_final } => {
                let members =
                    members([(key::RANKS, (*ranks).into()), (key::FINAL, (*is_final).into())]);
                (Name::Release, members)
            }
            Self::Free => (Name::Free, None),
            Self::Clean => (Name::Clean, None),
            Self::Exception(raised) => (Name::Exception, Some(raised.context())),
            Self::Memo(memo) => (Name::Memo, Some((*memo).clone())),
            Self::SetFlags(flags) => {
                let names: Vec<&str> = flags.iter().map(|flag| flag.name()).collect();
                (Name::SetFlags, members([(key::FLAGS, names.into())]))
            }
            Self::FluxRestart => (Name::FluxRestart, None),
            Self::Annotations(context) => (Name::Annotations, Some((*context).clone())),
            Self::DebugAllocRequest => (Name::DebugAllocRequest, None),
            Self::DebugStartRequest => (Name::DebugStartRequest, None),
            Self::DebugExecReattachStart => (Name::DebugExecReattachStart, None),
            Self::DebugExecReattachFinish => (Name::DebugExecReattachFinish, None),
            Self::Requeue { id } => (Name::Requeue, members([(key::ID, id.as_u64().into())])),
            Self::Other { name, context } => ((*name).to_owned().into(), context.cloned()),
        }
    }
}

fn members<const N: usize>(members: [(&'static str, Value); N]) -> Option<Context> {
    Some(members.into())
}

fn named(description: &str) -> Option<Context> {
    members([(key::DESCRIPTION, description.into())])
}

fn ended(description: &str, status: i32) -> Option<Context> {
    members([(key::DESCRIPTION, description.into()), (key::STATUS, status.into())])
}

impl Submitted {
    fn context(&self) -> Context {
        let (userid, urgency) = (self.userid.0.into(), self.urgency.value().into());
        let all = [
            (key::USERID, userid),
            (key::URGENCY, urgency),
            (key::FLAGS, self.flags.bits().into()),
            (key::VERSION, VERSION.into()),
        ];
        if self.is_versioned {
            return all.into();
        }
        let [userid, urgency, flags, _] = all;
        [userid, urgency, flags].into()
    }
}

impl Allocated<'_> {
    fn context(&self) -> Option<Context> {
        let mut context = self.annotations.cloned();
        if self.bypass {
            context.get_or_insert_default().push(key::BYPASS, true.into());
        }
        context
    }
}

impl Raised<'_> {
    fn context(&self) -> Context {
        let (kind, severity) =
            ((key::TYPE, self.kind.into()), (key::SEVERITY, self.severity.into()));
        let note = (key::NOTE, self.note.into());
        let mut context = match self.userid {
            Some(userid) => [kind, severity, note, (key::USERID, userid.0.into())].into(),
            None => Context::from([kind, severity, note]),
        };
        if let Some(status) = self.wait_status {
            context.push(key::WAIT_STATUS, status.into());
        }
        context
    }
}

#[cfg(test)]
mod tests;
