//! Tasks that keep the lock of a pipe which they share with the shepherd.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::pipe::{SpliceFlags, splice};

use super::*;

/// What a process of these tests moves data from or to.
const SPLICES: &str = "JOBTAP_TEST_SPLICES";

/// Not a test: a task that moves data between a socket and one of its standard streams, and waits for the socket for
/// ever. It writes a byte first, so that the stream can be read.
#[test]
fn splicing_process() {
    let Ok(stream) = std::env::var(SPLICES) else { return };
    let (socket, other) = UnixStream::pair().unwrap();
    let moved = SpliceFlags::empty();
    match stream.as_str() {
        "stdin" => {
            socket.set_nonblocking(true).unwrap();
            while (&socket).write(&[0; 4096]).is_ok() {}
            socket.set_nonblocking(false).unwrap();
            std::io::stdin().read_exact(&mut [0]).unwrap();
            tell_pid();
            splice(std::io::stdin(), None, &socket, None, 1 << 20, moved).unwrap();
        }
        _ => {
            println!("before");
            tell_pid();
            splice(&socket, None, std::io::stdout(), None, 1 << 20, moved).unwrap();
        }
    }
    drop(other);
}

/// Says that this process is about to move data.
fn tell_pid() {
    fs::write("pid", std::process::id().to_string()).unwrap();
    fs::rename("pid", "splices").unwrap();
}

/// A job whose task moves data to or from this stream.
fn splicing(site: &Site, id: u64, stream: &str) -> StartJob {
    let program = std::env::current_exe().unwrap();
    let test = ["--exact", "exec::tests::pipes::splicing_process", "--nocapture"];
    let mut job = site.job(id, 1, "");
    job.command =
        std::iter::once(program.to_str().unwrap()).chain(test).map(str::to_owned).collect();
    job.env.push((SPLICES.to_owned(), stream.to_owned()));
    job
}

#[test]
fn a_task_that_keeps_its_output_locked_delays_no_other_job() {
    let site = Site::new();
    let manager = site.manager();
    manager.executor.start(splicing(&site, 1, "stdout"));
    wait_for("the task locks its output", || site.path("splices").exists());
    // Often enough that the shepherd surely meets the lock.
    for id in 2..12 {
        assert_eq!(manager.status(site.job(id, 1, "echo other; sleep 0.02; echo job")), 0);
        assert_eq!(site.output(id, "stdout", 0), "other\njob\n");
    }
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    assert!(site.output(1, "stdout", 0).contains("before\n"));
    manager.ack(1);
    manager.end();
}

#[test]
fn a_fifo_that_a_task_keeps_locked_delays_no_other_job() {
    let site = Site { kill: KillPolicy { kill_signal: Signal::TERM, ..IMPATIENT }, ..Site::new() };
    let manager = site.manager();
    let fifo = site.fifo("fifo");
    let reader = File::options().read(true).write(true).open(fifo).unwrap();
    let to_fifo = |label: bool| json!({"output": {"stdout": {"path": "fifo", "label": label}}});
    manager
        .executor
        .start(StartJob { shell_options: to_fifo(false), ..splicing(&site, 1, "stdout") });
    wait_for("the task locks the FIFO", || site.path("splices").exists());
    // Dropped before the reader, whose close waits for the lock: so the test ends when it fails, too.
    let _locks = Killed(pid(&site.text("splices")));
    let input = json!({"input": {"stdin": {"type": "file", "path": "fifo"}}});
    for (id, shell_options) in [(3, to_fifo(false)), (4, to_fifo(true)), (5, input)] {
        manager.executor.start(StartJob { shell_options, ..site.job(id, 2, "cat; echo $$") });
        for other in [id * 10, id * 10 + 1] {
            assert_eq!(manager.status(site.job(other, 1, "echo job")), 0, "{id}");
        }
    }
    // The last one is in a system call that only the end of the first one ends.
    for id in [3, 4, 1, 5] {
        manager.cancel(id, Signal::TERM);
        manager.to_end(id);
        manager.ack(id);
        assert_eq!(manager.status(site.job(100 + id, 1, "true")), 0, "{id}");
    }
    drop(reader);
    manager.end();
}

#[test]
fn a_task_that_keeps_its_input_locked_delays_no_other_job() {
    let site = Site::new();
    let manager = site.manager();
    manager.executor.start(splicing(&site, 1, "stdin"));
    manager.until(1, has_started);
    manager.stdin(1, None, vec![b'x'; 100], false);
    wait_for("the task locks its input", || site.path("splices").exists());
    for id in 2..12 {
        manager.stdin(1, None, vec![b'x'; 100], false);
        manager.executor.start(site.job(id, 1, "cat"));
        manager.stdin(id, None, b"typed".to_vec(), true);
        assert_eq!(status(&manager.to_end(id)), 0);
        manager.ack(id);
        assert_eq!(site.output(id, "stdout", 0), "typed");
    }
    manager.stdin(1, None, Vec::new(), true);
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    manager.ack(1);
    manager.end();
}

#[test]
fn a_pipe_that_a_process_without_its_job_keeps_locked_delays_no_job() {
    let site = Site::new();
    let manager = site.manager();
    // The process has left the job: neither its environment nor its session or group is the job's.
    let mut job = splicing(&site, 1, "stdout");
    let words: Vec<String> = job.command.iter().map(|word| format!("'{word}'")).collect();
    let escape =
        format!("setsid env -i {SPLICES}=stdout {} & echo $! >escaped; wait", words.join(" "));
    job.command = ["sh", "-c", &escape].map(str::to_owned).to_vec();
    manager.executor.start(job);
    wait_for("the process locks the output", || site.path("splices").exists());
    let escaped = Killed(pid(&site.text("escaped")));
    manager.cancel(1, Signal::TERM);
    assert_eq!(status(&manager.to_end(1)), 143 << 8);
    manager.ack(1);
    // Enough that the forker closes the files of the first.
    for id in 2..100 {
        assert_eq!(manager.status(site.job(id, 1, "echo job")), 0);
        assert_eq!(site.output(id, "stdout", 0), "job\n");
    }
    drop(escaped);
    manager.end();
}
