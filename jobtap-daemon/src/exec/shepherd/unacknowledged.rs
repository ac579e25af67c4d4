//! The file of the ended jobs that no manager has acknowledged, while no shepherd runs.
//!
//! A shepherd that ends on SIGTERM, which may be the shutdown of the host, writes it, and the next one in
//! the same state directory reads it. The file stays until that shepherd exits. If that shepherd is killed,
//! the file may contain jobs that were acknowledged meanwhile. This does no harm: a manager acknowledges
//! each listed job that it does not start, and job ids aren't reused.

use std::io::{self, Read};
use std::path::Path;

use jobtap_core::job::JobId;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::files::{Access, Dir, write_whole};
use crate::stderr;
use jobtap_core::engine::ExecEvent;

/// Name of the file in the state directory.
const FILE: &str = "shepherd.ends";

/// The record of one job.
#[derive(Serialize, Deserialize)]
struct End {
    id: JobId,
    history: Vec<ExecEvent>,
}

/// Replaces the file with one that has the ends of `jobs`, or removes the file if `jobs` is empty.
pub(super) fn write<'a>(state_dir: &Path, jobs: impl Iterator<Item = &'a Job>) -> io::Result<()> {
    let ends: Vec<End> =
        jobs.map(|job| End { id: job.id, history: job.journal.events().to_vec() }).collect();
    if ends.is_empty() {
        return match Dir::open(state_dir)?.remove_file(FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
    }
    write_whole(&state_dir.join(FILE), &serde_json::to_vec(&ends)?, Access::Private)
}

/// Reads the jobs in the file. If it can't be read the error is logged, and its jobs are lost.
pub(super) fn read(state_dir: &Path) -> Vec<Job> {
    let text = match read_text(state_dir) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            stderr::line(&format!("shepherd: {FILE}: {error}"));
            return Vec::new();
        }
    };
    match serde_json::from_slice::<Vec<End>>(&text) {
        Ok(ends) => ends.into_iter().map(|end| Job::ended_earlier(end.id, end.history)).collect(),
        Err(error) => {
            stderr::line(&format!("shepherd: {FILE} is damaged: {error}"));
            Vec::new()
        }
    }
}

fn read_text(state_dir: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Dir::open(state_dir)?.file(FILE, OFlags::RDONLY, 0)?.read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: JobId = JobId::new(7);

    #[test]
    fn ends_are_read_as_written_and_damage_loses_only_them() {
        let dir = tempfile::tempdir().unwrap();
        let history = vec![
            ExecEvent::Started { id: ID },
            ExecEvent::Finished { id: ID, status: 256 },
            ExecEvent::Released { id: ID },
        ];
        let job = Job::ended_earlier(ID, history.clone());
        assert!(read(dir.path()).is_empty());
        write(dir.path(), [&job].into_iter()).unwrap();
        let jobs = read(dir.path());
        assert!(jobs[0].has_ended() && jobs[0].journal.events() == history);
        fs::write(dir.path().join(FILE), "[{").unwrap();
        assert!(read(dir.path()).is_empty());
        write(dir.path(), std::iter::empty()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_or_removed_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(FILE)).unwrap();
        write(dir.path(), std::iter::empty()).unwrap_err();
        write(dir.path(), [&Job::ended_earlier(ID, Vec::new())].into_iter()).unwrap_err();
    }
}
