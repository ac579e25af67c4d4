//! The end of jobs: signals, cancellation, processes that jobs leave behind.

use super::*;

fn usr1() -> Signal {
    "USR1".parse().unwrap()
}

#[test]
fn cancel_ends_a_job_by_the_first_signal() {
    let site = Site::new();
    let manager = site.manager();
    for (id, signal, expected) in [(1, Signal::TERM, 143 << 8), (2, Signal::ALRM, 142 << 8)] {
        manager.executor.start(site.job(id, 2, "exec sleep 600"));
        manager.until(id, has_started);
        manager.cancel(id, signal);
        manager.cancel(id, signal);
        assert_eq!(status(&manager.to_end(id)), expected);
        manager.ack(id);
    }
    manager.end();
}

#[test]
fn the_exit_of_a_task_can_end_the_others() {
    let site = Site::new();
    let manager = site.manager();
    for (id, options, first, expected) in [
        (
            1,
            json!({"exit-timeout": "0.01s"}),
            "exit 0",
            "exited (Exit 0) and exit-timeout=0.01s has expired",
        ),
        (2, json!({"exit-on-error": true}), "exit 3", "failed (Exit 3) and exit-on-error is set"),
    ] {
        let script = format!("[ $FLUX_TASK_RANK = 0 ] && {first}; exec sleep 600");
        let job = site.job(id, 2, &script);
        manager.executor.start(StartJob { shell_options: options, ..job });
        let events = manager.until(id, |event| matches!(event, ExecEvent::Exception { .. }));
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy();
        let note = format!("EXCEPTION 0 sh: task rank 0 on host {host} {expected}");
        assert_eq!(*events.last().unwrap(), note);
        manager.cancel(id, Signal::TERM);
        // The job has the exit code of the task that ended the others, and the exception says so.
        let code = if first == "exit 3" { 3 } else { 0 };
        assert_eq!(status(&manager.to_end(id)), code << 8);
        manager.ack(id);
    }
    // Tasks that exit normally in time cause no exception, nor does the failure of the last one.
    let options = json!({"exit-on-error": true, "exit-timeout": "1h"});
    for (id, ntasks, script) in [(3, 2, "true"), (4, 1, "false")] {
        let job = site.job(id, ntasks, script);
        let events = manager.run(StartJob { shell_options: options.clone(), ..job });
        assert!(!events.iter().any(|event| event.starts_with("EXCEPTION")), "{events:?}");
    }
    manager.end();
}

#[test]
fn a_job_that_ignores_the_signal_is_killed() {
    let site = Site { kill: IMPATIENT, ..Site::new() };
    let manager = site.manager();
    let ready = site.fifo("ready");
    manager.executor.start(site.job(1, 1, "trap '' TERM; echo >ready; sleep 600; sleep 600"));
    fs::read(ready).unwrap();
    manager.until(1, has_started);
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 137 << 8);
    manager.ack(1);
    manager.end();
}

#[test]
fn the_kill_signal_can_be_changed_between_jobs() {
    let site = Site { kill: IMPATIENT, ..Site::new() };
    let mut manager = site.manager();
    let names = [(1, "SIGUSR2"), (2, "SIGINT"), (3, "SIGKILL")];
    for (id, name) in names {
        let kill_signal: Signal = name.parse().unwrap();
        manager.kill = KillPolicy { kill_signal, ..IMPATIENT };
        let ready = site.fifo(name);
        let script = format!("trap '' TERM; echo >{name}; exec sleep 600");
        manager.executor.start(site.job(id, 1, &script));
        fs::read(ready).unwrap();
        manager.until(id, has_started);
        manager.cancel(id, Signal::TERM);
        assert_eq!(status(&manager.to_end(id)), (128 + kill_signal.number()) << 8);
        manager.ack(id);
    }
    manager.end();
}

#[test]
fn an_unkillable_job_is_reported_once_with_its_remaining_ranks() {
    let in_time = KillPolicy { max_kill_count: u32::MAX, max_kill_timeout: Some(0.001), ..FUTILE };
    for kill in [FUTILE, in_time] {
        let site = Site { kill, ..Site::new() };
        let manager = site.manager();
        let ready = site.fifo("ready");
        let script =
            "[ $FLUX_TASK_RANK = 0 ] || { trap '' TERM; echo >ready; sleep 600; sleep 600; }";
        let nodes = [3, 5].map(|rank| NodeTasks { rank, ntasks: 1 });
        manager.executor.start(StartJob { nodes: nodes.into(), ..site.job(1, 2, script) });
        fs::read(ready).unwrap();
        manager.until(1, |event| name(event) == "shell.task-exit");
        manager.cancel(1, Signal::TERM);
        let is_unkillable = |event: &ExecEvent| matches!(event, ExecEvent::Unkillable { .. });
        let until = manager.until(1, is_unkillable);
        let last = until.last().map(String::as_str);
        assert_eq!(last, Some("UNKILLABLE 5 unkillable user processes for job ƒ2"));
        manager.signal(1, Signal::KILL);
        let rest = manager.to_end(1);
        assert_eq!(status(&rest), 137 << 8);
        assert!(!rest.iter().any(|event| event.starts_with("UNKILLABLE")), "{rest:?}");
        manager.ack(1);
        manager.end();
    }
}

#[test]
fn a_canceled_job_that_exits_with_status_0_is_no_success() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    let script = "trap 'kill $!; exit 0' TERM; sleep 600 & echo >ready; wait";
    manager.executor.start(site.job(1, 1, script));
    fs::read(ready).unwrap();
    manager.until(1, has_started);
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 1 << 8);
    manager.ack(1);
    manager.end();
}

#[test]
fn a_signal_reaches_all_processes_of_a_job() {
    let site = Site::new();
    let manager = site.manager();
    let pids = site.fifo("pids");
    let script = "sleep 600 & echo $! >pids; sh -c 'sleep 600 & echo $! >pids; wait' & wait; wait";
    let read = thread::spawn(move || {
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(fs::read_to_string(&pids).unwrap().lines().map(str::to_owned));
        }
        found
    });
    manager.executor.start(site.job(1, 1, script));
    let pids = read.join().unwrap();
    manager.signal(1, usr1());
    assert_eq!(status(&manager.to_end(1)), (128 + usr1().number()) << 8);
    pids.iter().for_each(|pid| wait_gone(pid));
    manager.ack(1);
    manager.end();
}

#[test]
fn a_signal_reaches_a_daemon_of_a_job_that_runs() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    site.fifo("up");
    // The daemon is a child of the shepherd, in a group of its own, once the process that started it has ended.
    let script = "(setsid sh -c 'trap \"echo >got; exit\" USR1; echo $$ >up
            while :; do sleep 0.01; done' &)
        cat up >ready; trap '' USR1; echo >trapped; exec sleep 600";
    manager.executor.start(site.job(1, 1, script));
    let _daemon = Killed(pid(&site.read_fifo(&ready)));
    wait_for("the task ignores the signal", || site.path("trapped").exists());
    manager.signal(1, usr1());
    wait_for("the daemon has got the signal", || site.path("got").exists());
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    manager.ack(1);
    manager.end();
}

#[test]
fn a_signal_to_an_unknown_job_is_ignored() {
    let site = Site::new();
    let manager = site.manager();
    manager.signal(99, Signal::TERM);
    manager.cancel(99, Signal::TERM);
    manager.ack(99);
    assert_eq!(manager.status(site.job(1, 1, "true")), 0);
    manager.end();
}

#[test]
fn background_processes_of_an_ended_job_are_killed() {
    let site = Site::new();
    let manager = site.manager();
    let script = "sleep 600 >/dev/null 2>&1 & echo $!; setsid sleep 600 >/dev/null 2>&1 & echo $!";
    assert_eq!(manager.status(site.job(1, 1, script)), 0);
    site.output(1, "stdout", 0).lines().for_each(wait_gone);
    manager.end();
}

#[test]
fn a_running_job_keeps_processes_that_left_its_group() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    let script = "sh -c 'setsid sleep 600 & echo $! >pid'; echo >ready; exec sleep 600";
    manager.executor.start(site.job(1, 1, script));
    fs::read(ready).unwrap();
    let pid = site.text("pid");
    manager.status(site.job(2, 1, "setsid sleep 600 >/dev/null 2>&1 & echo $!"));
    site.output(2, "stdout", 0).lines().for_each(wait_gone);
    assert!(Path::new("/proc").join(pid.trim()).exists(), "the sweep after job 2 spares job 1's");
    manager.cancel(1, Signal::TERM);
    manager.to_end(1);
    wait_gone(&pid);
    manager.ack(1);
    manager.end();
}

#[test]
fn orphans_of_a_nested_shepherd_belong_to_the_outer_job() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    // The variable as the tasks of an inner shepherd have it, for a job that the inner one might have had.
    let script = "export JOBTAP_JOB_TOKEN=$JOBTAP_JOB_TOKEN:1-f.2; \
                  setsid sleep 600 >/dev/null 2>&1 & echo $! >pid; echo >ready";
    manager.executor.start(site.job(2, 1, "exec sleep 600"));
    manager.until(2, has_started);
    manager.executor.start(site.job(1, 1, script));
    fs::read(ready).unwrap();
    manager.to_end(1);
    wait_gone(&site.text("pid"));
    manager.cancel(2, Signal::TERM);
    manager.to_end(2);
    manager.ack(1);
    manager.ack(2);
    manager.end();
}

#[test]
fn output_from_the_background_belongs_to_the_job() {
    let site = Site::new();
    let manager = site.manager();
    let go = site.fifo("go");
    manager.executor.start(site.job(1, 1, "(cat go; echo late) & echo early"));
    manager.until(1, |event| name(event) == "shell.task-exit");
    fs::write(go, "").unwrap();
    manager.to_end(1);
    assert_eq!(site.output(1, "stdout", 0), "early\nlate\n");
    manager.ack(1);
    manager.end();
}

#[test]
fn a_canceled_job_does_not_wait_for_the_background() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    let script = "(trap '' TERM; echo >ready; exec setsid sleep 600) & exec sleep 600";
    manager.executor.start(site.job(1, 1, script));
    fs::read(ready).unwrap();
    manager.until(1, has_started);
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    manager.ack(1);
    manager.end();
}

#[test]
fn a_signal_reaches_what_a_task_left_in_its_group() {
    let site = Site::new();
    let manager = site.manager();
    let go = site.fifo("go");
    // Processes without the job's environment. The first becomes a child of the shepherd when the task exits, the
    // second when the subshell does.
    let script = "env -i sleep 600 & echo $! >first
        (env -i sleep 600 & echo $! >second; cat go >/dev/null) &";
    manager.executor.start(site.job(1, 1, script));
    manager.until(1, |event| name(event) == "shell.task-exit");
    let written =
        |name: &str| fs::read_to_string(site.path(name)).is_ok_and(|text| text.ends_with('\n'));
    wait_for("both have begun", || written("first") && written("second"));
    let pids = ["first", "second"].map(|name| site.text(name));
    let _left = pids.clone().map(|text| Killed(pid(&text)));
    fs::write(go, "").unwrap();
    // Another job, so that the shepherd has noticed the exit of the subshell.
    assert_eq!(manager.status(site.job(2, 1, "sleep 0.1")), 0);
    manager.signal(1, Signal::TERM);
    pids.iter().for_each(|pid| wait_gone(pid));
    assert_eq!(status(&manager.to_end(1)), 0);
    manager.ack(1);
    manager.end();
}

#[test]
fn the_last_manager_of_a_temporary_instance_acknowledges_nothing() {
    let ends_at_once = || {
        let site = Site::new();
        let manager = site.manager();
        let ready = site.fifo("ready");
        manager.executor.start(site.job(1, 1, "echo >ready; exec sleep 600"));
        fs::read(ready).unwrap();
        // Shorter than the shepherd's wait for acknowledgements.
        manager.executor.shut_down(Duration::from_secs(4))
    };
    // A busy machine may make one of them slow, but a shepherd that waits is never in time.
    assert!((0..8).any(|_| ends_at_once()), "the shepherd hasn't ended");
}
