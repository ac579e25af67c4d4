//! `.update-duration`: lets users change the duration of their pending jobs, within the limits for new jobs.
//! The instance's owner can change the duration of any job, even if it is running, and without limits.
//!
//! ```toml
//! [plugins.".update-duration"]
//! owner-allow-any = 1              # 0: the owner is treated like other users
//! ```
//!
//! As in Flux, the setting holds until it is changed or the manager restarts, even if the plugin is removed
//! and loaded again without it.

use jobtap_core::prelude::*;

/// Who may exceed the limits on durations. It is kept when the plugin is unloaded.
#[data(volatile)]
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UpdateDuration {
    /// 1 lets the owner of the instance exceed limits; 0 does not.
    owner_allow_any: Option<u8>,
}

#[jobtap_plugin(name = ".update-duration", after = [".validate-duration"], instance_data = Self)]
impl UpdateDuration {
    #[init]
    fn new(conf: Conf<Self>) -> Self {
        conf.into_inner()
    }

    #[on("conf.update")]
    fn keep(&mut self, last: InstanceData<'_, Self>) -> Result<(), ConfError> {
        self.owner_allow_any = self.owner_allow_any.or(last.get()?.owner_allow_any);
        Ok(last.set(self)?)
    }

    #[on("job.update.attributes.system.duration")]
    fn update(&self, job: &Job, request: &UpdateRequest) -> Result<Update, Reject> {
        let seconds: f64 = request.read()?;
        let free = request.cred.owner && self.owner_allow_any != Some(0);
        let text = "duration update of running job requires instance owner privileges";
        Reject::when(job.state().is_running() && !free, text)?;
        Reject::when(seconds < 0.0, "duration must not be negative")?;
        Ok(if free { Update::allow().validated() } else { Update::allow() })
    }
}
