//! What a handler may take as parameters.

use super::call::Call;
use super::conf::{Conf, ConfTable, InstanceConf};
use super::cx::Cx;
use super::data::{Data, PluginData};
use super::failure::Failure;
use super::remote::Remote;
use crate::eventlog::EventEntry;
use crate::job::{Job, JobInfo, State};
use crate::jobspec::{Dependency, Jobspec};
use crate::resource::ResourceSet;
use crate::topic::{
    HasConf, HasDependency, HasEntry, HasJob, HasOwnConf, HasPrevState, HasResources, TopicSet,
};

/// Types that a handler of plugin `P` may take as a parameter at topic `T`.
///
/// | parameter | where |
/// |---|---|
/// | `&Job`, `&Jobspec`, `JobInfo`, `Option<&ResourceSet>` | every `job.*` topic |
/// | `&ResourceSet` | `job.state.run` |
/// | [`PrevState`] | `job.state.*` |
/// | `&EventEntry` | `job.event.*` |
/// | `&Dependency` | `job.dependency.*` |
/// | `InstanceConf<C>` | `conf.update` |
/// | `Cx<'_, T>`, `Remote<Self>` | everywhere |
/// | `Data<'_, D>` | every `job.*` topic of a plugin with `data = D` |
#[diagnostic::on_unimplemented(
    message = "a handler of `{T}` can't take `{Self}`",
    label = "not a parameter of this topic",
    note = "a handler takes `&Job`, `&Jobspec`, `&ResourceSet`, `PrevState`, `&EventEntry`, `&Dependency`, `InstanceConf<C>`, `Data<'_, D>`, `Remote<Self>` and `Cx<'_, T>` with `T` as in `#[on]`, where the topic has them"
)]
pub trait FromTopic<'a, P, T: TopicSet>: Sized {
    /// Takes the parameter out of a call.
    ///
    /// # Errors
    /// When the host did not fill in what the topic promises, or stored data can't be read.
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
        call.args
            .job
            .and_then(Job::resources)
            .ok_or(Failure::Input("the host gave no resources"))
    }
}

impl<'a, P, T: HasResources> FromTopic<'a, P, T> for ResourceSet {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        <&ResourceSet as FromTopic<'a, P, T>>::from_topic(call).cloned()
    }
}

/// The state that a job was in before, in `job.state.*`.
///
/// `None` when the callback does not come from an event: the job is introduced to a plugin that
/// was just loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrevState(pub Option<State>);

impl<'a, P, T: HasPrevState> FromTopic<'a, P, T> for PrevState {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(PrevState(call.args.prev_state))
    }
}

impl<'a, P, T: HasEntry> FromTopic<'a, P, T> for &'a EventEntry {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        call.args
            .entry
            .ok_or(Failure::Input("the host gave no event entry"))
    }
}

impl<'a, P, T: HasDependency> FromTopic<'a, P, T> for &'a Dependency {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        call.args
            .dependency
            .ok_or(Failure::Input("the host gave no dependency"))
    }
}

impl<'a, P, T: HasConf, C: ConfTable> FromTopic<'a, P, T> for InstanceConf<C> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let conf = call
            .args
            .conf
            .ok_or(Failure::Input("the host gave no configuration"))?;
        InstanceConf::read(conf).map_err(|error| Failure::Reject(error.text().to_owned()))
    }
}

/// For its compile error: no topic has it.
impl<'a, P, T: HasOwnConf, C: ConfTable> FromTopic<'a, P, T> for Conf<C> {
    fn from_topic(_: &Call<'a, T>) -> Result<Self, Failure> {
        Err(Failure::Input("a topic has no `Conf`"))
    }
}

impl<'a, P, T: TopicSet> FromTopic<'a, P, T> for Cx<'a, T> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(Cx::new(*call))
    }
}

impl<'a, P: 'static, T: TopicSet> FromTopic<'a, P, T> for Remote<P> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        Ok(Remote::new(call.args.host.remote()))
    }
}

impl<'a, P: PluginData<D>, D, T: HasJob> FromTopic<'a, P, T> for Data<'a, D> {
    fn from_topic(call: &Call<'a, T>) -> Result<Self, Failure> {
        let job = <&Job as FromTopic<'a, P, T>>::from_topic(call)?;
        Ok(Data::new(call.args.host, job.id()))
    }
}
