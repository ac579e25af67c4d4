//! `top`: a live view of the manager on the whole screen: its jobs, queues, nodes and plugins.

mod draw;
mod fetch;
mod filter;
mod lines;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::Event;
use crossterm::style::force_color_output;
use jiff::tz::TimeZone;
use jobtap_core::job::Fsd;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::screen::Screen;
use self::view::{After, View};
use crate::cli::common::ids::IdStyle;
use crate::cli::common::message::CliError;
use crate::cli::common::usage::Family;
use crate::cli::common::{session, when};
use crate::cli::instance::uri::connect_to;
use crate::cli::jobs::options::Color;
use crate::cli::jobs::row::DisplayContext;
use crate::client::{Client, RpcError};
use crate::users::Users;

const COMMAND: &str = "top";

/// The shortest time between two rounds of requests.
const SHORTEST: Duration = Duration::from_millis(100);

/// Options and arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
q quits, ? shows all keys, / filters. The terminal must be one: for a pipe there are jobs, queue list,
resource status and plugin stats.

Examples:
  jobtap top
  jobtap top -q debug --interval 5s
  jobtap top ƒ2oLkTLb")]
pub(crate) struct TopArgs {
    /// Show the jobs of this queue
    #[arg(short = 'q', long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Time between two looks at the manager
    #[arg(short = 'd', long, value_name = "FSD", default_value = "2s")]
    interval: String,
    /// List at most this many jobs
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1000)]
    count: u16,
    /// Use colors; "auto" does unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "always", require_equals = true)]
    color: Option<Color>,
    /// Another manager, such as that of a job: a target of uri
    #[arg(value_name = "TARGET")]
    target: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: TopArgs) -> ExitCode {
    session::run(COMMAND, Family::Compiled, top(args))
}

async fn top(args: TopArgs) -> Result<u8, CliError> {
    let interval = args.interval.parse::<Fsd>().ok().and_then(Fsd::to_duration);
    let interval = interval.filter(|interval| *interval >= SHORTEST).ok_or_else(|| {
        CliError::failure(format!("--interval={}: use 100ms or more", args.interval))
    })?;
    for (name, is_terminal) in
        [("stdin", io::stdin().is_terminal()), ("stdout", io::stdout().is_terminal())]
    {
        if !is_terminal {
            return Err(CliError::failure(format!("{name} is not a terminal")));
        }
    }
    match args.color {
        // Without the option the library checks NO_COLOR.
        None | Some(Color::Auto) => {}
        Some(color) => force_color_output(color == Color::Always),
    }
    let client = match &args.target {
        None => Client::connect().await?,
        Some(target) => connect_to(target).await?,
    };
    let mut display = DisplayContext {
        now: when::now(),
        zone: TimeZone::system(),
        ids: IdStyle::current(),
        users: Users::system(),
    };
    let mut view = View::new(usize::from(args.count).max(1), args.queue, Users::system());
    let (ask, wanted) = watch::channel(view.wanted());
    // One at a time: the screen takes each snapshot before the next round of requests.
    let (answers, mut snapshots) = mpsc::channel(1);
    let asking = fetch::poll(&client, &mut display, interval, wanted, answers);
    tokio::pin!(asking);
    let mut signals = Signals::new()?;
    let mut stopped = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut keys = screen::keys()?;
    let mut screen = Screen::open()?;
    // Redraws, to show how old the responses of a silent manager are.
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    loop {
        screen.terminal.draw(|frame| draw::draw(frame, &mut view, when::now()))?;
        let want = view.wanted();
        ask.send_if_modified(|last| {
            let changed = *last != want;
            *last = want;
            changed
        });
        tokio::select! {
            lost = &mut asking => return Err(gone(&lost)),
            Some(snapshot) = snapshots.recv() => view.take(snapshot),
            code = signals.next() => return Ok(code),
            _ = stopped.recv() => screen.suspend()?,
            _ = continued.recv() => screen.resume()?,
            _ = clock.tick() => {}
            key = keys.recv() => match key {
                Some(Event::Key(key)) => match view.press(key) {
                    After::GoOn => {}
                    After::Repaint => screen.repaint()?,
                    After::Suspend => screen.suspend()?,
                    After::Quit => return Ok(0),
                },
                Some(_) => {}
                None => return Err(CliError::failure("the terminal can't be read any more")),
            },
        }
    }
}

/// The error when the connection to the manager is lost.
fn gone(lost: &RpcError) -> CliError {
    CliError::failure(format!(
        "{lost}: it has ended or restarted. Run top again when it is back; its standard error says why it ended, \
         and `jobtap start` starts one"
    ))
}

/// The signals that end the command, each with its usual exit code.
struct Signals([(u8, tokio::signal::unix::Signal); 4]);

impl Signals {
    fn new() -> io::Result<Self> {
        let on = |kind: SignalKind| -> io::Result<_> {
            Ok((128 + u8::try_from(kind.as_raw_value()).unwrap_or(0), signal(kind)?))
        };
        Ok(Self([
            on(SignalKind::hangup())?,
            on(SignalKind::interrupt())?,
            on(SignalKind::quit())?,
            on(SignalKind::terminate())?,
        ]))
    }

    /// Waits for a signal, and returns the exit code.
    async fn next(&mut self) -> u8 {
        let [(a, hangup), (b, interrupt), (c, quit), (d, terminate)] = &mut self.0;
        tokio::select! {
            _ = hangup.recv() => *a,
            _ = interrupt.recv() => *b,
            _ = quit.recv() => *c,
            _ = terminate.recv() => *d,
        }
    }
}
