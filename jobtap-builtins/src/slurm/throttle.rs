//! `throttle`: limits how many jobs a user submits in an hour.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "throttle" }]
//!
//! [plugins.throttle]
//! jobs_per_user_per_hour = 100   # 0 is no limit
//! ```
//!
//! As in Slurm, each user has a count of submitted jobs, which is reduced by a tenth of the limit every six
//! minutes: a user who has reached the limit waits six minutes for the next tenth of it. A submission that
//! this plugin accepts counts, even if it is refused later. The counts are lost at a restart.
//!
//! Slurm rounds the reduction down to whole jobs, so that with a limit under ten, a count never falls as long
//! as the user keeps trying. Here tenths of jobs are counted.

use std::collections::HashMap;

use jobtap_core::prelude::*;
use jobtap_core::slurm::{SlurmError, errno};

/// In seconds.
const PERIOD: f64 = 360.0;

/// One job, in tenths of a job.
const JOB: u64 = 10;

/// The plugin `throttle`.
#[derive(Debug)]
pub struct Throttle {
    limit: u64,
    /// The jobs of each user, in tenths.
    counts: HashMap<Uid, u64>,
    /// When the counts were last reduced.
    since: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// How many jobs a user can submit in an hour; 0 is no limit.
    jobs_per_user_per_hour: u32,
}

#[jobtap_plugin(name = "throttle", load = "by-name")]
impl Throttle {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        let limit = settings.into_inner().jobs_per_user_per_hour.into();
        Self { limit, counts: HashMap::new(), since: None }
    }

    #[on("slurm.job_submit")]
    fn submit(&mut self, user: SubmitUid, cx: Cx<'_, SlurmJobSubmit>) -> Result<(), SlurmError> {
        if self.limit == 0 {
            return Ok(());
        }
        self.decay(cx.now());
        let count = self.counts.entry(user.0).or_default();
        if *count + JOB > self.limit * JOB {
            cx.user_message("Reached jobs per hour limit");
            return Err(errno::ESLURM_ACCOUNTING_POLICY);
        }
        *count += JOB;
        Ok(())
    }

    /// Reduces the counts by what the time since the last reduction allows.
    fn decay(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        let periods = ((now - since) / PERIOD).floor();
        if periods < 1.0 {
            return;
        }
        self.since = Some(since + periods * PERIOD);
        // `as` saturates.
        let less = self.limit.saturating_mul(periods as u64);
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(less);
            *count > 0
        });
    }
}
