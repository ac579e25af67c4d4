//! A terminal that script(1) opens for a command, and the screen that a user would see.

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{ChildStdin, ChildStdout, Stdio};

use crate::{Manager, Process, clean, jobtap, run, spawn};

/// The size of the screen.
const LINES: u16 = 24;
const COLUMNS: u16 = 100;

/// A terminal of 24 lines and 100 columns.
pub struct Terminal {
    process: Process,
    keys: ChildStdin,
    output: ChildStdout,
    /// Everything that was written to the terminal.
    pub written: Vec<u8>,
    screen: vt100::Parser,
}

impl Terminal {
    /// Runs a line of sh(1) in which `$JOBTAP` is the program, as a client of a manager. Returns `None` if script(1) is
    /// missing.
    #[track_caller]
    pub fn open(m: &Manager, line: &str, environment: &[(&str, &str)]) -> Option<Self> {
        Self::open_at(m.uri(), line, environment)
    }

    /// Like [`open`](Self::open), for the manager with this address.
    #[track_caller]
    pub fn open_at(uri: &str, line: &str, environment: &[(&str, &str)]) -> Option<Self> {
        if run(clean("script".as_ref()).arg("--version")).code != 0 {
            return None;
        }
        let line = format!("stty rows {LINES} cols {COLUMNS}; {line}");
        let mut command = clean("script".as_ref());
        command.args(["-qefc", &line, "/dev/null"]);
        command.env("JOBTAP_URI", uri).env("JOBTAP", jobtap());
        command.env("SHELL", "/bin/sh").env("TERM", "xterm").envs(environment.iter().copied());
        let mut process = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (Some(keys), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            panic!("script(1) has no pipes")
        };
        let size = |size| NonZero::new(size).unwrap_or(NonZero::<u16>::MIN);
        let screen = vt100::Parser::new(size(LINES), size(COLUMNS), 0);
        Some(Self { process, keys, output, written: Vec::new(), screen })
    }

    /// Reads until the screen is as wanted, and returns the screen. The deadline of the process ends this, too.
    #[track_caller]
    pub fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let shown = self.screen.screen().contents();
            if wanted(&shown) {
                return shown;
            }
            assert!(self.read(), "the terminal was closed; it showed:\n{shown}");
        }
    }

    /// Waits for a text on the screen.
    #[track_caller]
    pub fn shows(&mut self, text: &str) -> String {
        self.until(|shown| shown.contains(text))
    }

    /// Waits until a text is written to the terminal once more, whether it is there already or not.
    #[track_caller]
    pub fn writes_again(&mut self, text: &str) {
        let from = self.written.len();
        let new = |written: &[u8]| {
            String::from_utf8_lossy(written.get(from..).unwrap_or_default()).contains(text)
        };
        while !new(&self.written) {
            assert!(
                self.read(),
                "the terminal was closed; it was written:\n{:?}",
                String::from_utf8_lossy(&self.written)
            );
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        // That a command has ended shows on the screen.
        let _ = self.keys.write_all(keys.as_bytes());
    }

    /// Reads to the end, and returns what is left on the screen, which must be the normal screen with a visible cursor.
    #[track_caller]
    pub fn end(mut self) -> String {
        while self.read() {}
        let _ = self.process.wait();
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{:?}", screen.contents());
        screen.contents()
    }

    /// Reads some of the output, and returns false at its end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = self.output.read(&mut bytes).unwrap_or(0);
        let new = bytes.get(..read).unwrap_or_default();
        self.written.extend_from_slice(new);
        self.screen.process(new);
        read > 0
    }
}
