//! `slurm-probe`: sees requests in Slurm's terms. It greets jobs named `greet`, asks a process about jobs named
//! `ask`, refuses those named `refuse`, and adds a variable to the environment of all.

use jobtap_core::prelude::*;
use jobtap_core::slurm::{SlurmError, errno};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct SlurmProbe;

#[jobtap_plugin(name = "slurm-probe", load = "by-name")]
impl SlurmProbe {
    #[on("slurm.job_submit")]
    fn submit(
        mut desc: Descriptor<'_>,
        user: SubmitUid,
        cx: Cx<'_, SlurmJobSubmit>,
    ) -> Result<(), SlurmError> {
        match desc.name.as_deref() {
            Some("greet") => cx.user_message("hello\nand welcome"),
            Some("refuse") => {
                cx.user_message("ask for access");
                return Err(errno::ESLURM_ACCESS_DENIED);
            }
            _ => {}
        }
        desc.environment.set("SUBMITTED_BY", user.0.to_string());
        Ok(())
    }

    #[on("slurm.job_modify")]
    async fn modify(messages: UserMessages, remote: Remote<Self>) -> Result<(), SlurmError> {
        let end = remote.run_process(Process::new("true")).await;
        messages.send(format!("asked: {}", end.is_ok_and(|end| end.success().is_ok())));
        Ok(())
    }
}
