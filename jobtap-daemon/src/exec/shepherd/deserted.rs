//! Whether a pipe can be used without waiting for the processes at its other end.
//!
//! While a process moves data between a pipe and another file with splice(2), and waits for the other file, Linux keeps
//! the pipe locked. Any other process that reads or writes the pipe, or closes the last copy of an end, waits until that
//! process is done, which can't be interrupted, even if the pipe is non-blocking. Only poll(2) never waits.
//!
//! Once all copies of the other end are closed, no task can lock the pipe. Most streams end without any data, and are
//! then read and closed at once.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether the other end of a pipe, or of a terminal, is closed.
pub(super) fn is_deserted(pipe: impl AsFd) -> bool {
    let closed = PollFlags::HUP | PollFlags::ERR;
    let mut polled = [PollFd::new(&pipe, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok()
        && polled.iter().any(|polled| polled.revents().intersects(closed))
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;

    #[test]
    fn an_end_is_deserted_when_the_other_is_closed() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"data").unwrap();
        assert!(!is_deserted(&reader) && !is_deserted(&writer));
        drop(writer);
        assert!(is_deserted(&reader), "even if there is data");
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        assert!(is_deserted(&writer));
    }
}
