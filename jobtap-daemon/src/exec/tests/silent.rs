//! A shepherd that exists but does not respond.

use super::*;

/// Long enough for a shepherd that works.
const SHORT: Duration = Duration::from_millis(300);

/// A process that is stopped until this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Self {
        kill_process(pid, UnixSignal::STOP).unwrap();
        let stopped = Self(pid);
        // The signal is only on its way, and a busy host may be slow to deliver it.
        let stat = format!("/proc/{}/stat", pid.as_raw_pid());
        wait_for("the process is stopped", || {
            fs::read_to_string(&stat).unwrap().rsplit_once(')').unwrap().1.starts_with(" T")
        });
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, UnixSignal::CONT);
    }
}

#[test]
fn a_manager_does_not_wait_for_a_stopped_shepherd() {
    let mut site = Site::new();
    let manager = site.manager();
    let (shepherd, _) = site.sleeper(&manager, 1);
    drop(manager);
    let stopped = Stopped::new(shepherd);
    site.patience = SHORT;
    let error = site.connect().err().unwrap().to_string();
    assert!(error.starts_with("the shepherd in /"), "{error}");
    let number = shepherd.as_raw_pid();
    let words = format!(
        " does not answer: its process {number} is stopped; let it go on with \"kill -CONT {number}\""
    );
    assert!(error.ends_with(&words), "{error}");
    drop(stopped);
    site.patience = PATIENCE;
    let manager = site.manager();
    assert_eq!(manager.executor.held(), [HeldJob::new(JobId::new(1), false)]);
    manager.executor.start(StartJob { reattach: true, ..site.job(1, 1, "") });
    manager.cancel(1, Signal::TERM);
    manager.to_end(1);
    manager.ack(1);
    manager.end();
}

#[test]
fn a_manager_that_runs_warns_of_a_stopped_shepherd_and_can_end() {
    let mut site = Site::new();
    drop(site.manager());
    site.patience = SHORT;
    let mut connected = None;
    wait_for("the shepherd answers in time", || {
        connected = site.connect().ok();
        connected.is_some()
    });
    let manager = connected.unwrap();
    let (shepherd, task) = site.sleeper(&manager, 1);
    let _task = Killed(task);
    let stopped = Stopped::new(shepherd);
    // More than a socket holds.
    manager.stdin(1, None, vec![b'x'; 4 << 20], true);
    let trouble = manager.warnings.recv_timeout(PATIENCE).unwrap();
    let number = shepherd.as_raw_pid();
    let words = format!("the shepherd takes no requests: its process {number} is stopped; ");
    assert!(trouble.starts_with(&words), "{trouble}");
    drop(stopped);
    assert_eq!(
        manager.warnings.recv_timeout(PATIENCE).unwrap(),
        "the shepherd takes requests again"
    );
    let _stopped = Stopped::new(shepherd);
    manager.stdin(1, None, vec![b'x'; 4 << 20], true);
    let begin = Instant::now();
    drop(manager);
    assert!(begin.elapsed() < PATIENCE, "it waits no longer than its limit");
    kill_process(shepherd, UnixSignal::KILL).unwrap();
}
