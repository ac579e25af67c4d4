//! `.update-duration`: lets users change the duration of their jobs, within the limits that hold for
//! new ones, and the instance's owner that of any job, without limits, also while it runs.
//!
//! ```toml
//! [plugins.".update-duration"]
//! owner-allow-any = 1              # 0: the owner is treated as everybody else
//! ```

use jobtap_core::prelude::*;

/// See the module.
#[derive(Debug)]
pub struct UpdateDuration {
    settings: Settings,
}

/// What a site can set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Settings {
    /// Whether limits don't concern the owner: 1 or 0.
    owner_allow_any: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self { owner_allow_any: 1 }
    }
}

#[jobtap_plugin(name = ".update-duration", after = [".validate-duration"])]
impl UpdateDuration {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { settings: settings.into_inner() }
    }

    #[on("job.update.attributes.system.duration")]
    fn update(&self, job: &Job, request: &UpdateRequest) -> Result<Update, Reject> {
        let seconds = request.value.as_f64();
        let seconds = seconds.ok_or_else(|| Reject::new("plugin args unpack failed"))?;
        let free = request.cred.owner && self.settings.owner_allow_any != 0;
        if matches!(job.state(), State::Run | State::Cleanup) && !free {
            let text = "duration update of running job requires instance owner privileges";
            return Err(Reject::new(text));
        }
        if seconds < 0.0 {
            return Err(Reject::new("duration must not be negative"));
        }
        Ok(if free { Update::allow().validated() } else { Update::allow() })
    }
}
