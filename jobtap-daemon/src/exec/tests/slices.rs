//! Jobs of many tasks: a long launch does not delay other jobs.

use super::*;

fn to_file(job: StartJob, path: &str) -> StartJob {
    StartJob { shell_options: json!({"output": {"stdout": {"path": path}}}), ..job }
}

#[test]
fn a_job_can_be_canceled_while_its_tasks_are_started() {
    let site = Site { kill: IMPATIENT, ..Site::new() };
    let manager = site.manager();
    let ready = site.fifo("ready");
    let script = "[ $FLUX_TASK_RANK != 0 ] || echo >ready; exec sleep 600";
    // The first of them runs long before the last one is started.
    manager.executor.start(to_file(site.job(1, 1000, script), "out"));
    fs::read(ready).unwrap();
    manager.cancel(1, Signal::TERM);
    let note = "EXCEPTION 0 canceled before all of its tasks were started";
    assert_eq!(manager.to_end(1), ["init", "starting", note, "done", "RELEASE"]);
    manager.ack(1);
    manager.end();
}

#[test]
fn exits_of_tasks_are_reported_after_the_start_of_the_job() {
    let site = Site::new();
    let manager = site.manager();
    let job = site.job(1, 200, "echo $FLUX_TASK_RANK; exit $((FLUX_TASK_RANK == 0))");
    let events = manager.run(to_file(job, "out"));
    let expected = "init starting START shell.init shell.start shell.task-exit";
    assert_eq!(events[..6].join(" "), expected);
    assert_eq!(status(&events), 1 << 8);
    let mut ranks: Vec<u32> = site.text("out").lines().map(|line| line.parse().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, (0..200).collect::<Vec<_>>());
    manager.end();
}

#[test]
fn a_file_that_cannot_be_opened_fails_the_job_before_it_runs() {
    let site = Site::new();
    let manager = site.manager();
    fs::create_dir(site.path("out-2")).unwrap();
    let events = manager.run(to_file(site.job(1, 3, "echo run >>runs"), "out-{{taskid}}"));
    let note = format!("cannot open output file {}: Is a directory", site.path("out-2").display());
    assert_eq!(events[2], format!("EXCEPTION 0 {note}"));
    assert!(!site.path("runs").exists());
    manager.end();
}

#[test]
fn tasks_may_share_a_file_that_is_not_for_all() {
    let site = Site::new();
    let manager = site.manager();
    let nodes = [3, 5].map(|rank| NodeTasks { rank, ntasks: 2 });
    for file in ["out-0", "out-1"] {
        fs::write(site.path(file), "old\n").unwrap();
    }
    // A task has the same index on its node as one task of the other node.
    let job = to_file(site.job(1, 4, "echo out; echo err >&2"), "out-{{task.index}}");
    assert_eq!(manager.status(StartJob { nodes: nodes.into(), ..job }), 0);
    for file in ["out-0", "out-1"] {
        let text = site.text(file);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["err", "err", "out", "out"], "{file}");
    }
    manager.end();
}
