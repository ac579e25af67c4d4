//! The input that clients send to jobs on nodes, kept where the manager reads it (`guest.input`). The nodes keep it, too:
//! from there, each task reads at its own pace.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jobtap_core::job::JobId;

use crate::exec::StartJob;
use crate::exec::job_files::JobFiles;
use crate::exec::shepherd::{input_entry, input_header};

/// The input of jobs that haven't ended.
pub(super) struct Inputs {
    files: JobFiles,
    jobs: BTreeMap<JobId, Input>,
}

struct Input {
    ntasks: u32,
    /// Whether the last manager may have begun the file.
    is_continued: bool,
    /// The file, once there is input.
    file: Option<File>,
}

impl Inputs {
    pub(super) fn open(state_dir: &Path) -> io::Result<Self> {
        Ok(Self { files: JobFiles::open(state_dir, "input")?, jobs: BTreeMap::new() })
    }

    /// Notes a job that is started or found again.
    pub(super) fn begin(&mut self, job: &StartJob) {
        let (ntasks, is_continued) = (job.ntasks, job.reattach);
        self.jobs.insert(job.id, Input { ntasks, is_continued, file: None });
    }

    /// Adds input for one task, or for all if `rank` is `None`.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn add(
        &mut self,
        id: JobId,
        rank: Option<u32>,
        data: &[u8],
        eof: bool,
    ) -> io::Result<()> {
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
        let file = match &mut job.file {
            Some(file) => file,
            None => {
                let known = if job.is_continued { self.files.reopen(id).ok() } else { None };
                let file = match known {
                    Some(file) => file,
                    None => self.files.create_with(id, &input_header(job.ntasks)?)?,
                };
                job.file.insert(file)
            }
        };
        let entry = input_entry(rank, data, eof)?;
        let length = file.metadata()?.len();
        file.write_all(&entry).inspect_err(|_| {
            // A partial line would make the next entry unreadable. The error of the write is the more useful one.
            let _ = file.set_len(length);
        })
    }

    /// Forgets a job that has ended. Its file stays.
    pub(super) fn forget(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_kept_in_one_file_through_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let id = JobId::new(7);
        let job = StartJob { ntasks: 2, ..StartJob::new(id) };
        let mut inputs = Inputs::open(state.path()).unwrap();
        inputs.begin(&job);
        inputs.add(id, None, b"a", false).unwrap();
        let mut inputs = Inputs::open(state.path()).unwrap();
        inputs.begin(&StartJob { reattach: true, ..job });
        inputs.add(id, Some(1), b"b", true).unwrap();
        inputs.forget(id);
        inputs.add(id, None, b"late", false).unwrap();
        let text = std::fs::read_to_string(state.path().join("input/0000.0000.0000.0007")).unwrap();
        let context = |line: &str| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {} {}", entry["name"], entry["context"]["rank"], entry["context"]["data"])
        };
        let entries: Vec<String> = text.lines().map(context).collect();
        let expected = [r#""header" null null"#, r#""data" "all" "YQ==""#, r#""data" "1" "Yg==""#];
        assert_eq!(entries, expected);
    }
}
