//! The environment variable by which a process that left its job's process group is attributed to the job.
//!
//! Its value is a list, because a manager may run as a job itself: the processes that its jobs leave
//! behind become children of the outer shepherd when the inner one dies, and belong to the outer job.

use jobtap_core::job::JobId;

/// The variable's name.
const NAME: &str = "JOBTAP_JOB_TOKEN";

/// The variable with its value for the tasks of a job. `nonce` distinguishes this shepherd from all others.
pub(in crate::exec::shepherd) fn of_job(nonce: &str, id: JobId) -> (String, String) {
    (NAME.to_owned(), joined(std::env::var(NAME).ok().as_deref(), nonce, id))
}

/// The list of the token that this shepherd inherited from the job that it runs in, and the new job's own.
fn joined(inherited: Option<&str>, nonce: &str, id: JobId) -> String {
    let own = format!("{nonce}.{}", id.as_u64());
    match inherited.filter(|outer| !outer.is_empty()) {
        None => own,
        Some(outer) => format!("{outer}:{own}"),
    }
}

/// Which job of the shepherd with this nonce a process with this environment belongs to.
pub(super) fn job_in(environment: &[u8], nonce: &str) -> Option<JobId> {
    let value = environment.split(|byte| *byte == 0).find_map(|variable| {
        variable.strip_prefix(NAME.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })?;
    let mut tokens = std::str::from_utf8(value).ok()?.split(':');
    tokens.find_map(|token| {
        token.strip_prefix(nonce)?.strip_prefix('.')?.parse().ok().map(JobId::new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_job_in_a_job_belongs_to_both() {
        let outer = joined(None, "7-ab", JobId::new(3));
        let inner = joined(Some(&outer), "9-cd", JobId::new(5));
        let environment = format!("PATH=/bin\0{NAME}={inner}\0HOME=/\0").into_bytes();
        assert_eq!(job_in(&environment, "7-ab"), Some(JobId::new(3)));
        assert_eq!(job_in(&environment, "9-cd"), Some(JobId::new(5)));
        assert_eq!(job_in(&environment, "9-c"), None);
        assert_eq!(job_in(b"PATH=/bin\0", "7-ab"), None);
    }
}
