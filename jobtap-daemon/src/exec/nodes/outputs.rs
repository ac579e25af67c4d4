//! The output of jobs on nodes, collected where the manager reads it.
//!
//! A shepherd writes the output of its tasks to files of its own host. The manager's file of a job has the entries of all
//! of its nodes, in the order in which they arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jobtap_core::job::JobId;

use crate::exec::job_files::JobFiles;

/// The output of jobs that haven't ended.
pub(super) struct Outputs {
    files: JobFiles,
    jobs: BTreeMap<JobId, Output>,
}

#[derive(Default)]
struct Output {
    /// The file, once there is output.
    file: Option<File>,
    /// How much came from each node.
    received: BTreeMap<u32, u64>,
}

impl Outputs {
    pub(super) fn open(state_dir: &Path) -> io::Result<Self> {
        Ok(Self { files: JobFiles::open(state_dir, "output")?, jobs: BTreeMap::new() })
    }

    /// How much of a job's output came from a node.
    pub(super) fn received(&self, id: JobId, rank: u32) -> u64 {
        let received = self.jobs.get(&id).and_then(|job| job.received.get(&rank));
        received.copied().unwrap_or(0)
    }

    /// Adds output from this offset on. What came before is ignored.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn add(&mut self, id: JobId, rank: u32, at: u64, text: &str) -> io::Result<()> {
        let job = self.jobs.entry(id).or_default();
        let received = job.received.entry(rank).or_default();
        if at != *received {
            return Ok(());
        }
        let file = match &mut job.file {
            Some(file) => file,
            None => job.file.insert(self.files.create(id)?),
        };
        // The log of each node begins with a header; the job's has one.
        let is_first = || job.received.values().all(|received| *received == 0);
        let text_of_job = match at == 0 && !is_first() {
            true => text.split_once('\n').map_or("", |(_, rest)| rest),
            false => text,
        };
        file.write_all(text_of_job.as_bytes())?;
        *job.received.entry(rank).or_default() += text.len() as u64;
        Ok(())
    }

    /// Forgets a job that has ended. Its file stays.
    pub(super) fn forget(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: JobId = JobId::new(7);

    #[test]
    fn the_output_of_nodes_comes_together_with_one_header() {
        let state = tempfile::tempdir().unwrap();
        let mut outputs = Outputs::open(state.path()).unwrap();
        outputs.add(ID, 1, 0, "header\none\n").unwrap();
        outputs.add(ID, 2, 0, "header\ntwo\n").unwrap();
        // The node repeats it after its channel was cut.
        outputs.add(ID, 2, 0, "header\ntwo\n").unwrap();
        outputs.add(ID, 1, outputs.received(ID, 1), "three\n").unwrap();
        let text = std::fs::read_to_string(state.path().join("output/0000.0000.0000.0007"));
        assert_eq!(text.unwrap(), "header\none\ntwo\nthree\n");
        outputs.forget(ID);
        assert_eq!(outputs.received(ID, 1), 0);
    }
}
