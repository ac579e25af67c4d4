//! `logging`: a line in the manager's log for each submission and each change of a job.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "logging" }]
//! ```
//!
//! The line has the fields that Slurm's plugin of this name writes. A field that is not set is written as
//! `-`.

use std::fmt::Display;

use jobtap_core::prelude::*;
use jobtap_core::slurm::JobDescriptor;

/// The plugin `logging`.
#[derive(Debug, Default)]
pub struct Logging;

#[jobtap_plugin(name = "logging", load = "by-name")]
impl Logging {
    #[on("slurm.job_submit")]
    fn submit(desc: Descriptor<'_>, user: SubmitUid, cx: Cx<'_, SlurmJobSubmit>) {
        cx.log(Level::Info, format!("job_submit: {}", line(&desc, user)));
    }

    #[on("slurm.job_modify")]
    fn modify(desc: Descriptor<'_>, job: &Job, user: SubmitUid, cx: Cx<'_, SlurmJobModify>) {
        cx.log(Level::Info, format!("job_modify: job_id={} {}", job.id(), line(&desc, user)));
    }
}

fn line(desc: &JobDescriptor, user: SubmitUid) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "account={} begin_time={} dependency={} name={} partition={} qos={} submit_uid={} time_limit={} \
         user_id={}",
        text(&desc.account),
        number(desc.begin_time),
        text(&desc.dependency),
        text(&desc.name),
        text(&desc.partition),
        text(&desc.qos),
        user.0,
        number(desc.time_limit),
        desc.user_id,
    )
}

fn number(number: Option<impl Display>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}
