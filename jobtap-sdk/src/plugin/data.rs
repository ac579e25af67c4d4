//! A plugin's own data, on jobs and on the instance, which survives a restart of the manager.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cx::jobs::AsJob;
use crate::host::{Command, Host, IsError};
use crate::job::JobId;

/// Plugin `Self` stores data of type `D` on jobs.
///
/// `#[jobtap_plugin(name = "..", data = D)]` implements it; a plugin has one such type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` stores no data of type `{D}`",
    label = "not this plugin's data",
    note = "declare it: `#[jobtap_plugin(name = \"..\", data = {D})]`; data of the instance is taken as `InstanceData<'_, {D}>`"
)]
pub trait PluginData<D>: 'static {
    /// How the data is read and written.
    fn form() -> DataForm<D>;
}

/// Plugin `Self` stores data of type `D` on the instance.
///
/// `#[jobtap_plugin(name = "..", instance_data = D)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` stores no data of type `{D}` on the instance",
    label = "not this plugin's data",
    note = "declare it: `#[jobtap_plugin(name = \"..\", instance_data = {D})]`; data of a job is taken as `Data<'_, {D}>`"
)]
pub trait PluginInstanceData<D>: 'static {
    /// How the data is read and written.
    fn form() -> DataForm<D>;
}

/// A type that a plugin can store as its data: any that is `Default`, `Serialize` and `Deserialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be stored as a plugin's data",
    label = "not `Default`, `Serialize` and `Deserialize`",
    note = "derive them: `#[derive(Default, Serialize, Deserialize)]`; a job without data has the default"
)]
pub trait StoredData: Default + Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<D: Default + Serialize + DeserializeOwned> StoredData for D {}

/// How data of type `D` is read and written.
///
/// It contains what `D` must implement as functions. So the compiler checks the bounds on `D` where a plugin
/// declares its data, and a missing derive is one error instead of one at each use.
#[derive(Debug)]
pub struct DataForm<D> {
    spec: DataSpec<D>,
    initial: fn() -> D,
    read: fn(Value) -> serde_json::Result<D>,
    write: fn(&D) -> serde_json::Result<Value>,
}

impl<D> Clone for DataForm<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for DataForm<D> {}

impl<D: StoredData> DataForm<D> {
    /// The form of data with this specification.
    pub fn new(spec: DataSpec<D>) -> Self {
        Self {
            spec,
            initial: D::default,
            read: |value| serde_json::from_value(value),
            write: |data| serde_json::to_value(data),
        }
    }
}

/// How data of type `D` is stored: the options of `#[data(..)]` on the type.
#[derive(Debug)]
pub struct DataSpec<D> {
    /// The version of the type; 1 by default.
    pub version: u32,
    /// Whether the data is kept in memory only.
    pub volatile: bool,
    /// Converts data of an older version, given that version and the stored JSON.
    pub upgrade: Option<Upgrade<D>>,
}

/// See [`DataSpec::upgrade`].
pub type Upgrade<D> = fn(u32, Value) -> Result<D, UpgradeError>;

impl<D> Clone for DataSpec<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for DataSpec<D> {}

impl<D> Default for DataSpec<D> {
    fn default() -> Self {
        Self { version: 1, volatile: false, upgrade: None }
    }
}

/// A type with `#[data(version = .., volatile, upgrade = ..)]`. Data of a type without the attribute is
/// durable and has version 1.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[data(version = 2, upgrade = from_minutes)]
/// #[derive(Debug, Default, Serialize, Deserialize)]
/// struct Used { seconds: f64 }
///
/// /// Version 1 counted minutes.
/// fn from_minutes(_version: u32, old: serde_json::Value) -> Result<Used, UpgradeError> {
///     #[derive(Deserialize)]
///     struct Old { minutes: f64 }
///     let old: Old = serde_json::from_value(old)?;
///     Ok(Used { seconds: old.minutes * 60.0 })
/// }
/// ```
pub trait VersionedData: Sized {
    /// The options of the attribute.
    fn spec() -> DataSpec<Self>;
}

/// Why stored data of an older version can't be converted. `?` converts any other [`std::error::Error`] into it.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn upgrade(version: u32, old: serde_json::Value) -> Result<u64, UpgradeError> {
///     match version {
///         1 => Ok(serde_json::from_value(old)?),
///         _ => Err(UpgradeError::new("only version 1 was released")),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeError(String);

impl UpgradeError {
    /// Makes an error with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl<E: IsError> From<E> for UpgradeError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A plugin's data on one job, as a parameter of handlers.
///
/// Each change is stored under `job.<id>.data.<plugin>` (RFC 16) in the same commit as the events of the
/// callback. The data survives a restart of the manager. A job without data has `D::default()`.
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
///
/// /// How often the priority of a job was computed, across restarts.
/// #[derive(Default, Serialize, Deserialize)]
/// struct Computed(u32);
///
/// #[derive(Default)]
/// struct Aging;
///
/// #[jobtap_plugin(name = "aging", data = Computed)]
/// impl Aging {
///     #[on("job.state.priority", "job.priority.get")]
///     fn priority(&self, count: Data<'_, Computed>) -> Result<Priority, HandlerError> {
///         let count = count.update(|count| {
///             count.0 += 1;
///             count.0
///         })?;
///         Ok(Priority::new(100 * count))
///     }
/// }
/// # let mut m = TestManager::new().plugin::<Aging>().start();
/// # m.hold_scheduling().unwrap();
/// # let id = m.submit(TestJob::new()).unwrap();
/// # m.assert_priority(id, 100);
/// # m.crash_and_restart();
/// # m.assert_priority(id, 200);
/// ```
pub struct Data<'a, D> {
    host: &'a dyn Host,
    job: JobId,
    form: DataForm<D>,
}

/// A plugin's data on any job, as a parameter of handlers that have no job of their own: services,
/// `plugin.query`, `conf.update`. Where the topic has a job, take [`Data`].
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Cost(f64);
///
/// #[derive(Default)]
/// struct Costs;
///
/// #[jobtap_plugin(name = "costs", data = Cost)]
/// impl Costs {
///     #[on("job.state.sched")]
///     fn sched(&self, job: &Job, cost: Data<'_, Cost>) -> Result<(), HandlerError> {
///         Ok(cost.set(&Cost(job.jobspec().duration() * 0.1))?)
///     }
///
///     #[service("cost")]
///     fn cost(
///         &self,
///         id: Request<JobId>,
///         costs: JobsData<'_, Cost>,
///         cx: Cx<'_, Service>,
///     ) -> Result<f64, ServiceError> {
///         Ok(costs.of(cx.job(*id)?).get()?.0)
///     }
/// #
/// #     #[on("job.state.priority")]
/// #     fn priority(&self) -> Priority {
/// #         Priority::new(1)
/// #     }
/// }
/// # let mut m = TestManager::new().plugin::<Costs>().start();
/// # let id = m.submit(TestJob::new().duration(60.0)).unwrap();
/// # assert_eq!(m.call_service("costs.cost", serde_json::json!(id)).unwrap(), 6.0);
/// ```
pub struct JobsData<'a, D> {
    host: &'a dyn Host,
    form: DataForm<D>,
}

impl<'a, D> JobsData<'a, D> {
    pub(crate) fn new(host: &'a dyn Host, form: DataForm<D>) -> Self {
        Self { host, form }
    }

    /// The data on this job.
    pub fn of(&self, job: impl AsJob) -> Data<'a, D> {
        Data::new(self.host, job.job_id(), self.form)
    }
}

/// A plugin's data on the instance, as a parameter of handlers: data that belongs to no job, such as the
/// usage of users.
///
/// Each change is stored in the same commit as the events of the callback. The data survives a restart of the
/// manager.
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
/// # use std::collections::BTreeMap;
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Ran(BTreeMap<Uid, u64>);
///
/// #[derive(Default)]
/// struct Counts;
///
/// #[jobtap_plugin(name = "counts", instance_data = Ran)]
/// impl Counts {
///     #[on("job.state.inactive")]
///     fn inactive(&self, job: &Job, ran: InstanceData<'_, Ran>) -> Result<(), HandlerError> {
///         Ok(ran.update(|ran| *ran.0.entry(job.userid()).or_default() += 1)?)
///     }
///
///     #[service("runs")]
///     fn runs(&self, user: Request<Uid>, ran: InstanceData<'_, Ran>) -> Result<u64, ServiceError> {
///         Ok(ran.get()?.0.get(&user).copied().unwrap_or_default())
///     }
/// #
/// #     #[on("job.state.priority")]
/// #     fn priority(&self) -> Priority {
/// #         Priority::new(1)
/// #     }
/// }
/// # let mut m = TestManager::new().plugin::<Counts>().start();
/// # let id = m.submit(TestJob::new()).unwrap();
/// # m.finish(id, 0);
/// # m.crash_and_restart();
/// # assert_eq!(m.call_service("counts.runs", serde_json::json!(1000)).unwrap(), 1);
/// ```
pub struct InstanceData<'a, D> {
    host: &'a dyn Host,
    form: DataForm<D>,
}

/// Stored data that can't be read as the plugin's type, or data that can't be written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("data of {}, of type `{type_name}`, {reason}", owner(*.job))]
pub struct DataError {
    /// The job that the data belongs to; `None` for data of the instance.
    pub job: Option<JobId>,
    /// The type that the plugin expects.
    pub type_name: &'static str,
    /// Whether reading or writing failed, and serde's error or the stored version.
    pub reason: String,
}

impl<'a, D> Data<'a, D> {
    pub(crate) fn new(host: &'a dyn Host, job: JobId, form: DataForm<D>) -> Self {
        Self { host, job, form }
    }

    /// The same plugin's data on another job.
    pub fn of(&self, job: impl AsJob) -> Data<'a, D> {
        Data { job: job.job_id(), ..*self }
    }
}

impl<D> Data<'_, D> {
    /// The data, including changes of this callback.
    ///
    /// # Errors
    /// When the stored data is neither a `D` nor of an older version that can be upgraded.
    pub fn get(&self) -> Result<D, DataError> {
        read(self.host.data(self.job), &self.form, Some(self.job))
    }

    /// Replaces the data.
    ///
    /// # Errors
    /// When `D` can't be written as JSON.
    pub fn set(&self, data: &D) -> Result<(), DataError> {
        let value = written(data, &self.form, Some(self.job))?;
        let volatile = self.form.spec.volatile;
        self.host.push(Command::SetData { job: self.job, value, volatile });
        Ok(())
    }

    /// Changes the data in place.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`set`](Self::set).
    pub fn update<R>(&self, change: impl FnOnce(&mut D) -> R) -> Result<R, DataError> {
        let mut data = self.get()?;
        let result = change(&mut data);
        self.set(&data)?;
        Ok(result)
    }
}

impl<'a, D> InstanceData<'a, D> {
    pub(crate) fn new(host: &'a dyn Host, form: DataForm<D>) -> Self {
        Self { host, form }
    }
}

impl<D> InstanceData<'_, D> {
    /// The data, including changes of this callback.
    ///
    /// # Errors
    /// When the stored data is neither a `D` nor of an older version that can be upgraded.
    pub fn get(&self) -> Result<D, DataError> {
        read(self.host.instance_data(), &self.form, None)
    }

    /// Replaces the data.
    ///
    /// # Errors
    /// When `D` can't be written as JSON.
    pub fn set(&self, data: &D) -> Result<(), DataError> {
        let value = written(data, &self.form, None)?;
        self.host.push(Command::SetInstanceData { value, volatile: self.form.spec.volatile });
        Ok(())
    }

    /// Changes the data in place.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`set`](Self::set).
    pub fn update<R>(&self, change: impl FnOnce(&mut D) -> R) -> Result<R, DataError> {
        let mut data = self.get()?;
        let result = change(&mut data);
        self.set(&data)?;
        Ok(result)
    }
}

fn owner(job: Option<JobId>) -> String {
    job.map_or_else(|| "the instance".to_owned(), |id| format!("job {id}"))
}

fn error<D>(job: Option<JobId>, reason: String) -> DataError {
    DataError { job, type_name: std::any::type_name::<D>(), reason }
}

fn unreadable<D>(job: Option<JobId>, why: impl fmt::Display) -> DataError {
    error::<D>(job, format!("can't be read: {why}"))
}

/// The stored JSON. It contains the version, so that a later version of the plugin can upgrade it.
fn written<D>(data: &D, form: &DataForm<D>, job: Option<JobId>) -> Result<Value, DataError> {
    let data = (form.write)(data).map_err(|e| {
        // Nearly always a map whose keys are tuples or structs.
        error::<D>(
            job,
            format!("can't be written as JSON, whose maps have strings or numbers as keys: {e}"),
        )
    })?;
    Ok(json!({ "version": form.spec.version, "data": data }))
}

fn read<D>(stored: Option<Value>, form: &DataForm<D>, job: Option<JobId>) -> Result<D, DataError> {
    let Some(mut stored) = stored else {
        return Ok((form.initial)());
    };
    let version = stored.get("version").and_then(Value::as_u64);
    let (Some(version), Some(data)) = (version, stored.get_mut("data").map(Value::take)) else {
        return Err(unreadable::<D>(job, "it has no version and data as this manager stores them"));
    };
    // A version that doesn't fit is newer than any that this plugin can know.
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    let wanted = form.spec.version;
    match form.spec.upgrade {
        _ if version == wanted => (form.read)(data).map_err(|e| {
            let next = wanted.saturating_add(1);
            let reason = format!(
                "{e}; if the type has changed since it was stored, write `#[data(version = {next}, upgrade = ..)]`"
            );
            unreadable::<D>(job, reason)
        }),
        _ if version > wanted => {
            let reason = format!(
                "version {version} was stored by a newer plugin, this one knows up to {wanted}"
            );
            Err(unreadable::<D>(job, reason))
        }
        Some(upgrade) => upgrade(version, data).map_err(|e| {
            unreadable::<D>(job, format!("upgrade from version {version} to {wanted}: {}", e.0))
        }),
        None => {
            let reason = format!(
                "version {version} is stored and {wanted} is expected: give \
                 `#[data(version = {wanted}, upgrade = ..)]`"
            );
            Err(unreadable::<D>(job, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn form(version: u32, upgrade: Option<Upgrade<u64>>) -> DataForm<u64> {
        DataForm::new(DataSpec { version, volatile: false, upgrade })
    }

    #[test]
    fn written_data_is_read_and_missing_data_is_the_default() {
        let stored = written(&7, &form(1, None), None).unwrap();
        assert_eq!(read(Some(stored), &form(1, None), None), Ok(7));
        assert_eq!(read(None, &form(1, None), None), Ok(0));
    }

    #[test]
    fn an_older_version_is_upgraded() {
        let stored = written(&7, &form(1, None), None).unwrap();
        let upgrade: Upgrade<u64> = |from, old| Ok(old.as_u64().unwrap() * 60 + u64::from(from));
        let v3 = form(3, Some(upgrade));
        assert_eq!(read(Some(stored), &v3, None), Ok(421));
    }

    #[test]
    fn an_unreadable_version_is_named_in_the_error() {
        let stored = written(&7, &form(1, None), None).unwrap();
        let v2 = form(2, None);
        let error = read::<u64>(Some(stored), &v2, Some(JobId::new(3))).unwrap_err();
        assert!(error.to_string().contains("version 1 is stored and 2 is expected"), "{error}");
        let stored = written(&7, &v2, None).unwrap();
        let error = read::<u64>(Some(stored), &form(1, None), None).unwrap_err();
        assert!(error.to_string().contains("stored by a newer plugin"), "{error}");
        let renamed = json!({"version": 1, "data": {"minutes": 2}});
        let error = read::<u64>(Some(renamed), &form(1, None), None).unwrap_err();
        let says = "write `#[data(version = 2, upgrade = ..)]`";
        assert!(error.to_string().contains(says), "{error}");
        let error = read::<u64>(Some(json!(5)), &form(1, None), None).unwrap_err();
        assert!(
            error.to_string().starts_with("data of the instance, of type `u64`, can't be read"),
            "{error}"
        );
    }

    #[test]
    fn a_map_with_tuples_as_keys_is_refused_with_the_reason() {
        type Pairs = BTreeMap<(u32, u32), f64>;
        let form = DataForm::<Pairs>::new(DataSpec { version: 1, volatile: false, upgrade: None });
        let error =
            written(&BTreeMap::from([((1, 2), 0.5)]), &form, Some(JobId::new(3))).unwrap_err();
        let says = "can't be written as JSON, whose maps have strings or numbers as keys: key must be a string";
        assert!(error.to_string().ends_with(says), "{error}");
    }
}
