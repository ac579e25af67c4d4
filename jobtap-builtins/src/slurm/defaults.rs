//! `defaults`: sets values for fields that a request leaves unset.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "defaults" }]
//!
//! [plugins.defaults]
//! time_limit = 60          # minutes
//! account = "guests"
//! comment = "submitted without a comment"
//! ```
//!
//! Slurm's plugin of this name does nothing as it is shipped: a site edits its source. Here the table sets
//! the values, with the names and the units of Slurm's fields. A field that the request sets stays as it is.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use jobtap_core::slurm::{self, Field, JobDescriptor, SlurmError, errno};

/// The plugin `defaults`.
#[derive(Debug)]
pub struct Defaults {
    values: Vec<(&'static Field<JobDescriptor>, slurm::Value)>,
}

/// The value of a field in the configuration.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Setting {
    Flag(bool),
    Number(f64),
    Text(String),
}

impl From<Setting> for slurm::Value {
    fn from(setting: Setting) -> Self {
        match setting {
            // Slurm writes flags as 0 and 1.
            Setting::Flag(flag) => f64::from(u8::from(flag)).into(),
            Setting::Number(number) => number.into(),
            Setting::Text(text) => text.into(),
        }
    }
}

#[jobtap_plugin(name = "defaults", load = "by-name")]
impl Defaults {
    #[init]
    fn new(settings: Conf<BTreeMap<String, Setting>>) -> Result<Self, ConfError> {
        let values =
            settings.into_inner().into_iter().map(|(name, setting)| checked(&name, setting));
        Ok(Self { values: values.collect::<Result<_, _>>()? })
    }

    #[on("slurm.job_submit")]
    fn submit(&self, mut desc: Descriptor<'_>) -> Result<(), SlurmError> {
        let unset = JobDescriptor::default();
        for (field, value) in &self.values {
            if (field.get)(&desc) == (field.get)(&unset) {
                // Checked when the plugin was loaded.
                let set = desc.set(field.name, value.clone());
                set.map_err(|error| errno::ESLURM_INTERNAL.with(error.to_string()))?;
            }
        }
        Ok(())
    }
}

/// Returns the field of this name and the value, if the field accepts it.
fn checked(
    name: &str,
    setting: Setting,
) -> Result<(&'static Field<JobDescriptor>, slurm::Value), ConfError> {
    let field = Field::find(slurm::FIELDS, name).ok_or_else(|| {
        let known = slurm::FIELDS.iter().map(|field| field.name);
        let meant = jobtap_core::suggest::nearest(name, known);
        let meant = meant.map(|meant| format!(", did you mean {meant:?}?")).unwrap_or_default();
        ConfError::new(format!("{name}: Slurm's job description has no such field{meant}"))
    })?;
    let value = slurm::Value::from(setting);
    let mut trial = JobDescriptor::default();
    let set = trial.set(name, value.clone());
    set.map_err(|error| ConfError::new(format!("{name}: {error}")))?;
    Ok((field, value))
}
