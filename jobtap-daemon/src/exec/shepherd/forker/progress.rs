//! A forker's progress through its requests, which its shepherd can still read after the forker has died.
//!
//! It is in a file without a name that both have open: writing there takes no time and wakes nobody.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Pid;

use super::task_report::Begun;

/// The place of the process id, which follows the number of the request.
const PLACE_OF_PID: usize = size_of::<u64>();

/// The size of the file.
const SIZE: usize = PLACE_OF_PID + size_of::<i32>();

/// The number of the last request for a process that a forker has begun, and the id of the process.
#[derive(Debug)]
pub(super) struct Progress(File);

/// Where a new process writes its id.
#[derive(Clone, Copy)]
pub(super) struct PidPlace<'a> {
    file: BorrowedFd<'a>,
}

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

    /// Notes that this request is begun, and that it has no process. To be called before its process is started, and
    /// before a process that didn't execute its program is reaped.
    pub(super) fn begin(&self, number: u64) -> io::Result<()> {
        let mut record = [0; SIZE];
        if let Some(place) = record.first_chunk_mut() {
            *place = number.to_ne_bytes();
        }
        self.0.write_all_at(&record, 0)
    }

    /// Where the process of the request that was begun last writes its id.
    pub(super) fn pid_place(&self) -> PidPlace<'_> {
        PidPlace { file: self.0.as_fd() }
    }

    /// How far the start of this request's process has come.
    pub(super) fn begun(&self, number: u64) -> Begun {
        let mut record = [0; SIZE];
        if self.0.read_exact_at(&mut record, 0).is_err() {
            return Begun::Perhaps;
        }
        let (last, pid) = record.split_at(PLACE_OF_PID);
        let last = last.try_into().map_or(u64::MAX, u64::from_ne_bytes);
        let pid = pid.try_into().map_or(0, i32::from_ne_bytes);
        match Pid::from_raw(pid) {
            _ if last < number => Begun::No,
            Some(pid) if last == number => Begun::Yes(pid),
            _ => Begun::Perhaps,
        }
    }
}

impl PidPlace<'_> {
    /// The number of the file.
    pub(super) fn file(self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The offset in the file, where the id is four bytes.
    pub(super) fn offset(self) -> i64 {
        PLACE_OF_PID as i64
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
        assert_eq!(ours.begun(1), Begun::No);
        theirs.begin(5).unwrap();
        assert_eq!((ours.begun(5), ours.begun(6)), (Begun::Perhaps, Begun::No));
        let place = theirs.pid_place();
        theirs.0.write_all_at(&7_i32.to_ne_bytes(), place.offset() as u64).unwrap();
        assert_eq!(ours.begun(5), Begun::Yes(Pid::from_raw(7).unwrap()));
        assert_eq!((ours.begun(4), ours.begun(6)), (Begun::Perhaps, Begun::No));
        theirs.begin(6).unwrap();
        assert_eq!(ours.begun(6), Begun::Perhaps);
    }
}
