//! The terminal: its full screen and raw mode, which end however the command ends.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::process::{Signal, kill_current_process_group};
use tokio::sync::mpsc;

/// The maximum number of keys that wait to be handled, so that a key that is held down doesn't run ahead of the screen.
const KEYS: usize = 16;

/// Whether the terminal must be restored. A panic restores it before its message is printed; it isn't restored again
/// then.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The full screen. Dropping it restores the terminal.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                next(panic);
            }));
        });
        TAKEN.store(true, Ordering::SeqCst);
        // From here on, dropping `screen` restores the terminal, whatever fails.
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(stdout()))? };
        take()?;
        Ok(screen)
    }

    /// Stops the command with the terminal as it was before, as Ctrl-Z does to other programs. Returns when it is
    /// continued and has the terminal again.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        restore();
        // Stops all processes of the shell's job, as the key does. SIGTSTP has a handler here. SIGSTOP would also stop
        // a job that no shell can continue, such as the only program of a terminal; SIGTTIN doesn't.
        kill_current_process_group(Signal::TTIN)?;
        self.resume()
    }

    /// Takes the terminal again after a stop: its modes may be those of a shell, and others have written to it.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        TAKEN.store(true, Ordering::SeqCst);
        // Otherwise the library would think that the modes are set already.
        disable_raw_mode()?;
        take()?;
        self.repaint()
    }

    /// Makes the next drawing write the whole screen.
    ///
    /// The library's own function requests the position of the cursor from the terminal, and the response would have to
    /// come through the thread that reads keys.
    pub(super) fn repaint(&mut self) -> io::Result<()> {
        execute!(stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide)
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // There is no other way to restore a terminal that refuses this.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}

/// The keys and changes of size, read by a thread of their own: reading from a terminal can't be interrupted.
/// The channel closes when the terminal can't be read any more.
pub(super) fn keys() -> io::Result<mpsc::Receiver<Event>> {
    let (sender, receiver) = mpsc::channel(KEYS);
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "cli::top::screen::tests::panics_on_the_full_screen";

    /// Runs in the terminal of the next test.
    #[test]
    #[ignore = "it panics: the next test runs it"]
    fn panics_on_the_full_screen() {
        let _screen = Screen::open().unwrap();
        panic!("as the test wants");
    }

    #[test]
    fn a_panic_restores_the_terminal_before_it_is_reported() {
        let exe = std::env::current_exe().unwrap();
        let line =
            format!("stty -g; {} --exact --ignored --nocapture {CHILD}; stty -g", exe.display());
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").env("TERM", "xterm");
        // Without script(1) there is no terminal to try this on.
        let Ok(output) = script.stdin(std::process::Stdio::null()).output() else { return };
        let seen = String::from_utf8_lossy(&output.stdout);
        let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("{text:?}: {seen}"));
        assert!(at("\x1b[?1049h") < at("\x1b[?1049l"));
        assert!(at("\x1b[?1049l") < at("as the test wants"), "{seen}");
        assert_eq!(seen.matches("\x1b[?1049l").count(), 1, "{seen}");
        let modes = |line: Option<&str>| line.unwrap_or_default().trim().to_owned();
        assert_eq!(modes(seen.lines().next()), modes(seen.lines().last()), "{seen}");
    }
}
