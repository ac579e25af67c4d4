//! Processor time, of this thread and of the threads of another process.
//!
//! The system counts the time of each thread. In a manager the stages of a job's life run on threads of their
//! own, so the times of the threads show what the stages cost, without a clock in the manager.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The name under which the main thread, which serves the socket, is listed.
const MAIN: &str = "server";

/// The processor time that this thread has used.
pub(super) fn of_this_thread() -> Duration {
    read_clock(ClockId::ThreadCPUTime)
}

/// The processor time that all threads of this process have used, including those that have ended.
pub(super) fn of_this_process() -> Duration {
    read_clock(ClockId::ProcessCPUTime)
}

fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// The processor time of a process.
#[derive(Debug, Default, Clone)]
pub(super) struct ProcessTime {
    /// Seconds of all its threads, including those that have ended.
    pub(super) all: f64,
    /// Seconds of the existing threads, by name. Threads with the same name are added up.
    pub(super) threads: BTreeMap<String, f64>,
}

impl ProcessTime {
    /// Reads the time of a process.
    ///
    /// # Errors
    /// There is no such process.
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        let mut threads = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let task = task?;
            let main = task.file_name().to_str() == Some(&pid.to_string());
            // A thread may end meanwhile.
            let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
            let name = if main { MAIN.to_owned() } else { kind(name.trim_end()) };
            // Nanoseconds; kernels without this file have hundredths of a second.
            let exact = fs::read_to_string(task.path().join("schedstat")).ok();
            let exact = exact.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
            let seconds = match exact {
                Some(nanoseconds) => nanoseconds / 1e9,
                None => match fs::read_to_string(task.path().join("stat")) {
                    Ok(stat) => ticks(&stat)?,
                    Err(_) => continue,
                },
            };
            *threads.entry(name).or_default() += seconds;
        }
        let all = ticks(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?;
        Ok(Self { all, threads })
    }

    /// The time that was used since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |name: &str| earlier.threads.get(name).copied().unwrap_or(0.0);
        let threads: BTreeMap<String, f64> =
            self.threads.iter().map(|(name, time)| (name.clone(), time - before(name))).collect();
        // The sum is more exact, but lacks threads that have ended.
        let all = (self.all - earlier.all).max(threads.values().sum());
        Self { all, threads }
    }
}

/// The name without the suffix that numbers threads of one kind. Threads of the store's library count as the
/// store's.
fn kind(name: &str) -> String {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '#' | '_'));
    if name.starts_with("fjall") { "store".to_owned() } else { name.to_owned() }
}

/// User and system time in the text of a `stat` file, in seconds.
fn ticks(stat: &str) -> io::Result<f64> {
    let unreadable = || io::Error::other(format!("a stat file in /proc can't be read: {stat}"));
    // The name, in parentheses, may contain spaces.
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(unreadable)?;
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>());
    let ticks: u64 = ticks.sum::<Result<u64, _>>().map_err(|_| unreadable())?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_listed_by_their_kinds() {
        let (ready, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("fjall:worker".to_owned());
        let (tell, runs) = std::sync::mpsc::channel();
        let thread = thread.spawn(move || {
            // The thread has its name by now.
            tell.send(()).unwrap();
            wait.recv()
        });
        let thread = thread.unwrap();
        runs.recv().unwrap();
        let time = ProcessTime::read(std::process::id()).unwrap();
        assert!(time.threads.contains_key(MAIN), "{time:?}");
        assert!(time.threads.contains_key("store"), "{time:?}");
        drop(ready);
        let _ = thread.join().unwrap();
        assert_eq!(
            ["worker-12", "engine", "fjall:worker#3"].map(kind),
            ["worker", "engine", "store"]
        );
    }

    #[test]
    fn work_takes_processor_time() {
        // In this order, so that the time of the process contains that of the thread.
        let (process, thread) = (of_this_process(), of_this_thread());
        let begin = ProcessTime::read(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while of_this_thread() - thread < Duration::from_millis(30) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(of_this_process() - process >= Duration::from_millis(30));
        let used = ProcessTime::read(std::process::id()).unwrap().since(&begin);
        assert!(used.all >= 0.02, "{used:?}");
        assert!(ProcessTime::read(u32::MAX).is_err());
    }
}
