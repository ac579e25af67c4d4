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
    /// Whether something couldn't be written.
    failed: bool,
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

    /// Adds output that begins at the offset `at`, and skips what was added before. If output before `at` is missing,
    /// adds nothing and returns the offset where it is missing.
    ///
    /// # Errors
    /// It can't be written; from then on the job's output is dropped.
    pub(super) fn add(
        &mut self,
        id: JobId,
        rank: u32,
        at: u64,
        text: &str,
    ) -> io::Result<Option<u64>> {
        let job = self.jobs.entry(id).or_default();
        // The log of each node begins with a header; the job's has one.
        let is_first = job.received.values().all(|received| *received == 0);
        let received = job.received.entry(rank).or_default();
        let Some(known) = received.checked_sub(at) else { return Ok(Some(*received)) };
        let new = usize::try_from(known).ok().and_then(|known| text.get(known..));
        let Some(new) = new.filter(|new| !new.is_empty()) else { return Ok(None) };
        let of_job = match *received == 0 && !is_first {
            true => new.split_once('\n').map_or("", |(_, rest)| rest),
            false => new,
        };
        *received += new.len() as u64;
        if job.failed {
            return Ok(None);
        }
        let files = &self.files;
        let mut write = || -> io::Result<()> {
            let file = match &mut job.file {
                Some(file) => file,
                None => job.file.insert(files.create(id)?),
            };
            file.write_all(of_job.as_bytes())
        };
        let written = write();
        job.failed = written.is_err();
        written.map(|()| None)
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
        // The node repeats it after its channel was cut, with what has come since.
        assert_eq!(outputs.add(ID, 2, 0, "header\ntwo\nmore\n").unwrap(), None);
        outputs.add(ID, 1, outputs.received(ID, 1), "three\n").unwrap();
        assert_eq!(outputs.add(ID, 2, 100, "gap\n").unwrap(), Some(16));
        let text = std::fs::read_to_string(state.path().join("output/0000.0000.0000.0007"));
        assert_eq!(text.unwrap(), "header\none\ntwo\nmore\nthree\n");
        outputs.forget(ID);
        assert_eq!(outputs.received(ID, 1), 0);
    }
}
