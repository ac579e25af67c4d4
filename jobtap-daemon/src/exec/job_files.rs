//! Files of jobs in the manager's state directory: what their tasks printed, and the input for them. The manager
//! reads them, too.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use jobtap_core::job::{Encoding, JobId};
use rustix::fs::OFlags;

use crate::files::{Dir, KeptDir, Kind};
use crate::open_files::OpenFiles;

/// How many bytes are searched at once for the end of a line.
const BLOCK: u64 = 4096;

/// The files of one kind, one for each job.
pub(super) struct JobFiles {
    state: Dir,
    dir: KeptDir,
}

impl JobFiles {
    /// The files in the directory `STATE/KIND`.
    pub(super) fn open(state_dir: &Path, kind: &'static str) -> io::Result<Self> {
        Ok(Self { state: Dir::open(state_dir)?, dir: KeptDir::new(kind) })
    }

    /// Creates the file of a job, which only the manager's user may read. A file from an earlier launch of the job
    /// is removed and not reused, since it may have other hard links.
    pub(super) fn create(&self, id: JobId) -> io::Result<File> {
        let name = id.encode(Encoding::DotHex);
        let file = self.dir.with(&self.state, |dir| match dir.new_file(&name, 0o600) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && dir.kind(&name)? == Some(Kind::Regular) =>
            {
                dir.remove_file(&name)?;
                dir.new_file(&name, 0o600)
            }
            other => other,
        })?;
        Ok(OpenFiles::of_this_process().apart(file))
    }

    /// Opens the file of a job that another process has created, for appending. Its end is cut off if that process was
    /// killed in the middle of a line, which would make the next line unreadable.
    pub(super) fn reopen(&self, id: JobId) -> io::Result<File> {
        let name = id.encode(Encoding::DotHex);
        let flags = OFlags::RDWR | OFlags::APPEND;
        let file = self.dir.with(&self.state, |dir| dir.file(&name, flags, 0))?;
        file.set_len(end_of_lines(&file)?)?;
        Ok(OpenFiles::of_this_process().apart(file))
    }

    /// As [`create`](Self::create), with this content. On an error, no file is left.
    pub(super) fn create_with(&self, id: JobId, content: &[u8]) -> io::Result<File> {
        let mut file = self.create(id)?;
        if let Err(error) = file.write_all(content) {
            // Ignore a failed removal: the write error is more useful.
            let _ = self.dir.with(&self.state, |dir| dir.remove_file(id.encode(Encoding::DotHex)));
            return Err(error);
        }
        Ok(file)
    }
}

/// The length of the file without an unfinished last line.
fn end_of_lines(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = Vec::new();
        let mut reader = file;
        reader.seek(SeekFrom::Start(start))?;
        reader.take(end - start).read_to_end(&mut block)?;
        if let Some(last) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn name(id: u64) -> String {
        JobId::new(id).encode(Encoding::DotHex)
    }

    #[test]
    fn output_is_private() {
        let state = tempfile::tempdir().unwrap();
        JobFiles::open(state.path(), "output").unwrap().create(JobId::new(1)).unwrap();
        let dir = state.path().join("output");
        for path in [&dir.join(name(1)), &dir] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
        }
    }

    #[test]
    fn an_unfinished_line_is_cut_off_before_the_next() {
        let state = tempfile::tempdir().unwrap();
        let output = JobFiles::open(state.path(), "output").unwrap();
        let long = format!("{}\n", "x".repeat(5000));
        for (left, kept) in [
            ("", ""),
            ("one\n", "one\n"),
            ("one\ntw", "one\n"),
            ("unfinished", ""),
            (&format!("{long}{}", "y".repeat(9000)), &long),
        ] {
            output.create_with(JobId::new(1), left.as_bytes()).unwrap();
            output.reopen(JobId::new(1)).unwrap().write_all(b"next\n").unwrap();
            let text = fs::read_to_string(state.path().join("output").join(name(1))).unwrap();
            assert!(text == format!("{kept}next\n"), "{left}");
        }
    }

    #[test]
    fn output_is_never_written_to_an_existing_file() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let of_job = |id| path("state/output").join(name(id));
        fs::create_dir_all(path("state/output")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("victim"), "precious").unwrap();
        symlink(path("victim"), of_job(1)).unwrap();
        symlink(path("new"), of_job(2)).unwrap();
        let output = JobFiles::open(&path("state"), "output").unwrap();
        for id in [1, 2] {
            assert!(output.create(JobId::new(id)).is_err(), "{id}");
        }
        fs::hard_link(path("victim"), of_job(3)).unwrap();
        output.create(JobId::new(3)).unwrap().write_all(b"printed").unwrap();
        assert_eq!(fs::read_to_string(of_job(3)).unwrap(), "printed");
        symlink(path("elsewhere"), path("state/input")).unwrap();
        let input = JobFiles::open(&path("state"), "input").unwrap();
        assert!(input.create(JobId::new(4)).is_err());
        assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
        assert!(!path("new").exists());
        assert_eq!(fs::read_dir(path("elsewhere")).unwrap().count(), 0);
    }
}
