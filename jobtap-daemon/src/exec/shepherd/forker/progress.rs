//! A forker's progress through its requests, which its shepherd can still read after the forker has died.
//!
//! It is in a file without a name that both have open: writing there takes no time and wakes nobody.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// The number of the last request for a process that a forker has begun.
#[derive(Debug)]
pub(super) struct Progress(File);

impl Progress {
    /// The progress of a forker that has begun no request; requests are numbered from 1.
    pub(super) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC;
        // A hardened system wants to know that nobody executes the file; an old one doesn't know of this.
        let file = memfd_create("forker", flags | MemfdFlags::NOEXEC_SEAL);
        let progress = Self(file.or_else(|_| memfd_create("forker", flags))?.into());
        progress.begin(0)?;
        Ok(progress)
    }

    /// Notes that this request is begun. To be called before its process is started.
    pub(super) fn begin(&self, number: u64) -> io::Result<()> {
        self.0.write_all_at(&number.to_ne_bytes(), 0)
    }

    /// Whether a request that was not reported was never begun.
    pub(super) fn is_unbegun(&self, number: u64) -> bool {
        let mut last = [0; size_of::<u64>()];
        let read = self.0.read_exact_at(&mut last, 0);
        read.is_ok() && u64::from_ne_bytes(last) < number
    }
}

impl From<OwnedFd> for Progress {
    fn from(file: OwnedFd) -> Self {
        Self(file.into())
    }
}

impl AsFd for Progress {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shepherd_sees_which_request_its_forker_has_begun() {
        let ours = Progress::new().unwrap();
        let theirs = Progress::from(ours.as_fd().try_clone_to_owned().unwrap());
        assert!(ours.is_unbegun(1));
        theirs.begin(5).unwrap();
        assert!(!ours.is_unbegun(5) && ours.is_unbegun(6));
    }
}
