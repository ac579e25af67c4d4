//! `jobtap top` in a terminal that script(1) opens: what a user sees of a real manager, and that the terminal is
//! restored however the command ends.

use jobtap_tests::leftovers::processes_with;
use jobtap_tests::terminal::Terminal;
use jobtap_tests::{Manager, jobtap, send, temporary, until};
use tempfile::TempDir;

/// `jobtap top` in a terminal.
struct Top {
    terminal: Terminal,
    directory: TempDir,
}

impl Top {
    /// Runs the command; `None` if script(1) is missing. The modes of the terminal before and after it are written to
    /// files, and so are its exit code and what it says.
    fn open(m: &Manager, words: &str, guest: bool) -> Option<Self> {
        let directory = temporary();
        let line = format!(
            "cd {}; stty -g > before; $JOBTAP top {words} 2> said; echo $? > code; stty -g > after",
            directory.path().display(),
        );
        let guest = match guest {
            true => &[("FLUX_HANDLE_USERID", "77"), ("FLUX_HANDLE_ROLEMASK", "0x2")][..],
            false => &[],
        };
        Terminal::open(m, &line, guest).map(|terminal| Self { terminal, directory })
    }

    /// Waits for the end; returns the exit code and what the command said. The terminal must be as it was.
    #[track_caller]
    fn end(self) -> (String, String) {
        let left = self.terminal.end();
        assert_eq!(left.trim(), "", "the screen from before is back");
        let read = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap();
        assert_eq!(read("before"), read("after"));
        (read("code").trim().to_owned(), read("said"))
    }
}

/// The process of the command itself.
fn pid_of_top(m: &Manager) -> u32 {
    let is_top = |pid: u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"top")
    };
    let of = format!("JOBTAP_URI={}", m.uri());
    processes_with(of).into_iter().find(|pid| is_top(*pid)).unwrap()
}

#[test]
fn jobs_are_seen_opened_and_filtered() {
    let m = Manager::start_with(jobtap(), "[queues.batch]\n[queues.debug]\n");
    m.jobtap("queue start --all --quiet").ok();
    let id = m.submit_args(&["--queue=debug", "--job-name=a\x1b]0;b\x07", "sleep", "600"]);
    m.wait(&id, "start");
    m.submit("--queue=batch --job-name=held-one --urgency=hold true");
    let Some(mut top) = Top::open(&m, "-d 200ms", false) else { return };
    // The name is shown with its escape character written out.
    let seen = top.terminal.shows("held-one");
    let raw = String::from_utf8_lossy(&top.terminal.written).contains("\x1b]0;");
    assert!(seen.contains("a\\u001b]0;b\\u000") && !raw, "{seen}");
    assert!(seen.contains(&id) && seen.contains("1 running") && seen.contains("PLUGIN"), "{seen}");
    assert!(seen.contains("batch") && seen.contains("allocated"), "{seen}");
    // The job that runs is the first one.
    top.terminal.press("\r");
    let seen = top.terminal.shows("validate");
    assert!(seen.contains("RUN") && seen.contains(" alloc") && seen.contains("+0."), "{seen}");
    top.terminal.press("q");
    top.terminal.shows("held-one");
    top.terminal.press("\x0c");
    top.terminal.writes_again("held-one");
    // A job that waits says why.
    top.terminal.press("j\r");
    top.terminal.shows("waits");
    // A key right after Esc would be taken for that key with Alt.
    top.terminal.press("\x1b");
    top.terminal.shows("q quit");
    top.terminal.press("/name=held-one\r");
    top.terminal
        .until(|shown| !shown.contains("a\\u001b") && shown.contains("filter name=held-one"));
    // A job that is submitted later appears without a key press.
    m.submit("--queue=batch --job-name=held-one --urgency=hold true");
    top.terminal
        .until(|shown| shown.matches(" held ").count() + shown.matches(" held\n").count() == 2);
    top.terminal.press("\x03");
    assert_eq!(top.end(), ("0".to_owned(), String::new()));
}

#[test]
fn the_terminal_is_restored_by_signals_and_when_the_manager_goes() {
    let mut m = Manager::start(jobtap());
    m.submit("--job-name=marked --urgency=hold true");
    for (signal, code) in [("TERM", "143"), ("HUP", "129"), ("INT", "130"), ("QUIT", "131")] {
        let Some(mut top) = Top::open(&m, "", false) else { return };
        top.terminal.shows("marked");
        send(signal, pid_of_top(&m));
        assert_eq!(top.end(), (code.to_owned(), String::new()));
    }
    let mut top = Top::open(&m, "-d 100ms", false).unwrap();
    top.terminal.shows("marked");
    m.kill();
    let (code, said) = top.end();
    assert_eq!(code, "1");
    let text = "jobtap-top: the connection to the manager was lost: it has ended or restarted.";
    assert!(said.starts_with(text) && said.contains("jobtap start"), "{said}");
    m.start_again();
}

#[test]
fn a_stop_restores_the_terminal_and_fg_draws_again() {
    let m = Manager::start(jobtap());
    m.submit("--job-name=marked --urgency=hold true");
    let directory = temporary();
    // A shell with job control, as a user has. It goes on when top has stopped.
    let line = format!(
        "cd {}; set -m; stty -g > before; $JOBTAP top; stty -g > stopped; echo at the shell; \
         read line; stty $(cat before); fg; echo $? > code; stty -g > after",
        directory.path().display(),
    );
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    for by in ["key", "TSTP", "STOP"] {
        let Some(mut terminal) = Terminal::open(&m, &line, &[]) else { return };
        terminal.shows("marked");
        match by {
            "key" => terminal.press("\x1a"),
            signal => send(signal, pid_of_top(&m)),
        }
        if by == "STOP" {
            // No process can catch SIGSTOP and restore the terminal first.
            until("the shell goes on", || directory.path().join("stopped").exists());
        } else {
            let shown = terminal.shows("at the shell");
            assert!(!shown.contains("marked"), "{by}: {shown}");
            assert_eq!(read("before"), read("stopped"), "{by}");
        }
        // A single newline, whatever the terminal's mode: `top` would take a second one for Enter, and open the job.
        terminal.press("\n");
        terminal.writes_again("marked");
        // Keys reach it without Enter, so the terminal is raw again.
        terminal.press("q");
        terminal.end();
        assert_eq!((read("before"), read("code").trim()), (read("after"), "0"), "{by}");
        for name in ["before", "stopped", "code", "after"] {
            std::fs::remove_file(directory.path().join(name)).unwrap();
        }
    }
}

#[test]
fn a_guest_in_private_mode_sees_no_jobs_of_others() {
    let config = "[access]\nallow-guest-user = true\nprivate-mode = true\n";
    let m = Manager::start_with(jobtap(), config);
    let id = m.submit("--job-name=secret --urgency=hold true");
    let Some(mut top) = Top::open(&m, "-d 100ms", true) else { return };
    let seen = top.terminal.shows("numbers of jobs: only shown to the owner");
    assert!(seen.contains("PLUGIN: only shown to the owner") && !seen.contains("secret"), "{seen}");
    top.terminal.press("a/name=secret\r");
    let seen = top.terminal.shows("filter name=secret");
    assert!(!seen.contains(&id), "{seen}");
    // There is no job to open either.
    top.terminal.press("\r");
    top.terminal.shows("no job is listed");
    top.terminal.press("\x1b");
    top.terminal.until(|shown| !shown.contains("name=secret"));
    top.terminal.press("q");
    assert_eq!(top.end().0, "0");
}

#[test]
fn a_pipe_is_no_screen() {
    let m = Manager::start(jobtap());
    m.jobtap("top").says(1, "jobtap-top: stdin is not a terminal");
    let refused = m.jobtap("top --interval=1ms");
    refused.says(1, "jobtap-top: --interval=1ms: use 100ms or more");
}
