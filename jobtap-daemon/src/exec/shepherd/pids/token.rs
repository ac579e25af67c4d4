//! The environment variable that attributes a process to its job after it has left the job's process group.
//!
//! Its value is a list, because a manager may run as a job itself: the processes that its jobs leave
//! behind become children of the outer shepherd when the inner one dies, and belong to the outer job.

use jobtap_core::job::JobId;

/// The variable's name.
const NAME: &str = "JOBTAP_JOB_TOKEN";

/// The variable with its value for the tasks of a job. `nonce` distinguishes this shepherd from all others.
pub(in crate::exec::shepherd) fn of_job(nonce: &str, id: JobId) -> (String, String) {
    (NAME.to_owned(), joined(&inherited(nonce), nonce, id))
}

/// The variable for the forker, which belongs to no job of this shepherd.
pub(in crate::exec::shepherd) fn of_forker(nonce: &str) -> (&'static str, String) {
    (NAME, inherited(nonce))
}

/// The tokens that this shepherd inherited from the jobs that it runs in.
fn inherited(nonce: &str) -> String {
    without_own(&std::env::var(NAME).unwrap_or_default(), nonce)
}

/// The tokens of other shepherds. A manager that one of its own jobs has restarted starts a shepherd that has inherited
/// that job's token.
fn without_own(tokens: &str, nonce: &str) -> String {
    let is_other = |token: &&str| !token.is_empty() && job_of_token(token, nonce).is_none();
    tokens.split(':').filter(is_other).collect::<Vec<_>>().join(":")
}

/// The list of the inherited tokens and the new job's own.
fn joined(inherited: &str, nonce: &str, id: JobId) -> String {
    let own = format!("{nonce}.{}", id.as_u64());
    if inherited.is_empty() { own } else { format!("{inherited}:{own}") }
}

/// The job of the shepherd with this nonce that a process with this environment belongs to.
pub(in crate::exec::shepherd) fn job_in(environment: &[u8], nonce: &str) -> Option<JobId> {
    tokens_in(environment)?.find_map(|token| job_of_token(token, nonce))
}

/// The same, for a process that belongs to a job of a manager inside of that job too.
pub(in crate::exec::shepherd) fn enclosing_job_in(
    environment: &[u8],
    nonce: &str,
) -> Option<JobId> {
    let mut tokens = tokens_in(environment)?;
    let job = tokens.find_map(|token| job_of_token(token, nonce))?;
    tokens.next().map(|_| job)
}

/// The tokens of a process, from the outermost job.
fn tokens_in(environment: &[u8]) -> Option<std::str::Split<'_, char>> {
    let value = environment.split(|byte| *byte == 0).find_map(|variable| {
        variable.strip_prefix(NAME.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })?;
    Some(std::str::from_utf8(value).ok()?.split(':'))
}

/// The job of a token of the shepherd with this nonce.
fn job_of_token(token: &str, nonce: &str) -> Option<JobId> {
    token.strip_prefix(nonce)?.strip_prefix('.')?.parse().ok().map(JobId::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_job_in_a_job_belongs_to_both() {
        let outer = joined("", "7-ab", JobId::new(3));
        let inner = joined(&outer, "9-cd", JobId::new(5));
        let environment = format!("PATH=/bin\0{NAME}={inner}\0HOME=/\0").into_bytes();
        assert_eq!(job_in(&environment, "7-ab"), Some(JobId::new(3)));
        assert_eq!(job_in(&environment, "9-cd"), Some(JobId::new(5)));
        assert_eq!(job_in(&environment, "9-c"), None);
        assert_eq!(job_in(b"PATH=/bin\0", "7-ab"), None);
        // The process is a step of the outer job. The outer job's script is not a step.
        assert_eq!(enclosing_job_in(&environment, "7-ab"), Some(JobId::new(3)));
        assert_eq!(enclosing_job_in(&environment, "9-cd"), None);
        assert_eq!(enclosing_job_in(format!("{NAME}={outer}\0").as_bytes(), "7-ab"), None);
    }

    #[test]
    fn a_shepherd_that_its_own_job_has_started_does_not_pass_on_that_jobs_token() {
        assert_eq!(without_own("9-cd.1:7-ab.3:8-ef.2", "7-ab"), "9-cd.1:8-ef.2");
        assert_eq!(without_own("7-ab.3", "7-ab"), "");
        assert_eq!(without_own("", "7-ab"), "");
    }
}
