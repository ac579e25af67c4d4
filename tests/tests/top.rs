//! `jobtap top` in a terminal, as script(1) makes it: what a person sees of a real manager, and that the terminal is
//! as before on every way out.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{ChildStdin, ChildStdout, Stdio};

use jobtap_tests::leftovers::processes_with;
use jobtap_tests::{Manager, Process, clean, jobtap, run, send, spawn, temporary};
use tempfile::TempDir;

/// A screen of 24 lines and 100 columns.
fn screen() -> vt100::Parser {
    let size = |size| NonZero::new(size).unwrap();
    vt100::Parser::new(size(24), size(100), 0)
}

/// `jobtap top` in a terminal of 24 lines and 100 columns.
struct Terminal {
    process: Process,
    keys: ChildStdin,
    output: ChildStdout,
    /// All that was written to the terminal, and the screen that this makes.
    written: Vec<u8>,
    screen: vt100::Parser,
    uri: String,
    directory: TempDir,
}

impl Terminal {
    /// Runs the command; `None` if script(1) is missing. The modes of the terminal are written to files before and
    /// after it, and its exit code.
    fn open(m: &Manager, words: &str, guest: bool) -> Option<Self> {
        if run(clean("script".as_ref()).arg("--version")).code != 0 {
            return None;
        }
        let directory = temporary();
        let line = format!(
            "cd {}; stty rows 24 cols 100; stty -g > before; {} top {words} 2> said; echo $? > code; \
             stty -g > after",
            directory.path().display(),
            jobtap().display()
        );
        let environment = m.command([""; 0]);
        let uri = environment.get_envs().find(|(name, _)| *name == "JOBTAP_URI");
        let uri = uri.and_then(|(_, value)| value).unwrap().to_str().unwrap().to_owned();
        let mut command = clean("script".as_ref());
        command.args(["-qefc", &line, "/dev/null"]).env("JOBTAP_URI", &uri);
        command.env("SHELL", "/bin/sh").env("TERM", "xterm");
        if guest {
            command.env("FLUX_HANDLE_USERID", "77").env("FLUX_HANDLE_ROLEMASK", "0x2");
        }
        let mut process = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (keys, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let screen = screen();
        Some(Self { process, keys, output, written: Vec::new(), screen, uri, directory })
    }

    /// Reads until this is true of the screen, and returns the screen.
    #[track_caller]
    fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let mut bytes = [0; 4096];
        loop {
            let shown = self.screen.screen().contents();
            if wanted(&shown) {
                return shown;
            }
            let read = self.output.read(&mut bytes).unwrap();
            assert!(read > 0, "the terminal was closed; it showed:\n{shown}");
            self.written.extend_from_slice(&bytes[..read]);
            self.screen.process(&bytes[..read]);
        }
    }

    /// Waits for a text on the screen.
    #[track_caller]
    fn shows(&mut self, text: &str) -> String {
        self.until(|shown| shown.contains(text))
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The process of the command itself.
    fn pid(&self) -> u32 {
        let is_top = |pid: u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"top")
        };
        let of = format!("JOBTAP_URI={}", self.uri);
        processes_with(of).into_iter().find(|pid| is_top(*pid)).unwrap()
    }

    /// Waits for the end; returns the exit code and what the command said. The terminal must be as it was.
    #[track_caller]
    fn end(mut self) -> (String, String) {
        self.output.read_to_end(&mut self.written).unwrap();
        // The whole of it again: the last part was not shown yet.
        let mut screen = screen();
        screen.process(&self.written);
        let screen = screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{:?}", screen.contents());
        self.process.wait().unwrap();
        let read = |name: &str| std::fs::read_to_string(self.directory.path().join(name)).unwrap();
        assert_eq!(read("before"), read("after"));
        (read("code").trim().to_owned(), read("said"))
    }
}

#[test]
fn jobs_are_seen_opened_and_filtered() {
    let m = Manager::start_with(jobtap(), "[queues.batch]\n[queues.debug]\n");
    m.jobtap("queue start --all --quiet").ok();
    let id = m.submit_args(&["--queue=debug", "--job-name=a\x1b]0;b\x07", "sleep", "600"]);
    m.wait(&id, "start");
    m.submit("--queue=batch --job-name=held-one --urgency=hold true");
    let Some(mut top) = Terminal::open(&m, "-d 200ms", false) else { return };
    // The name is shown with its escape character written out.
    let seen = top.shows("held-one");
    let raw = String::from_utf8_lossy(&top.written).contains("\x1b]0;");
    assert!(seen.contains("a\\u001b]0;b\\u000") && !raw, "{seen}");
    assert!(seen.contains(&id) && seen.contains("1 running") && seen.contains("PLUGIN"), "{seen}");
    assert!(seen.contains("batch") && seen.contains("allocated"), "{seen}");
    // The job that runs is the first one.
    top.press("\r");
    let seen = top.shows("validate");
    assert!(seen.contains("RUN") && seen.contains(" alloc") && seen.contains("+0."), "{seen}");
    top.press("q");
    top.shows("held-one");
    // A job that waits says why.
    top.press("j\r");
    top.shows("waits");
    // A key right after Esc would be one key with Alt.
    top.press("\x1b");
    top.shows("q quit");
    top.press("/name=held-one\r");
    top.until(|shown| !shown.contains("a\\u001b") && shown.contains("filter name=held-one"));
    // A job that comes later is seen without a key.
    m.submit("--queue=batch --job-name=held-one --urgency=hold true");
    top.until(|shown| shown.matches(" held ").count() + shown.matches(" held\n").count() == 2);
    top.press("\x03");
    assert_eq!(top.end(), ("0".to_owned(), String::new()));
}

#[test]
fn the_terminal_is_restored_by_signals_and_when_the_manager_goes() {
    let mut m = Manager::start(jobtap());
    m.submit("--job-name=marked --urgency=hold true");
    for (signal, code) in [("TERM", "143"), ("HUP", "129"), ("INT", "130")] {
        let Some(mut top) = Terminal::open(&m, "", false) else { return };
        top.shows("marked");
        send(signal, top.pid());
        assert_eq!(top.end(), (code.to_owned(), String::new()));
    }
    let mut top = Terminal::open(&m, "-d 100ms", false).unwrap();
    top.shows("marked");
    m.kill();
    let (code, said) = top.end();
    assert_eq!(code, "1");
    let text = "jobtap-top: the connection to the manager was lost: it has ended or restarted.";
    assert!(said.starts_with(text) && said.contains("jobtap start"), "{said}");
    m.start_again();
}

#[test]
fn a_guest_in_private_mode_sees_no_jobs_of_others() {
    let config = "[access]\nallow-guest-user = true\nprivate-mode = true\n";
    let m = Manager::start_with(jobtap(), config);
    let id = m.submit("--job-name=secret --urgency=hold true");
    let Some(mut top) = Terminal::open(&m, "-d 100ms", true) else { return };
    let seen = top.shows("numbers of jobs: only shown to the owner");
    assert!(seen.contains("PLUGIN: only shown to the owner") && !seen.contains("secret"), "{seen}");
    top.press("a/name=secret\r");
    let seen = top.shows("filter name=secret");
    assert!(!seen.contains(&id), "{seen}");
    // Nor is there one to open.
    top.press("\r");
    top.shows("no job is listed");
    top.press("\x1b");
    top.until(|shown| !shown.contains("name=secret"));
    top.press("q");
    assert_eq!(top.end().0, "0");
}

#[test]
fn a_pipe_is_no_screen() {
    let m = Manager::start(jobtap());
    m.jobtap("top").says(1, "jobtap-top: stdin is not a terminal");
    let refused = m.jobtap("top --interval=1ms");
    refused.says(1, "jobtap-top: --interval=1ms: use 100ms or more");
}
