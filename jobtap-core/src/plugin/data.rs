//! A plugin's own durable data on a job.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::host::{Command, Host};
use crate::job::JobId;

/// Says that plugin `Self` keeps data of type `D` on jobs.
///
/// `#[jobtap_plugin(name = "..", data = D)]` implements it; there is one type for each plugin.
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps no data of type `{D}`",
    label = "not this plugin's data",
    note = "declare it: `#[jobtap_plugin(name = \"..\", data = {D})]`"
)]
pub trait PluginData<D>: 'static {}

/// A plugin's data on one job.
///
/// It is stored under `job.<id>.data.<plugin>` (RFC 16) in the same commit as the events of the
/// callback that wrote it, and is back after a restart. A job without data reads as `D::default()`.
pub struct Data<'a, D> {
    host: &'a dyn Host,
    job: JobId,
    kind: PhantomData<fn() -> D>,
}

/// Stored data that is not of the plugin's type (any more).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("data of job {job} can't be read as `{type_name}`: {reason}")]
pub struct DataError {
    /// The job.
    pub job: JobId,
    /// The type that the plugin expects.
    pub type_name: &'static str,
    /// What serde found.
    pub reason: String,
}

impl<'a, D> Data<'a, D> {
    pub(crate) fn new(host: &'a dyn Host, job: JobId) -> Self {
        Self {
            host,
            job,
            kind: PhantomData,
        }
    }
}

impl<D: Default + Serialize + DeserializeOwned> Data<'_, D> {
    /// The data as it is now, this callback's own writes included.
    ///
    /// # Errors
    /// When what is stored is not a `D`.
    pub fn get(&self) -> Result<D, DataError> {
        match self.host.data(self.job) {
            None => Ok(D::default()),
            Some(value) => serde_json::from_value(value).map_err(|e| self.error(e)),
        }
    }

    /// Replaces the data.
    ///
    /// # Errors
    /// When `D` can't be written as JSON.
    pub fn set(&self, data: &D) -> Result<(), DataError> {
        let value = serde_json::to_value(data).map_err(|e| self.error(e))?;
        self.host.push(Command::SetData {
            job: self.job,
            value,
        });
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

    fn error(&self, error: serde_json::Error) -> DataError {
        DataError {
            job: self.job,
            type_name: std::any::type_name::<D>(),
            reason: error.to_string(),
        }
    }
}
