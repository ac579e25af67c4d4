//! Jobs whose manager or shepherd dies.

use std::io::Read;

use rustix::process::Pid;

use super::*;

fn again(job: StartJob, seen: Seen) -> StartJob {
    StartJob { reattach: true, seen, ..job }
}

/// Connects managers until the shepherd reports to one that the job ended.
fn wait_ended(site: &Site, id: JobId) {
    let ended = HeldJob::new(id, true);
    wait_for("the job ended", || site.manager().executor.held() == [ended]);
}

#[test]
fn a_running_job_is_reattached() {
    let site = Site::new();
    let go = site.fifo("go");
    let job = site.job(1, 1, "cat go; exit 5");
    let first = site.manager();
    first.executor.start(job.clone());
    first.until(1, has_started);
    drop(first);

    let second = site.manager();
    assert_eq!(second.executor.held(), [HeldJob::new(JobId::new(1), false)]);
    // The crash came before the last two entries were recorded.
    let seen = Seen { log_entries: 2, ..Seen::default() };
    second.executor.start(again(job, seen));
    let reattached = |event: &ExecEvent| name(event) == "reattach";
    assert_eq!(
        second.until(1, reattached),
        ["REATTACHED", "shell.init", "shell.start", "CAUGHT-UP", "reattach"]
    );
    fs::write(go, "x\n").unwrap();
    assert_eq!(
        second.to_end(1),
        ["shell.task-exit", "shell-exit", "complete", "FINISH 1280", "done", "RELEASE"]
    );
    assert_eq!(site.output(1, "stdout", 0), "x\n");
    second.ack(1);
    second.end();
}

#[test]
fn a_job_that_ended_is_reported_until_it_is_acknowledged() {
    let site = Site::new();
    let go = site.fifo("go");
    let job = site.job(1, 1, "cat go; exit 5");
    let first = site.manager();
    first.executor.start(job.clone());
    first.until(1, has_started);
    drop(first);
    fs::write(go, "").unwrap();
    wait_ended(&site, JobId::new(1));

    let seen = Seen { log_entries: 4, ..Seen::default() };
    let missed = [
        "REATTACHED",
        "shell.task-exit",
        "shell-exit",
        "complete",
        "FINISH 1280",
        "done",
        "RELEASE",
    ];
    for _ in 0..2 {
        let manager = site.manager();
        manager.executor.start(again(job.clone(), seen));
        assert_eq!(manager.to_end(1), missed);
    }
    let last = site.manager();
    let seen = Seen { log_entries: 8, finished: true, ..Seen::default() };
    last.executor.start(again(job.clone(), seen));
    assert_eq!(last.to_end(1), ["REATTACHED", "RELEASE"]);
    last.ack(1);
    drop(last);

    let forgetful = site.manager();
    assert_eq!(forgetful.executor.held(), []);
    let events = forgetful.run(again(job, Seen::default()));
    assert_eq!(events, ["EXCEPTION 0 job is lost: the shepherd that ran it is gone", "RELEASE"]);
    forgetful.end();
}

#[test]
fn a_job_whose_start_was_not_recorded_is_not_started_twice() {
    let site = Site::new();
    let go = site.fifo("go");
    let job = site.job(1, 1, "echo run >>runs; cat go");
    let first = site.manager();
    first.executor.start(job.clone());
    first.until(1, has_started);
    drop(first);
    let second = site.manager();
    second.executor.start(job);
    let events = second.until(1, has_started);
    assert_eq!(events.join(" "), "init starting START shell.init shell.start");
    fs::write(go, "").unwrap();
    second.to_end(1);
    assert_eq!(site.text("runs"), "run\n");
    second.ack(1);
    second.end();
}

#[test]
fn a_cancellation_continues_without_a_manager() {
    let site = Site { kill: IMPATIENT, ..Site::new() };
    let ready = site.fifo("ready");
    let job = site.job(1, 1, "trap '' TERM; echo >ready; sleep 600; sleep 600");
    let first = site.manager();
    first.executor.start(job.clone());
    fs::read(ready).unwrap();
    first.until(1, has_started);
    first.cancel(1, Signal::TERM);
    drop(first);
    wait_ended(&site, JobId::new(1));
    let second = site.manager();
    second.executor.start(again(job, Seen::default()));
    assert_eq!(status(&second.to_end(1)), 137 << 8);
    second.ack(1);
    second.end();
}

#[test]
fn an_unkillable_job_is_reported_to_the_next_manager_too() {
    let site = Site { kill: FUTILE, ..Site::new() };
    let ready = site.fifo("ready");
    let job = site.job(1, 1, "trap '' TERM; echo >ready; sleep 600; sleep 600");
    let first = site.manager();
    first.executor.start(job.clone());
    fs::read(ready).unwrap();
    first.until(1, has_started);
    first.cancel(1, Signal::TERM);
    let is_unkillable = |event: &ExecEvent| matches!(event, ExecEvent::Unkillable { .. });
    first.until(1, is_unkillable);
    drop(first);
    let second = site.manager();
    second.executor.start(again(job.clone(), Seen::default()));
    second.until(1, is_unkillable);
    second.signal(1, Signal::KILL);
    second.to_end(1);
    drop(second);
    let third = site.manager();
    third.executor.start(again(job, Seen::default()));
    let events = third.to_end(1);
    assert!(!events.iter().any(|event| event.starts_with("UNKILLABLE")), "{events:?}");
    third.ack(1);
    third.end();
}

#[test]
fn an_acknowledged_job_does_not_keep_the_shepherd_running() {
    let site = Site { idle_time: Duration::from_millis(200), ..Site::new() };
    let ready = site.fifo("ready");
    let first = site.manager();
    first.executor.start(site.job(1, 1, "echo $PPID >ready; exec sleep 600"));
    let shepherd = parent(&site.read_fifo(&ready));
    first.until(1, has_started);
    drop(first);
    let second = site.manager();
    assert_eq!(second.executor.held(), [HeldJob::new(JobId::new(1), false)]);
    // It ends after the acknowledgement, so its end is reported to no manager.
    second.cancel(1, Signal::TERM);
    second.ack(1);
    drop(second);
    wait_gone(&shepherd);
}

#[test]
fn a_shepherd_without_jobs_and_manager_exits() {
    let site = Site { idle_time: Duration::from_millis(200), ..Site::new() };
    let manager = site.manager();
    assert_eq!(manager.status(site.job(1, 1, "true")), 0);
    // A connection without a hello does not count as a manager.
    let mut watch = socket::connect(&site.path("state"), PATIENCE).unwrap().unwrap();
    drop(manager);
    assert_eq!(watch.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    assert_eq!(site.manager().status(site.job(2, 1, "true")), 0);
}

#[test]
fn a_shepherd_without_state_directory_exits_with_its_last_job() {
    let site = Site { idle_time: Duration::from_millis(200), ..Site::new() };
    let (ready, go) = (site.fifo("ready"), site.fifo("go"));
    let manager = site.manager();
    manager.executor.start(site.job(1, 1, "echo $PPID >ready; cat go"));
    let shepherd = parent(&site.read_fifo(&ready));
    manager.until(1, has_started);
    drop(manager);
    fs::remove_dir_all(site.path("state")).unwrap();
    fs::write(go, "").unwrap();
    // No manager ever acknowledges the job's end.
    wait_gone(&shepherd);
}

/// A site whose shepherd outlives its managers, and a job that has to be killed and notes the shepherd.
fn durable(kill: KillPolicy) -> (Site, StartJob, PathBuf) {
    let site = Site { kill, temporary: false, ..Site::new() };
    let ready = site.fifo("ready");
    let job = site.job(1, 1, "trap '' TERM; echo $PPID $$ >ready; sleep 600; sleep 600");
    (site, job, ready)
}

/// Sends a signal to one process.
fn send(signal: UnixSignal, pid: &str) {
    kill_process(number(pid), signal).unwrap();
}

/// Ends a job by its first task, which leads the process group.
fn kill_tasks(leader: &str) {
    rustix::process::kill_process_group(number(leader), UnixSignal::KILL).unwrap();
}

/// Parses a process id, and makes sure that it doesn't stand for several processes.
fn number(pid: &str) -> Pid {
    let number = pid.parse::<u32>().unwrap();
    assert!(number > 1);
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

#[test]
fn a_terminated_shepherd_ends_its_jobs_and_saves_their_ends() {
    let (site, job, ready) = durable(IMPATIENT);
    let first = site.manager();
    first.executor.start(job.clone());
    let pids = site.read_fifo(&ready);
    let shepherd = &parent(pids.split(' ').next().unwrap());
    first.until(1, has_started);
    drop(first);
    send(UnixSignal::TERM, shepherd);
    wait_gone(shepherd);
    let second = site.manager();
    assert_eq!(second.executor.held(), [HeldJob::new(JobId::new(1), true)]);
    second.executor.start(again(job, Seen::default()));
    assert_eq!(status(&second.to_end(1)), 137 << 8);
    second.ack(1);
    second.end();
    let kept = site.path("state/shepherd.ends");
    wait_for("the file goes with the acknowledgement", || !kept.exists());
}

#[test]
fn a_terminated_shepherd_bounds_its_wait_for_acknowledgements() {
    let (site, job, ready) = durable(IMPATIENT);
    let manager = site.manager();
    manager.executor.start(job);
    let pids = site.read_fifo(&ready);
    let shepherd = &parent(pids.split(' ').next().unwrap());
    manager.until(1, has_started);
    send(UnixSignal::TERM, shepherd);
    assert_eq!(status(&manager.to_end(1)), 137 << 8);
    wait_gone(shepherd);
    assert!(site.path("state/shepherd.ends").exists());
}

#[test]
fn a_terminated_shepherd_kills_unkillable_jobs_with_sigkill() {
    let (site, job, ready) = durable(FUTILE);
    let manager = site.manager();
    manager.executor.start(job);
    let pids = site.read_fifo(&ready);
    let (forker, task) = pids.trim().split_once(' ').unwrap();
    let shepherd = &parent(forker);
    manager.until(1, has_started);
    drop(manager);
    send(UnixSignal::TERM, shepherd);
    wait_gone(shepherd);
    wait_gone(task);
    assert!(site.path("state/shepherd.ends").exists(), "so the job has an end");
}

#[test]
fn a_terminated_shepherd_continues_for_a_later_job() {
    let (site, _, ready) = durable(KillPolicy { kill_timeout: 60.0, ..KillPolicy::default() });
    let terminated = site.fifo("terminated");
    // The shell is at `wait` when the signal comes: it would not run the trap before a command in the
    // foreground ends, and that command may get the signal before it can die of it.
    let script =
        "trap 'echo >terminated' TERM; echo $PPID $$ >ready; while :; do sleep 600 & wait; done";
    let job = site.job(1, 1, script);
    let manager = site.manager();
    manager.executor.start(job);
    let pids = site.read_fifo(&ready);
    let (forker, task) = pids.trim().split_once(' ').unwrap();
    let shepherd = &parent(forker);
    manager.until(1, has_started);
    send(UnixSignal::TERM, shepherd);
    // A job that is started before the shepherd handles the signal would be canceled with the others.
    site.read_fifo(&terminated);
    let go = site.fifo("go");
    manager.executor.start(site.job(2, 1, "cat go; echo $PPID >forker"));
    manager.until(2, has_started);
    kill_tasks(task);
    manager.to_end(1);
    manager.ack(1);
    fs::write(go, "").unwrap();
    assert_eq!(status(&manager.to_end(2)), 0);
    assert_eq!(site.text("forker").trim(), forker);
    manager.ack(2);
    manager.end();
}

#[test]
fn jobs_go_on_when_their_shepherd_dies() {
    let site = Site::new();
    let manager = site.manager();
    let (ready, go) = (site.fifo("ready"), site.fifo("go"));
    let script = "echo $PPID >ready; cat go; echo late; echo later >&2; exit 3";
    let job = site.job(1, 1, script);
    manager.executor.start(job);
    let shepherd = parent(&site.read_fifo(&ready));
    manager.until(1, has_started);
    // This job exits while there is no shepherd.
    // Each task has a FIFO of its own: one that opened a common FIFO after the other would wait for another writer.
    let (second, third) =
        (["second-0", "second-1"].map(|name| site.fifo(name)), site.fifo("third"));
    manager.executor.start(site.job(2, 2, "cat second-$FLUX_TASK_RANK; exit $FLUX_TASK_RANK"));
    manager.until(2, has_started);
    // And this job waits for input.
    manager.executor.start(site.job(3, 1, "echo >third; cat"));
    fs::read(third).unwrap();
    manager.until(3, has_started);
    kill_process(pid(&shepherd), UnixSignal::STOP).unwrap();
    second.iter().for_each(|fifo| fs::write(fifo, "").unwrap());
    send(UnixSignal::KILL, &shepherd);
    assert_eq!(status(&manager.to_end(2)), 1 << 8);
    // The next job needs no other shepherd.
    assert_eq!(manager.status(site.job(4, 1, "true")), 0);
    fs::write(go, "early\n").unwrap();
    let events = manager.to_end(1);
    let expected = ["shell.task-exit", "shell-exit", "complete", "FINISH 768", "done", "RELEASE"];
    assert_eq!(events, expected);
    assert_eq!(site.output(1, "stdout", 0), "early\nlate\n");
    assert_eq!(site.output(1, "stderr", 0), "later\n");
    manager.stdin(3, None, b"typed".to_vec(), true);
    assert_eq!(status(&manager.to_end(3)), 0);
    assert_eq!(site.output(3, "stdout", 0), "typed");
    assert!(!site.path("state/tmp/0000.0000.0000.0001").exists(), "its directory is removed");
    for id in 1..4 {
        manager.ack(id);
    }
    manager.end();
}

#[test]
fn a_canceled_job_of_a_dead_shepherd_is_killed_with_all_it_has_started() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    // The sleeper is not a child of the task when the shepherd dies.
    let script = "(setsid sh -c 'echo $$ >stray; exec sleep 600' &) ; \
                  while [ ! -s stray ]; do sleep 0.01; done; echo $PPID >ready; exec sleep 600";
    manager.executor.start(site.job(1, 1, script));
    let shepherd = parent(&site.read_fifo(&ready));
    manager.until(1, has_started);
    send(UnixSignal::KILL, &shepherd);
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    wait_gone(site.text("stray").trim());
    manager.ack(1);
    manager.end();
}

#[test]
fn whatever_a_job_does_to_its_parent_no_other_job_notices() {
    for attack in [
        "kill -9 $PPID",
        "kill -STOP $PPID",
        "kill -TERM $PPID",
        "kill -9 0",
        "pkill -9 -s 0",
        "kill -9 -$(ps -o pgid= -p $$ | tr -d ' ')",
    ] {
        let site = Site::new();
        let manager = site.manager();
        let go = site.fifo("go");
        manager.executor.start(site.job(1, 2, "cat go >/dev/null; exit 4"));
        manager.until(1, has_started);
        let begin = Instant::now();
        manager.run(site.job(2, 1, attack));
        assert_eq!(manager.status(site.job(3, 2, "true")), 0, "{attack}: the next job");
        assert!(begin.elapsed() < PATIENCE / 2, "{attack}");
        fs::write(go, "").unwrap();
        assert_eq!(status(&manager.to_end(1)), 4 << 8, "{attack}: the other job");
        manager.ack(1);
        manager.end();
    }
}

#[test]
fn jobs_are_lost_when_shepherd_and_forker_die_and_the_next_ones_run() {
    let site = Site::new();
    let manager = site.manager();
    let (shepherd, task) = site.sleeper(&manager, 1);
    manager.until(1, has_started);
    kill_both(shepherd, task);
    let events = manager.to_end(1);
    assert_eq!(events, ["EXCEPTION 0 job is lost: the shepherd that ran it is gone", "RELEASE"]);
    wait_gone(&task.to_string());
    assert_eq!(manager.status(site.job(2, 1, "true")), 0);
    manager.ack(1);
    manager.end();
}

#[test]
fn a_start_that_cannot_be_delivered_is_reported() {
    let mut site = Site::new();
    let link = site.path("shepherd");
    std::os::unix::fs::symlink(&site.program, &link).unwrap();
    site.program = link.clone();
    let manager = site.manager();
    let (shepherd, task) = site.sleeper(&manager, 1);
    let _task = Killed(task);
    // The next shepherd can't be started.
    fs::remove_file(link).unwrap();
    kill_both(shepherd, task);
    let events = manager.to_end(1);
    assert!(events.iter().any(|event| event.starts_with("LOST")), "{events:?}");
    manager.executor.start(site.job(2, 1, "true"));
    let events = manager.to_end(2);
    assert!(events[0].starts_with("LOST cannot start a shepherd in "), "{events:?}");
    assert!(events[0].contains("(no job can be started: "), "{events:?}");
    assert_eq!(events[1..], ["RELEASE"]);
}

#[test]
fn a_manager_of_another_protocol_is_refused() {
    use std::io::{BufRead, BufReader, Write};
    let site = Site::new();
    let manager = site.manager();
    for request in ["{\"op\":\"hello\",\"version\":999}\n", "{\"op\":\"list\"}\n", "junk\n"] {
        let mut other = socket::connect(&site.path("state"), PATIENCE).unwrap().unwrap();
        other.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(other).lines();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["op"], "refused", "{answer}");
        assert!(lines.next().is_none(), "the connection is closed");
    }
    assert_eq!(manager.status(site.job(1, 1, "true")), 0);
    manager.end();
}
