//! The pipe by which the process of a task reports its id and whether it executes its program.

use std::io::{self, PipeReader, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::super::message::ExecResult;

/// How far the start of a process had come when its forker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec::shepherd) enum Begun {
    /// There is no process, or it has ended without executing its program.
    No,
    /// There may be a process, which hasn't written its id yet.
    Perhaps,
    /// It is this process.
    Yes(Pid),
}

/// The shepherd's end of the pipe. The process writes its id in four bytes; if it can't execute its program, it then
/// writes the number of the error. Its end closes when it executes the program.
pub(in crate::exec::shepherd) struct TaskReport {
    pipe: PipeReader,
    /// The number of bytes of the id that are still to be read.
    id: usize,
}

impl TaskReport {
    pub(super) fn new(pipe: PipeReader) -> Self {
        Self { pipe, id: size_of::<i32>() }
    }

    /// How far the start had come. To be called when the forker has died.
    pub(super) fn begun(&mut self) -> Begun {
        let mut pid = [0; size_of::<i32>()];
        // While the pipe is open there is a process.
        let mut waiting = [PollFd::new(&self.pipe, PollFlags::IN)];
        if !poll(&mut waiting, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            return Begun::Perhaps;
        }
        if self.pipe.read_exact(&mut pid).is_err() {
            return Begun::No;
        }
        self.id = 0;
        Pid::from_raw(i32::from_ne_bytes(pid)).map_or(Begun::Perhaps, Begun::Yes)
    }

    /// Returns a future that waits until it is known whether the process executes its program.
    pub(in crate::exec::shepherd) fn outcome(
        self,
        patience: Duration,
    ) -> io::Result<impl Future<Output = ExecResult> + use<>> {
        let mut pipe = Receiver::from_owned_fd(self.pipe.into())?;
        Ok(async move {
            let mut numbers = [0; 2 * size_of::<i32>()];
            let (_, expected) = numbers.split_at_mut(size_of::<i32>() - self.id);
            match timeout(patience, pipe.read_exact(expected)).await {
                Ok(Ok(_)) => {
                    let [_, _, _, _, number @ ..] = numbers;
                    ExecResult::Refused(Errno::from_raw_os_error(i32::from_ne_bytes(number)))
                }
                // The end of the pipe.
                Ok(Err(_)) => ExecResult::Done,
                Err(_) => ExecResult::Late,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_a_dead_forker_has_begun_is_known() {
        let begun = |written: &[i32]| {
            let (read, mut write) = io::pipe().unwrap();
            written.iter().for_each(|number| write.write_all(&number.to_ne_bytes()).unwrap());
            drop(write);
            TaskReport::new(read).begun()
        };
        assert_eq!(begun(&[]), Begun::No);
        assert_eq!(begun(&[7]), Begun::Yes(Pid::from_raw(7).unwrap()));
    }

    #[test]
    fn what_becomes_of_a_process_is_known_whether_or_not_its_id_was_read_before() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (written, expected) in [
            (vec![7], ExecResult::Done),
            (vec![7, Errno::NOENT.raw_os_error()], ExecResult::Refused(Errno::NOENT)),
        ] {
            for read_before in [false, true] {
                let (read, mut write) = io::pipe().unwrap();
                written.iter().for_each(|n: &i32| write.write_all(&n.to_ne_bytes()).unwrap());
                drop(write);
                let mut report = TaskReport::new(read);
                if read_before {
                    report.begun();
                }
                let outcome = runtime
                    .block_on(async { report.outcome(Duration::from_secs(30)).unwrap().await });
                assert_eq!(outcome, expected);
            }
        }
    }
}
