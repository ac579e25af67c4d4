//! `--progress`: Flux's bar on the last line of the terminal, which shows how many of a command's jobs are pending,
//! running and done.
//!
//! The output of the jobs, even unfinished lines, scrolls above the bar. So the line is reserved on the terminal
//! itself, instead of being cleared and redrawn for each output, as [`work`](super::work) does for the messages of
//! commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::eventlog::{Event, EventEntry};
use jobtap_core::job::JobId;
use tokio::task::JoinHandle;

use crate::cli::common::ids::IdStyle;
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;

/// The interval at which the bar is redrawn, so that its clock runs.
const REDRAW: Duration = Duration::from_millis(250);

/// The exit code of a process that SIGINT has ended.
const INTERRUPTED: i32 = 128 + 2;

/// The options of commands that can show a bar.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ProgressArgs {
    /// Show a progress bar on the terminal
    #[arg(long)]
    pub(crate) progress: bool,
    /// With --progress, show jobs per second instead of the elapsed time
    #[arg(long)]
    pub(crate) jps: bool,
}

impl ProgressArgs {
    /// Starts the bar, if the options ask for one and standard output is a terminal. `total` is the number of
    /// jobs, `kind` what the command does with them.
    pub(in crate::cli) fn start(&self, command: &str, kind: Kind, total: usize) -> Option<Bar> {
        if !self.progress {
            return None;
        }
        if !io::stdout().is_terminal() {
            let text = "stdout is not a tty. Ignoring --progress option";
            session::print_message(&Prog::current().warning(command, text));
            return None;
        }
        Some(Bar::start(Progress::new(kind, total, self.jps)))
    }
}

/// What a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Kind {
    /// Jobs are only submitted.
    Submit,
    /// The command waits for jobs.
    Wait,
}

/// The state of a job as the bar counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pending,
    Running,
    Complete,
    Failed,
}

/// What the bar shows. Clones share it.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    kind: Kind,
    total: usize,
    jps: bool,
    style: IdStyle,
    started: Instant,
    /// The jobs for which the command waits.
    jobs: BTreeMap<JobId, Stage>,
    /// The number of jobs that the command has finished with.
    done: usize,
}

impl Progress {
    fn new(kind: Kind, total: usize, jps: bool) -> Self {
        let (style, started) = (IdStyle::current(), Instant::now());
        let jobs = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { kind, total, jps, style, started, jobs, done: 0 })))
    }

    /// Adds a job for which the command waits.
    pub(in crate::cli) fn add(&self, id: JobId) {
        self.lock().jobs.insert(id, Stage::Pending);
    }

    /// Takes an event of a job into account.
    pub(in crate::cli) fn update(&self, id: JobId, event: &EventEntry) {
        if let Some(stage) = self.lock().jobs.get_mut(&id) {
            *stage = next_stage(*stage, event);
        }
    }

    /// Counts a job that the command has finished with: it is submitted, or no more events are awaited.
    pub(in crate::cli) fn done(&self) {
        self.lock().done += 1;
    }

    /// Removes a job from the total: its submission was refused.
    pub(in crate::cli) fn refused(&self) {
        let mut state = self.lock();
        state.total = state.total.saturating_sub(1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stage after an event.
fn next_stage(stage: Stage, event: &EventEntry) -> Stage {
    match (stage, event.event()) {
        (Stage::Pending, Ok(Event::Alloc(_))) => Stage::Running,
        // A running job still has a `finish` event after an exception.
        (Stage::Pending, Ok(Event::Exception(raised))) if raised.is_fatal() => Stage::Failed,
        (Stage::Pending | Stage::Running, Ok(Event::Finish { status: 0 })) => Stage::Complete,
        (Stage::Pending | Stage::Running, Ok(Event::Finish { .. })) => Stage::Failed,
        _ => stage,
    }
}

impl State {
    /// The line of the bar, `width` columns wide, `elapsed` after the start.
    fn line(&self, width: usize, elapsed: Duration) -> String {
        let share = if self.total == 0 { 0.0 } else { self.done as f64 / self.total as f64 };
        let count = |wanted| self.jobs.values().filter(|stage| **stage == wanted).count();
        let before = match self.kind {
            Kind::Submit => format!("Submitting {} jobs: ", self.total),
            Kind::Wait => format!(
                "PD:{:<3} R:{:<3} CD:{:<3} F:{:<3} ",
                count(Stage::Pending),
                count(Stage::Running),
                count(Stage::Complete),
                count(Stage::Failed)
            ),
        };
        let mut after = format!(" {:5.1}% ", share * 100.0);
        // Writing to a string can't fail.
        let _ = if self.jps {
            let seconds = elapsed.as_secs_f64().max(0.001);
            write!(after, "{:4.1} job/s", self.done as f64 / seconds)
        } else {
            let seconds = elapsed.as_secs();
            write!(after, "{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        };
        let length = width.saturating_sub(before.len() + after.len() + 2);
        format!("{before}{}{after}", bar(length, share, self.style))
    }
}

/// The bar itself with `length` cells, of which `share` are filled.
fn bar(length: usize, share: f64, style: IdStyle) -> String {
    /// Cells that are filled by zero to eight eighths.
    const CELLS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let eighths = (length as f64 * 8.0 * share.clamp(0.0, 1.0)) as usize;
    let cell = |index: usize| {
        let filled = eighths.saturating_sub(index * 8).min(8);
        match style {
            IdStyle::Unicode => CELLS.get(filled).copied().unwrap_or(' '),
            IdStyle::Ascii => {
                if filled == 8 {
                    '#'
                } else {
                    ' '
                }
            }
        }
    };
    let edge = if style == IdStyle::Unicode { '│' } else { '|' };
    let cells: String = (0..length).map(cell).collect();
    format!("{edge}{cells}{edge}")
}

/// The drawn bar. Dropping it leaves its last state on the terminal and frees the last line.
pub(in crate::cli) struct Bar {
    pub(in crate::cli) progress: Progress,
    screen: Arc<Mutex<Screen>>,
    tasks: [JoinHandle<()>; 2],
}

impl Bar {
    fn start(progress: Progress) -> Self {
        let screen = Arc::new(Mutex::new(Screen { progress: progress.clone(), size: None }));
        let (drawn, interrupted) = (Arc::clone(&screen), Arc::clone(&screen));
        let draw = tokio::spawn(async move {
            loop {
                lock(&drawn).draw();
                tokio::time::sleep(REDRAW).await;
            }
        });
        // Without this, Ctrl-C would leave a terminal whose last line doesn't scroll.
        let interrupt = tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                lock(&interrupted).reset();
                std::process::exit(INTERRUPTED);
            }
        });
        Self { progress, screen, tasks: [draw, interrupt] }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        lock(&self.screen).reset();
    }
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The terminal, whose last line is reserved for the bar.
struct Screen {
    progress: Progress,
    /// Lines and columns for which the scroll region is set.
    size: Option<(u16, u16)>,
}

impl Screen {
    /// Draws the bar; sets the scroll region first if the size of the terminal has changed.
    fn draw(&mut self) {
        let Some((lines, columns)) = terminal_size() else { return };
        let mut text = String::new();
        if self.size != Some((lines, columns)) {
            self.size = Some((lines, columns));
            // Resetting the scroll region moves the cursor, which is therefore saved and restored. Moving down
            // and up makes room if the cursor is on the last line.
            let region = lines.saturating_sub(1).max(1);
            text.push_str(&format!("\x1b7\x1b[r\x1b8\x1bD\x1bM\x1b7\x1b[1;{region}r\x1b8"));
        }
        let line = self.line(columns);
        // Without wrapping, a line that is too long doesn't scroll the terminal.
        text.push_str(&format!("\x1b7\x1b[{lines};1H\x1b[2K\x1b[?7l\x1b[0m{line}\x1b[?7h\x1b8"));
        print(&text);
    }

    /// Ends the scroll region and leaves the last state of the bar as a line of output.
    fn reset(&mut self) {
        if let Some((lines, columns)) = self.size.take() {
            let line = self.line(columns);
            print(&format!("\x1b7\x1b[{lines};1H\x1b[K\x1b[r\x1b8{line}\n"));
        }
    }

    fn line(&self, columns: u16) -> String {
        let state = self.progress.lock();
        state.line(columns.into(), state.started.elapsed())
    }
}

/// Lines and columns of the terminal. `None` if they are unknown, or too few for a bar.
fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 1 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Prints to the terminal. An error is ignored: the bar is not part of the command's output.
fn print(text: &str) {
    let _: Result<(), CliError> = session::print_painted(text);
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn event(name: &'static str, context: Value) -> EventEntry {
        EventEntry::new(Timestamp::from_secs(1.0), name, context.as_object().cloned())
    }

    fn line(progress: &Progress, style: IdStyle, seconds: u64) -> String {
        let mut state = progress.lock();
        state.style = style;
        state.line(60, Duration::from_secs(seconds))
    }

    #[test]
    fn the_bar_counts_jobs_by_their_stage() {
        let progress = Progress::new(Kind::Wait, 4, false);
        let ids = [1, 2, 3, 4].map(JobId::new);
        for id in ids {
            progress.add(id);
        }
        for (id, name, context) in [
            (1, "alloc", json!({})),
            (2, "alloc", json!({})),
            (2, "exception", json!({"type": "x", "severity": 0})),
            (2, "finish", json!({"status": 15})),
            (3, "exception", json!({"type": "x", "severity": 1})),
            (4, "exception", json!({"type": "x", "severity": 0})),
        ] {
            progress.update(JobId::new(id), &event(name, context));
        }
        progress.done();
        let wanted = "PD:1   R:1   CD:0   F:2   |####             |  25.0% 1:01:05";
        assert_eq!(line(&progress, IdStyle::Ascii, 3665), wanted);
        progress.update(JobId::new(1), &event("finish", json!({"status": 0})));
        assert!(line(&progress, IdStyle::Ascii, 0).starts_with("PD:1   R:0   CD:1   F:2   "));
    }

    #[test]
    fn the_bar_of_a_submission_shows_the_throughput() {
        let progress = Progress::new(Kind::Submit, 8, true);
        (0..4).for_each(|_| progress.done());
        let wanted = "Submitting 8 jobs: |##########           |  50.0%  2.0 job/s";
        assert_eq!(line(&progress, IdStyle::Ascii, 2), wanted);
    }

    #[test]
    fn cells_are_filled_by_eighths_where_the_locale_has_them() {
        assert_eq!(bar(2, 0.3125, IdStyle::Unicode), "│▋ │");
        assert_eq!(bar(2, 2.0, IdStyle::Unicode), "│██│");
        assert_eq!(bar(0, 0.5, IdStyle::Ascii), "||");
    }
}
