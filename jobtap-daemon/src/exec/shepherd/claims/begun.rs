//! Which of the jobs that were claimed ahead have begun in the present boot of the host: a file that is never synced.
//!
//! The first line is the boot, each other one the id of a job. What a process has written to a file is there for all
//! later ones, whether it was killed or not, as long as the host is up. When the host goes down the boot is another one,
//! and what the file says, or has lost, no longer matters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use jobtap_core::job::JobId;
use rustix::fs::{Mode, OFlags, ftruncate, openat};
use rustix::io::Errno;

use crate::open_files::OpenFiles;

/// Name of the file in the state directory.
const NAME: &str = "shepherd.begun";

/// The number of digits of an id. A line that is shorter was not written as a whole, and its job did not begin.
const DIGITS: usize = 16;

/// The file.
#[derive(Debug)]
pub(super) struct Begun {
    /// The present boot; `None` if it can't be told. Then no job can be claimed ahead.
    boot: Option<String>,
    /// The jobs in it when it was opened.
    jobs: BTreeSet<JobId>,
    /// The file, open for appending, once it was written anew.
    file: Option<File>,
}

impl Begun {
    /// Reads the file in a directory.
    pub(super) fn open(dir: impl AsFd) -> io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot = boot.map(|text| text.trim().to_owned()).filter(|boot| !boot.is_empty());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut text = Vec::new();
        match openat(&dir, NAME, flags, Mode::empty()) {
            Ok(file) => drop(File::from(file).read_to_end(&mut text)?),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let jobs = boot.as_deref().map(|boot| read(&text, boot)).unwrap_or_default();
        Ok(Self { boot, jobs, file: None })
    }

    /// The present boot of the host, if it can be told.
    pub(super) fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    /// Those of the jobs, by the boot in which they were claimed ahead, that may have begun.
    pub(super) fn may_have_begun(
        &self,
        ahead: BTreeMap<JobId, String>,
    ) -> impl Iterator<Item = JobId> {
        let counts = |(id, boot): &(JobId, String)| {
            self.boot.as_ref() != Some(boot) || self.jobs.contains(id)
        };
        ahead.into_iter().filter(counts).map(|(id, _)| id)
    }

    /// Adds jobs that begin now.
    pub(super) fn add(&mut self, ids: &[JobId]) -> io::Result<()> {
        let mut text = String::new();
        for id in ids {
            // Writing to a string doesn't fail.
            let _ = writeln!(text, "{:0DIGITS$x}", id.as_u64());
        }
        let mut file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
        // The file is put back only after success: a line that was written in part would spoil the next one.
        file.write_all(text.as_bytes())?;
        self.file = Some(file);
        Ok(())
    }

    /// Empties the file: the claims have all of its jobs.
    pub(super) fn clear(&mut self, dir: &OwnedFd) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let flags = OFlags::WRONLY
                    | OFlags::APPEND
                    | OFlags::CREATE
                    | OFlags::NOFOLLOW
                    | OFlags::NONBLOCK
                    | OFlags::CLOEXEC;
                let file = openat(dir, NAME, flags, Mode::RUSR | Mode::WUSR)?;
                self.file.insert(File::from(OpenFiles::of_this_process().apart(file)))
            }
        };
        ftruncate(&*file, 0)?;
        writeln!(file, "{}", self.boot.as_deref().unwrap_or_default())
    }
}

/// The jobs in a file of this boot.
fn read(text: &[u8], boot: &str) -> BTreeSet<JobId> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    if lines.next() != Some(boot) {
        return BTreeSet::new();
    }
    let whole = lines.filter(|line| line.len() == DIGITS);
    whole.filter_map(|line| u64::from_str_radix(line, 16).ok().map(JobId::new)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_whole_lines_of_this_boot_count() {
        let text = b"boot\n0000000000000001\nffffffffffffffff\n000000000000002";
        let jobs = [1, u64::MAX].map(JobId::new);
        assert!(read(text, "boot").into_iter().eq(jobs));
        assert!(read(text, "other").is_empty());
        assert!(read(b"", "boot").is_empty());
    }

    #[test]
    fn what_was_written_is_there_until_it_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let at = OwnedFd::from(File::open(dir.path()).unwrap());
        let mut begun = Begun::open(&at).unwrap();
        let ids = [3, 0xabc].map(JobId::new);
        begun.add(&ids).unwrap_err();
        begun.clear(&at).unwrap();
        begun.add(&ids).unwrap();
        let later = Begun::open(&at).unwrap();
        let all = [1, 3, 5, 0xabc].map(JobId::new).to_vec();
        let ahead = |boot: &str| all.iter().map(|id| (*id, boot.to_owned())).collect();
        assert!(later.may_have_begun(ahead(later.boot().unwrap())).eq(ids));
        assert!(
            later.may_have_begun(ahead("another boot")).eq(all.iter().copied()),
            "the host went down"
        );
        begun.clear(&at).unwrap();
        let later = Begun::open(&at).unwrap();
        assert_eq!(later.may_have_begun(ahead(later.boot().unwrap())).count(), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: Vec<u8>) {
            let _ = read(&text, "");
        }
    }
}
