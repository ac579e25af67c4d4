//! The directory that a job has for itself while it runs (`FLUX_JOB_TMPDIR`), with the files that came
//! with it (RFC 37).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use jobtap_core::job::{Encoding, JobId};
use serde_json::Value;

use super::taskio::plain;
use crate::exec::StartJob;
use crate::exec::protocol::decode_data;

/// The tag by which commands and names of files refer to the directory.
const TAG: &str = "{{tmpdir}}";

/// The bits of a file's mode that count: who may read, write and execute it.
const PERMISSIONS: u64 = 0o777;

/// The directory of all of them, below the manager's state.
const ALL: &str = "tmp";

/// The directory; what nobody removes is removed when the next shepherd starts.
#[derive(Debug)]
pub(super) struct JobDir(PathBuf);

impl JobDir {
    /// Makes the directory and puts the job's files there. The error is for the user; a job that has
    /// no visible use for a directory does without.
    pub(super) fn make(state_dir: &Path, job: &StartJob) -> Result<Option<Self>, String> {
        let name = JobId::new(job.id).encode(Encoding::DotHex);
        let dir = Self(state_dir.join(ALL).join(name));
        match private_dir(dir.path()) {
            Ok(()) => {}
            Err(_) if !is_used(job) => return Ok(None),
            Err(error) => {
                return Err(format!("cannot make {}: {}", dir.path().display(), plain(&error)));
            }
        }
        for (name, file) in job.files.as_object().into_iter().flatten() {
            dir.put(name, file).map_err(|text| format!("file {name}: {text}"))?;
        }
        Ok(Some(dir))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn put(&self, name: &str, file: &Value) -> Result<(), String> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !inside {
            return Err("the name must stay within the job's directory".to_owned());
        }
        let path = self.path().join(name);
        let content = content(file)?;
        let mode = file.get("mode").and_then(Value::as_u64).unwrap_or(0o600) & PERMISSIONS;
        let write = || {
            path.parent().map_or(Ok(()), private_dir)?;
            let mode = u32::try_from(mode).unwrap_or(0o600);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
            file.write_all(&content)
        };
        write().map_err(|error| plain(&error))
    }
}

impl JobDir {
    /// Removes it with all that the job left there, off this thread, which other jobs wait for. What
    /// can't be removed stays: the job is over, and nobody is there to be told.
    pub(super) fn remove(self) -> Option<JoinHandle<()>> {
        match fs::remove_dir(self.path()) {
            Ok(()) => None,
            Err(_) => in_the_background(vec![self.0]),
        }
    }

    /// Removes what shepherds that were killed have left. Before the first job.
    pub(super) fn sweep(state_dir: &Path) -> Option<JoinHandle<()>> {
        let aside = state_dir.join(format!("{ALL}.{}", std::process::id()));
        // The directories of the jobs to come are made anew.
        let _ = fs::rename(state_dir.join(ALL), aside);
        let entries = fs::read_dir(state_dir).ok()?.filter_map(Result::ok);
        let left = |name: &str| name.strip_prefix(ALL).is_some_and(|rest| rest.starts_with('.'));
        let left = entries.filter(|entry| entry.file_name().to_str().is_some_and(left));
        let left: Vec<PathBuf> = left.map(|entry| entry.path()).collect();
        if left.is_empty() { None } else { in_the_background(left) }
    }
}

fn in_the_background(directories: Vec<PathBuf>) -> Option<JoinHandle<()>> {
    let remove = move || {
        for directory in directories {
            let _ = fs::remove_dir_all(directory);
        }
    };
    Builder::new().name("remove-tmpdir".to_owned()).spawn(remove).ok()
}

/// Makes a directory that is nobody else's, with those above it.
fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether the job has files, or names its directory.
fn is_used(job: &StartJob) -> bool {
    job.files.as_object().is_some_and(|files| !files.is_empty())
        || job.command.iter().any(|word| word.contains(TAG))
        || job.shell_options.to_string().contains(TAG)
}

/// The content of a file object: text, base64, or any JSON where nothing says how it is written.
fn content(file: &Value) -> Result<Vec<u8>, String> {
    let data = file.get("data").unwrap_or(&Value::Null);
    match (file.get("encoding").and_then(Value::as_str), data) {
        (Some("base64"), Value::String(text)) => decode_data(text).map_err(|e| e.to_string()),
        (Some("utf-8"), Value::String(text)) => Ok(text.clone().into_bytes()),
        (None, data) => Ok(data.to_string().into_bytes()),
        (Some(other), _) => Err(format!("unknown encoding '{other}'")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn job(files: Value) -> StartJob {
        StartJob { id: 5, files, ..StartJob::default() }
    }

    #[test]
    fn files_are_there_as_long_as_the_job() {
        let state = tempfile::tempdir().unwrap();
        let files = json!({
            "text": {"mode": 0o104755, "encoding": "utf-8", "data": "a b"},
            "sub/bytes": {"mode": 0o100600, "encoding": "base64", "data": "/w=="},
            "conf.json": {"mode": 0o100644, "data": {"x": 1}},
        });
        let dir = JobDir::make(state.path(), &job(files)).unwrap().unwrap();
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!(read("text"), b"a b");
        assert_eq!(read("sub/bytes"), [0xff]);
        assert_eq!(read("conf.json"), b"{\"x\":1}");
        let mode = fs::metadata(dir.path().join("text")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7700, 0o700);
        let path = dir.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        dir.remove().unwrap().join().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_shepherd_left_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let old = JobDir::make(state.path(), &job(json!({"a": {"data": 1}}))).unwrap().unwrap();
        let sweep = JobDir::sweep(state.path()).unwrap();
        let new = JobDir::make(state.path(), &job(json!({"b": {"data": 1}}))).unwrap().unwrap();
        sweep.join().unwrap();
        assert!(!old.path().join("a").exists() && new.path().join("b").exists());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn who_names_a_directory_that_cannot_be_made_fails() {
        let state = tempfile::tempdir().unwrap();
        fs::write(state.path().join("tmp"), "in the way").unwrap();
        assert!(JobDir::make(state.path(), &job(Value::Null)).unwrap().is_none());
        let named = StartJob { command: vec!["{{tmpdir}}/x".to_owned()], ..job(Value::Null) };
        assert!(JobDir::make(state.path(), &named).unwrap_err().starts_with("cannot make "));
    }

    #[test]
    fn no_file_leaves_the_directory() {
        let state = tempfile::tempdir().unwrap();
        for name in ["../x", "/x", "a/../../x", ""] {
            let files = json!({ name: {"mode": 0o600, "data": 1} });
            let refused = JobDir::make(state.path(), &job(files)).unwrap_err();
            assert!(
                refused.ends_with("the name must stay within the job's directory"),
                "{refused}"
            );
        }
    }
}
