//! The parameters of handlers.

use super::update::Updates;
use crate::eventlog::EventEntry;
use crate::host::values::allocation::Demand;
use crate::host::{Detail, Failure, UpdateRequest};
use crate::job::{Job, JobInfo, State};
use crate::jobspec::{Dependency, Jobspec};
use crate::plugin::conf::{Conf, ConfTable, InstanceConf};
use crate::plugin::cx::call::Call;
use crate::plugin::cx::context::Cx;
use crate::plugin::data::{Data, InstanceData, JobsData, PluginData, PluginInstanceData};
use crate::plugin::remote::handle::{Remote, SamePlugin};
use crate::resource::ResourceSet;
use crate::topic::{
    HasCause, HasConf, HasDemand, HasDependency, HasEntry, HasJob, HasMember, HasOwnConf, HasOwned,
    HasPrevState, HasResources, HasUpdateRequest, HasUpdates, TopicId, TopicSet,
};

/// Types that a handler of plugin `P` may take as a parameter at topic `T`.
///
/// | parameter | where |
/// |---|---|
/// | `&Job`, `&Jobspec`, `JobInfo`, `Option<&ResourceSet>` | every `job.*` topic |
/// | `&ResourceSet` | `job.state.run` |
/// | [`PrevState`], `Option<&EventEntry>` | `job.state.*` |
/// | `&EventEntry` | `job.event.*` |
/// | `&Dependency` | `job.dependency.*` |
/// | `&UpdateRequest` | `job.update.KEY` |
/// | `Updates` | `job.update` |
/// | [`Descriptor`], [`SubmitUid`], [`Partitions`] | `slurm.job_submit`, `slurm.job_modify` |
/// | `&JobRecord` | `slurm.job_modify` |
/// | `Node` | `slurm.prolog`, `slurm.epilog` |
/// | [`JobTopic`] | the wildcards `job.state.*` and `job.*` |
/// | [`&Demand`](Demand) | `allocation.plan` |
/// | `Conf<C>`, `InstanceConf<C>` | `conf.update` |
/// | `Request<Q>`, `Caller`, `Responder<R>` | `#[service]` |
/// | `&MyTopic` | `#[on(MyTopic)]`: an author's own topic is its payload |
/// | `Cx<'_, T>`, `Remote<Self>` | everywhere |
/// | `Data<'_, D>` | every `job.*` topic of a plugin with `data = D` |
/// | `JobsData<'_, D>` | everywhere in a plugin with `data = D` |
/// | `InstanceData<'_, D>` | everywhere in a plugin with `instance_data = D` |
///
/// [`Descriptor`]: super::slurm::Descriptor
/// [`SubmitUid`]: super::slurm::SubmitUid
/// [`Partitions`]: super::slurm::Partitions
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't take `{Self}`",
    label = "not a parameter of this topic",
    note = "id, user, state and result of the job are methods of `&Job`; other jobs are looked up with `cx.job(id)`",
    note = "where the topic has them, a handler takes `&Job`, `&Jobspec`, `&ResourceSet`, `PrevState`, `&EventEntry`, `&Dependency`, `Updates`, `&UpdateRequest`, `&Demand`, `Conf<C>`, `InstanceConf<C>`, `Data<'_, D>`, `JobsData<'_, D>`, `InstanceData<'_, D>`, `Remote<Self>`, and `Cx<'_, T>` with `T` as in `#[on]`; a service takes `Request<Q>`, `Caller` and `Responder<R>`; a type of your own that has one of these names is not the one of the SDK"
)]
pub trait FromTopic<'a, P, T: TopicSet>: Sized {
    /// Takes the parameter from a call.
    ///
    /// # Errors
    /// When the host did not pass what the topic promises, or when the payload of a request can't be
    /// read as the parameter's type.
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure>;
}

impl<'a, P, T: HasJob> FromTopic<'a, P, T> for &'a Job {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        call.args.job.ok_or(Failure::Input("the host gave no job"))
    }
}

impl<'a, P, T: HasJob> FromTopic<'a, P, T> for &'a Jobspec {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(<&Job as FromTopic<'a, P, T>>::from_topic(call)?.jobspec())
    }
}

impl<'a, P, T: HasJob> FromTopic<'a, P, T> for JobInfo {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(<&Job as FromTopic<'a, P, T>>::from_topic(call)?.into())
    }
}

impl<'a, P, T: HasJob> FromTopic<'a, P, T> for Option<&'a ResourceSet> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(<&Job as FromTopic<'a, P, T>>::from_topic(call)?.resources())
    }
}

impl<'a, P, T: HasResources> FromTopic<'a, P, T> for &'a ResourceSet {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        call.args.job.and_then(Job::resources).ok_or(Failure::Input("the host gave no resources"))
    }
}

impl<'a, P, T: HasResources> FromTopic<'a, P, T> for ResourceSet {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        <&ResourceSet as FromTopic<'a, P, T>>::from_topic(call).cloned()
    }
}

/// The previous state of a job, at topics `job.state.*`.
///
/// It is `None` when no event caused the callback: a plugin that is loaded into a running manager is
/// called for the jobs that exist.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn cleanup(job: &Job, prev: PrevState, cx: Cx<'_, JobStateCleanup>) {
///     if prev.0 != Some(State::Run) {
///         cx.log(Level::Info, format!("{} never had resources", job.id()));
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrevState(pub Option<State>);

impl<'a, P, T: HasPrevState> FromTopic<'a, P, T> for PrevState {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(match call.args.detail {
            Detail::State { prev, .. } => PrevState(prev),
            _ => PrevState(None),
        })
    }
}

impl<'a, P, T: HasCause> FromTopic<'a, P, T> for Option<&'a EventEntry> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(match call.args.detail {
            Detail::State { entry, .. } => entry,
            _ => None,
        })
    }
}

impl<'a, P, T: HasEntry> FromTopic<'a, P, T> for &'a EventEntry {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        match call.args.detail {
            Detail::Event(entry) => Ok(entry),
            _ => Err(Failure::Input("the host gave no event entry")),
        }
    }
}

impl<'a, P, T: HasDependency> FromTopic<'a, P, T> for &'a Dependency {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        match call.args.detail {
            Detail::Dependency(dependency) => Ok(dependency),
            _ => Err(Failure::Input("the host gave no dependency")),
        }
    }
}

/// A copy, for asynchronous handlers.
impl<'a, P, T: HasDependency> FromTopic<'a, P, T> for Dependency {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        <&Dependency as FromTopic<'a, P, T>>::from_topic(call).cloned()
    }
}

impl<'a, P, T: HasUpdates> FromTopic<'a, P, T> for Updates<'a> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        match call.args.detail {
            Detail::Updates(updates) => Ok(Updates(updates)),
            _ => Err(Failure::Input("the host gave no updates")),
        }
    }
}

impl<'a, P, T: HasUpdateRequest> FromTopic<'a, P, T> for &'a UpdateRequest {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        match call.args.detail {
            Detail::UpdateRequest(request) => Ok(request),
            _ => Err(Failure::Input("the host gave no update request")),
        }
    }
}

impl<'a, P, T: HasDemand> FromTopic<'a, P, T> for &'a Demand {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        match call.args.detail {
            Detail::Demand(demand) => Ok(demand),
            _ => Err(Failure::Input("the host gave no demand for allocations")),
        }
    }
}

/// The topic at which a handler of `job.state.*` or `job.*` is called, with the parameters of that
/// topic.
///
/// ```
/// # use jobtap_core::prelude::*;
/// # #[derive(Default)]
/// # struct Trace;
/// #[jobtap_plugin(name = "trace")]
/// impl Trace {
///     #[on("job.*")]
///     fn any(&self, job: &Job, topic: JobTopic<'_>, cx: Cx<'_, JobAny>) {
///         let what = match topic {
///             JobTopic::State(_) => format!("is in {}", job.state()),
///             JobTopic::Event(entry) => format!("has {}", entry.name),
///             other => format!("{other:?}"),
///         };
///         cx.log(Level::Debug, format!("{} {what}", job.id()));
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum JobTopic<'a> {
    /// `job.create`
    Create,
    /// `job.validate`
    Validate,
    /// `job.dependency.SCHEME`
    Dependency(&'a Dependency),
    /// `job.new`
    New,
    /// `job.state.*`; the new state is `job.state()`.
    State(PrevState),
    /// `job.event.NAME`
    Event(&'a EventEntry),
    /// `job.priority.get`
    PriorityGet,
    /// `job.update.KEY`
    UpdateKey(&'a UpdateRequest),
    /// `job.update`
    Update(Updates<'a>),
    /// `job.inactive-add`
    InactiveAdd,
    /// `job.inactive-remove`
    InactiveRemove,
    /// `job.destroy`
    Destroy,
}

impl<'a, P, T: HasMember> FromTopic<'a, P, T> for JobTopic<'a> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(match (call.args.topic, call.args.detail) {
            (TopicId::JobCreate, _) => JobTopic::Create,
            (TopicId::JobValidate, _) => JobTopic::Validate,
            (TopicId::JobNew, _) => JobTopic::New,
            (TopicId::JobPriorityGet, _) => JobTopic::PriorityGet,
            (TopicId::JobInactiveAdd, _) => JobTopic::InactiveAdd,
            (TopicId::JobInactiveRemove, _) => JobTopic::InactiveRemove,
            (TopicId::JobDestroy, _) => JobTopic::Destroy,
            (_, Detail::Dependency(dependency)) => JobTopic::Dependency(dependency),
            (_, Detail::Event(entry)) => JobTopic::Event(entry),
            (_, Detail::UpdateRequest(request)) => JobTopic::UpdateKey(request),
            (_, Detail::Updates(updates)) => JobTopic::Update(Updates(updates)),
            (_, Detail::State { prev, .. }) => JobTopic::State(PrevState(prev)),
            _ => JobTopic::State(PrevState(None)),
        })
    }
}

impl<'a, P, T: HasConf, C: ConfTable> FromTopic<'a, P, T> for InstanceConf<C> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let Detail::Conf { instance, .. } = call.args.detail else {
            return Err(Failure::Input("the host gave no configuration"));
        };
        InstanceConf::read(instance).map_err(|error| Failure::Reject(error.text().to_owned()))
    }
}

macro_rules! borrowed {
    ($($name:ident)*) => { $(
        /// Exists for the compile error of its bound: a handler takes this type by reference.
        impl<'a, P, T: HasOwned> FromTopic<'a, P, T> for $name {
            fn from_topic(_: &Call<'a, T>) -> Result<Self, Failure> {
                Err(Failure::Input("a handler takes this by reference"))
            }
        }
    )* };
}
borrowed!(Job Jobspec EventEntry UpdateRequest Demand);

impl<'a, P, T: HasOwnConf, C: ConfTable> FromTopic<'a, P, T> for Conf<C> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let Detail::Conf { own, name, .. } = call.args.detail else {
            return Err(Failure::Input("the host gave no configuration"));
        };
        Conf::read(own, name).map_err(|error| Failure::Reject(error.text().to_owned()))
    }
}

impl<'a, P, T: TopicSet> FromTopic<'a, P, T> for Cx<'a, T> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(Cx::new(*call))
    }
}

impl<'a, P, Q: SamePlugin<P>, T: TopicSet> FromTopic<'a, P, T> for Remote<Q> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(Remote::new(call.args.host.remote()))
    }
}

impl<'a, P: PluginData<D>, D, T: HasJob> FromTopic<'a, P, T> for Data<'a, D> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let job = <&Job as FromTopic<'a, P, T>>::from_topic(call)?;
        Ok(Data::new(call.args.host, job.id(), P::form()))
    }
}

impl<'a, P: PluginData<D>, D, T: TopicSet> FromTopic<'a, P, T> for JobsData<'a, D> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(JobsData::new(call.args.host, P::form()))
    }
}

impl<'a, P: PluginInstanceData<D>, D, T: TopicSet> FromTopic<'a, P, T> for InstanceData<'a, D> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(InstanceData::new(call.args.host, P::form()))
    }
}
