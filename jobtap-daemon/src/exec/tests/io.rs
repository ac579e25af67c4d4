//! Standard input and output of tasks.

use std::io::Read;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use super::*;
use crate::output_pack::PackReader;

#[test]
fn output_goes_to_files_by_template() {
    let site = Site::new();
    let manager = site.manager();
    let options = json!({"output": {
        "stdout": {"type": "file", "path": "out-{{name}}-{{id.dec}}.txt"},
        "stderr": {"type": "file", "path": "err-{{taskid}}.txt"},
    }});
    let mut job = site.job(1, 2, "echo out; echo err $FLUX_TASK_RANK >&2");
    job.name = "nm".to_owned();
    job.shell_options = options;
    assert_eq!(manager.status(job), 0);
    assert_eq!(site.text("out-nm-1.txt"), "out\nout\n");
    assert_eq!(site.text("err-1.txt"), "err 1\n");
    let redirects: Vec<Value> =
        site.log(1)[1..].iter().map(|entry| entry["context"].clone()).collect();
    let expected = [
        json!({"stream": "stdout", "rank": "[0-1]", "path": "out-nm-1.txt"}),
        json!({"stream": "stderr", "rank": "[0-1]", "path": "err-{{taskid}}.txt"}),
    ];
    assert_eq!(redirects, expected);
    manager.end();
}

#[test]
fn files_are_replaced_or_added_to_and_labeled() {
    let site = Site::new();
    let manager = site.manager();
    let run = |id, ntasks, mode: &str, label: bool| {
        let options = json!({"output": {"mode": mode, "stdout": {"path": "o", "label": label}}});
        let job = site.job(id, ntasks, "echo $FLUX_TASK_RANK; echo err >&2");
        assert_eq!(manager.status(StartJob { shell_options: options, ..job }), 0);
        let mut lines: Vec<String> = site.text("o").lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.join("|")
    };
    assert_eq!(run(1, 1, "truncate", false), "0|err");
    assert_eq!(run(2, 1, "truncate", false), "0|err");
    assert_eq!(run(3, 1, "append", false), "0|0|err|err");
    assert_eq!(run(4, 2, "truncate", true), "0: 0|0: err|1: 1|1: err");
    manager.end();
}

#[test]
fn the_loss_of_output_is_told_once() {
    let site = Site::new();
    let manager = site.manager();
    // With labels, the shepherd writes each line.
    let options = json!({"output": {"stdout": {"path": "/dev/full", "label": true}}});
    let job = site.job(1, 1, "for n in 1 2 3; do echo $n; sleep 0.1; done");
    let events = manager.run(StartJob { shell_options: options, ..job });
    let lost: Vec<&String> = events.iter().filter(|event| event.contains(" lost: ")).collect();
    assert_eq!(lost, ["EXCEPTION 2 task 0: stdout lost: No space left on device"], "{events:?}");
    assert_eq!(status(&events), 0);
    manager.end();
}

#[test]
fn large_output_is_complete() {
    let site = Site::new();
    let manager = site.manager();
    let script =
        "yes 0123456789 | head -n 100000; head -c 500000 /dev/zero | tr '\\0' x; printf end";
    assert_eq!(manager.status(site.job(1, 2, script)), 0);
    for rank in 0..2 {
        let expected = "0123456789\n".repeat(100_000) + &"x".repeat(500_000) + "end";
        assert!(site.output(1, "stdout", rank) == expected);
    }
    manager.end();
}

/// The blocks of a pack, as text.
fn packed(pack: &Path) -> Vec<String> {
    let Ok(mut pack) = PackReader::open(pack) else { return Vec::new() };
    let block = || pack.next(|_| true).unwrap();
    std::iter::from_fn(block).map(|block| String::from_utf8(block.data).unwrap()).collect()
}

#[test]
fn what_a_long_job_prints_is_soon_in_its_pack() {
    let site = Site::new();
    let manager = site.manager();
    // One for each line: in one that the test still has open, the job would find the end of the last line.
    let [two, three] = ["two", "three"].map(|name| site.fifo(name));
    let script = "echo one; read go <two; echo two; read go <three; echo three";
    let shell_options = json!({"output": {"stdout": {"type": "pack", "path": "pack"}}});
    let nodes = vec![NodeTasks { rank: 3, ntasks: 1 }];
    let job = StartJob { shell_options, nodes, ..site.job(1, 1, script) };
    manager.executor.start(given(job));
    // By the rank of the node.
    let pack = site.path("pack.3");
    wait_for("the first line is there", || packed(&pack) == ["one\n"]);
    fs::write(&two, "go\n").unwrap();
    wait_for("the second line is there", || packed(&pack) == ["one\n", "two\n"]);
    fs::write(&three, "go\n").unwrap();
    let whole = ["one\n", "two\n", "three\n"];
    wait_for("the third line is there", || packed(&pack) == whole);
    assert!(!site.path("pack").exists());
    manager.ack(1);
    manager.end();
}

/// The same job, requested by a manager that takes output.
fn given(job: StartJob) -> StartJob {
    StartJob { takes_output: true, ..job }
}

/// The output of a job, if it is reported to the manager.
fn reported_output(manager: &Manager) -> Option<String> {
    let mut output = None;
    loop {
        match manager.next() {
            ExecEvent::Output { text, .. } => output = Some(text),
            ExecEvent::Released { .. } => return output,
            _ => {}
        }
    }
}

#[test]
fn what_a_short_job_prints_is_reported_and_in_no_file() {
    let site = Site::new();
    let manager = site.manager();
    manager.executor.start(given(site.job(1, 2, "echo out; echo err >&2")));
    let output = reported_output(&manager).unwrap();
    for text in ["out\\n", "err\\n"] {
        assert_eq!(output.matches(text).count(), 2, "{output}");
    }
    assert!(output.contains("\"header\"") && output.matches("\"eof\":true").count() == 4);
    assert!(!site.path("state/output").exists());
    manager.ack(1);
    manager.end();
}

#[test]
fn what_a_job_prints_can_be_read_while_it_runs_on() {
    let site = Site::new();
    let manager = site.manager();
    let go = site.fifo("go");
    manager.executor.start(given(site.job(1, 1, "echo early; cat go; echo late")));
    let file = site.path("state/output/0000.0000.0000.0001");
    wait_for("the output is in a file", || {
        file.exists() && !site.output(1, "stdout", 0).is_empty()
    });
    assert_eq!(site.output(1, "stdout", 0), "early\n");
    fs::write(go, "").unwrap();
    assert_eq!(reported_output(&manager), None);
    assert_eq!(site.output(1, "stdout", 0), "early\nlate\n");
    manager.ack(1);
    manager.end();
}

#[test]
fn what_a_job_has_printed_outlives_its_shepherd() {
    let mut site = Site::new();
    site.temporary = false;
    let manager = site.manager();
    let job = given(site.job(1, 1, "echo $PPID"));
    manager.executor.start(job.clone());
    let output = reported_output(&manager).unwrap();
    drop(manager);
    let entries = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut printed =
        entries.filter_map(|entry| Some(entry["context"]["data"].as_str()?.to_owned()));
    let shepherd = &parent(&printed.next().unwrap());
    kill_process(pid(shepherd), UnixSignal::TERM).unwrap();
    wait_gone(shepherd);
    let second = site.manager();
    second.executor.start(StartJob { reattach: true, ..job });
    assert_eq!(reported_output(&second), Some(output));
    second.ack(1);
    second.end();
}

#[test]
fn output_that_is_not_utf8_is_logged_in_base64() {
    let site = Site::new();
    let manager = site.manager();
    manager.run(site.job(1, 1, "printf '\\377\\n'"));
    let log = site.log(1);
    let entry = log.iter().find(|entry| entry["context"]["encoding"] == "base64").unwrap();
    assert_eq!(entry["context"]["data"], "/wo=");
    manager.end();
}

#[test]
fn input_comes_from_a_file_that_each_task_reads() {
    let site = Site::new();
    let manager = site.manager();
    let nothing = json!({"input": {"stdin": {"type": "file", "path": "/dev/null"}}});
    let job = StartJob { shell_options: nothing, ..site.job(1, 1, "cat") };
    assert_eq!(manager.status(job), 0);
    fs::write(site.path("in.txt"), "from file\n").unwrap();
    let shell_options = json!({"input": {"stdin": {"type": "file", "path": "in.txt"}}});
    let status = manager.status(StartJob { shell_options, ..site.job(2, 2, "cat") });
    assert_eq!(status, 0);
    assert_eq!(site.output(1, "stdout", 0), "");
    let log = site.text("state/input/0000.0000.0000.0002");
    assert!(log.contains("\"name\":\"header\"") && log.contains("in.txt"), "{log}");
    assert_eq!(site.output(2, "stdout", 0), "from file\n");
    assert_eq!(site.output(2, "stdout", 1), "from file\n");
    manager.end();
}

#[test]
fn clients_may_send_input() {
    let site = Site::new();
    let manager = site.manager();
    // The same as without options.
    let shell_options = json!({"input": {"stdin": {"type": "service"}}});
    manager.executor.start(StartJob { shell_options, ..site.job(2, 1, "cat") });
    manager.stdin(2, None, b"x".to_vec(), true);
    assert_eq!(status(&manager.to_end(2)), 0);
    assert_eq!(site.output(2, "stdout", 0), "x");
    manager.ack(2);
    manager.executor.start(site.job(1, 2, "cat"));
    manager.stdin(1, None, b"all\n".to_vec(), false);
    manager.stdin(1, Some(1), b"one\n".to_vec(), false);
    let big = "x".repeat(300_000);
    manager.stdin(1, None, big.clone().into_bytes(), true);
    assert_eq!(status(&manager.to_end(1)), 0);
    assert!(site.output(1, "stdout", 0) == format!("all\n{big}"));
    assert!(site.output(1, "stdout", 1) == format!("all\none\n{big}"));
    manager.ack(1);
    manager.end();
}

#[test]
fn a_fifo_without_reader_does_not_block_the_shepherd() {
    let site = Site::new();
    let manager = site.manager();
    site.fifo("unread");
    let shell_options = json!({"output": {"stdout": {"path": "unread"}}});
    let events = manager.run(StartJob { shell_options, ..site.job(1, 1, "true") });
    assert!(events[2].starts_with("EXCEPTION 0 cannot open output file"), "{events:?}");
    manager.end();
}

#[test]
fn output_to_a_fifo_that_is_not_read_delays_no_other_job() {
    let labeled = json!({"output": {"stdout": {"path": "fifo", "label": true}}});
    let partly = json!({"output": {
        "stdout": {"path": "fifo", "label": true},
        "stderr": {"type": "file", "path": "fifo"},
    }});
    let terminal = json!({"pty": true, "output": {"stdout": {"path": "fifo"}}});
    let site = Site::new();
    let manager = site.manager();
    let fifo = site.fifo("fifo");
    for (id, shell_options) in [(1, labeled), (3, partly), (5, terminal)] {
        // Open for reading and writing, so that the other end is there, and the output has no end.
        let mut reader = fs::File::options().read(true).write(true).open(&fifo).unwrap();
        let script = "yes | head -n 100000; yes err | head -n 100000 >&2";
        let job = site.job(id, 1, script);
        manager.executor.start(StartJob { shell_options, ..job });
        manager.until(id, has_started);
        assert_eq!(manager.status(site.job(id + 1, 1, "true")), 0, "{id}: another job runs");
        let (sender, complete) = channel();
        thread::spawn(move || {
            let (mut lines, mut chunk) = (0, [0; 4096]);
            while lines < 200_000 {
                let size = reader.read(&mut chunk).unwrap();
                lines += chunk[..size].iter().filter(|byte| **byte == b'\n').count();
            }
            let _ = sender.send(lines);
        });
        let lines = complete.recv_timeout(PATIENCE).expect("all lines are read");
        assert_eq!((lines, status(&manager.to_end(id))), (200_000, 0), "{id}");
        manager.ack(id);
    }
    manager.end();
}

#[test]
fn the_reader_of_a_fifo_for_one_task_sees_the_end_of_no_output() {
    let site = Site::new();
    let manager = site.manager();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(site.fifo("out.0"), flags, Mode::empty()).unwrap();
    let stdout = json!({"path": "out.{{taskid}}", "label": true});
    let shell_options = json!({"output": {"stdout": stdout}});
    assert_eq!(manager.status(StartJob { shell_options, ..site.job(1, 1, "true") }), 0);
    // POLLHUP means that a writer has opened the FIFO and closed it again.
    wait_for("the output has ended", || {
        let mut polled = [PollFd::new(&reader, PollFlags::empty())];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        polled[0].revents().contains(PollFlags::HUP)
    });
    manager.end();
}

#[test]
fn a_job_that_writes_to_a_fifo_that_is_not_read_can_be_canceled() {
    // The end of the output is waited for until the next kill. No SIGKILL competes with the first signal.
    let kill = KillPolicy { kill_signal: Signal::TERM, ..IMPATIENT };
    let site = Site { kill, ..Site::new() };
    let manager = site.manager();
    let fifo = site.fifo("fifo");
    let _reader = fs::File::options().read(true).write(true).open(fifo).unwrap();
    let shell_options = json!({"output": {"stdout": {"path": "fifo", "label": true}}});
    let job = site.job(1, 2, "yes");
    manager.executor.start(StartJob { shell_options, ..job });
    manager.until(1, has_started);
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    manager.ack(1);
    manager.end();
}
