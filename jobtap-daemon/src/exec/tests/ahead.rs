//! Jobs that are handed over ahead of their turn, by real shepherds.

use super::*;

impl Site {
    /// A job that notes that it runs, to be begun after another one.
    fn after(&self, before: u64, id: u64) -> StartJob {
        let after = Some(JobId::new(before));
        StartJob { after, ..self.job(id, 1, &format!("echo {id} >>runs")) }
    }
}

impl Manager {
    fn hand_over(&self, job: StartJob) {
        self.executor.start(job);
        self.executor.flush();
    }

    fn recall(&self, id: u64) {
        self.executor.command(JobCommand::Recall { id: JobId::new(id) });
    }

    /// The events up to the release of a job, each with the job's number. Entries of eventlogs are left out.
    fn all_to_end(&self, last: u64) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let event = self.next();
            let number = event.id().as_u64();
            if !matches!(event, ExecEvent::Log { .. } | ExecEvent::Output { .. }) {
                all.push(format!("{number} {}", name(&event)));
            }
            if number == last && matches!(event, ExecEvent::Released { .. }) {
                return all;
            }
        }
    }

    /// Waits until a job that was recalled is given back, or until it is said that it is begun.
    fn answer(&self, id: u64) -> String {
        let answers = |event: &ExecEvent| {
            matches!(event, ExecEvent::Begun { .. } | ExecEvent::Recalled { .. })
        };
        self.until(id, answers).pop().unwrap()
    }
}

/// A job that runs until its input ends, and the manager's own executor.
fn blocked(site: &Site) -> Manager {
    let manager = site.manager();
    let shell_options = serde_json::json!({"input": {"stdin": {"type": "service"}}});
    manager.executor.start(StartJob { shell_options, ..site.job(1, 1, "echo 1 >>runs; cat") });
    manager.until(1, has_started);
    manager
}

impl Manager {
    /// Lets the job of [`blocked`] end.
    fn unblock(&self) {
        self.stdin(1, None, Vec::new(), true);
    }
}

#[test]
fn each_begins_when_nothing_is_left_of_the_one_before_without_a_request() {
    let site = Site::new();
    let manager = blocked(&site);
    manager.hand_over(site.after(1, 2));
    manager.hand_over(site.after(2, 3));
    manager.unblock();
    let expected = [
        "1 FINISH 0",
        "2 BEGUN",
        "1 RELEASE",
        "2 START",
        "2 FINISH 0",
        "3 BEGUN",
        "2 RELEASE",
        "3 START",
        "3 FINISH 0",
        "3 RELEASE",
    ];
    assert_eq!(manager.all_to_end(3), expected);
    assert_eq!(site.text("runs"), "1\n2\n3\n");
    (1..=3).for_each(|id| manager.ack(id));
    manager.end();
}

#[test]
fn what_is_given_back_does_not_begin_and_the_others_close_up() {
    let site = Site::new();
    let manager = blocked(&site);
    (2..=4).for_each(|id| manager.hand_over(site.after(id - 1, id)));
    manager.recall(3);
    assert_eq!(manager.answer(3), "RECALLED");
    manager.unblock();
    manager.to_end(4);
    assert_eq!(site.text("runs"), "1\n2\n4\n");
    // Another manager would find the last one behind the second.
    drop(manager);
    let manager = site.manager();
    let after =
        |id: u64| manager.executor.held().iter().find(|job| job.id == JobId::new(id))?.after;
    assert_eq!((after(2), after(4)), (Some(JobId::new(1)), Some(JobId::new(2))));
    // It can start as if it had never been handed over.
    assert_eq!(manager.status(site.job(3, 1, "echo 3 >>runs")), 0);
    assert_eq!(site.text("runs"), "1\n2\n4\n3\n");
    [1, 2, 4].into_iter().for_each(|id| manager.ack(id));
    manager.end();
}

#[test]
fn a_job_that_has_begun_is_not_given_back() {
    let site = Site::new();
    let manager = blocked(&site);
    manager.unblock();
    manager.to_end(1);
    // The job before it has ended already, but its end isn't acknowledged.
    manager.hand_over(site.after(1, 2));
    manager.to_end(2);
    manager.recall(2);
    assert_eq!(manager.answer(2), "BEGUN");
    // After a job that the shepherd doesn't know nothing begins.
    manager.ack(1);
    manager.ack(2);
    manager.hand_over(site.after(1, 3));
    manager.recall(3);
    assert_eq!(manager.answer(3), "RECALLED");
    assert_eq!(site.text("runs"), "1\n2\n");
    manager.end();
}

#[test]
fn another_manager_finds_what_has_begun_and_nothing_else() {
    let site = Site::new();
    let first = blocked(&site);
    let ready = site.fifo("ready");
    let sleeper = site.job(2, 1, "echo 2 >>runs; echo >ready; exec sleep 600");
    first.hand_over(StartJob { after: Some(JobId::new(1)), ..sleeper });
    first.hand_over(site.after(2, 3));
    first.unblock();
    site.read_fifo(&ready);
    first.until(2, has_started);
    drop(first);
    let second = site.manager();
    let after = Some(JobId::new(1));
    let begun = HeldJob { after, ..HeldJob::new(JobId::new(2), false) };
    assert_eq!(second.executor.held(), [HeldJob::new(JobId::new(1), true), begun]);
    // It is started again in its turn, and so its events are reported.
    second.executor.start(site.job(2, 1, "false"));
    second.cancel(2, Signal::TERM);
    let events = second.to_end(2);
    assert_eq!(events[..3], ["init", "starting", "START"]);
    assert_eq!(site.text("runs"), "1\n2\n", "the last one was forgotten with its manager");
    [1, 2].into_iter().for_each(|id| second.ack(id));
    second.end();
}

#[test]
fn a_recall_is_answered_although_the_shepherd_has_died() {
    let site = Site::new();
    let manager = site.manager();
    let (shepherd, _) = site.sleeper(&manager, 1);
    manager.hand_over(site.after(1, 2));
    kill_process(shepherd, UnixSignal::STOP).unwrap();
    manager.recall(2);
    kill_process(shepherd, UnixSignal::KILL).unwrap();
    assert_eq!(manager.answer(2), "RECALLED");
    manager.cancel(1, Signal::TERM);
    manager.to_end(1);
    assert_eq!(site.text("runs"), "run\n");
    manager.ack(1);
    manager.end();
}

#[test]
fn a_job_that_a_dead_shepherd_had_begun_by_itself_is_not_started_again() {
    let site = Site::new();
    let first = blocked(&site);
    let ready = site.fifo("ready");
    let sleeper = site.job(2, 1, "echo 2 >>runs; echo $PPID $$ >ready; exec sleep 600");
    first.hand_over(StartJob { after: Some(JobId::new(1)), ..sleeper });
    first.unblock();
    let text = site.read_fifo(&ready);
    let (forker, task) = text.trim().split_once(' ').unwrap();
    let (shepherd, task) = (pid(&parent(forker)), pid(task));
    // The manager has recorded nothing of it.
    drop(first);
    kill_both(shepherd, task);
    let second = site.manager();
    wait_gone(&task.to_string());
    second.executor.start(site.job(2, 1, "echo again >>runs"));
    let events = second.to_end(2);
    assert!(events[0].contains("as it may have run, it is not started again"), "{events:?}");
    assert_eq!(site.text("runs"), "1\n2\n");
    [1, 2].into_iter().for_each(|id| second.ack(id));
    second.end();
}

/// The report that the job has begun is still gathered with others when its shepherd dies.
#[test]
fn a_job_that_kills_its_shepherd_as_soon_as_it_begins_runs_once() {
    let site = Site::new();
    let manager = site.manager();
    let ready = site.fifo("ready");
    let shell_options = serde_json::json!({"input": {"stdin": {"type": "service"}}});
    let first = site.job(1, 1, "echo $PPID >ready; cat");
    manager.executor.start(StartJob { shell_options, ..first });
    let shepherd = parent(&site.read_fifo(&ready));
    manager.until(1, has_started);
    let killer = site.job(2, 1, &format!("echo 2 >>runs; kill -9 {shepherd}"));
    manager.hand_over(StartJob { after: Some(JobId::new(1)), ..killer });
    // While another one waits, reports are gathered.
    manager.hand_over(site.after(2, 3));
    manager.unblock();
    // Either the dead shepherd has reported it, before the end of the first job, or the next one answers the recall.
    let mut events = manager.all_to_end(1);
    manager.recall(2);
    events.extend(manager.all_to_end(2));
    assert!(events.iter().any(|event| event == "2 BEGUN"), "{events:?}");
    assert_eq!(site.text("runs"), "2\n");
    [1, 2].into_iter().for_each(|id| manager.ack(id));
    manager.end();
}
