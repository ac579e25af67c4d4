//! The name of the host on which jobs run.

use crate::exec::StartJob;

/// Sets the job's `HOSTNAME`, if it has one from the host where it was submitted, to the host on which it runs.
pub(super) fn name_host(job: &mut StartJob) {
    for (_, value) in job.env.iter_mut().filter(|(name, _)| name == "HOSTNAME") {
        *value = host_name();
    }
}

/// The name of this host.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
