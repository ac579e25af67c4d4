//! `job attach`, which `run` uses as well: prints a job's output and events until the job is inactive, and
//! returns the job's exit code.

mod input;
mod signals;
mod status_line;
pub(in crate::cli) mod terminal;

use std::time::{Duration, Instant};

use jobtap_core::eventlog::{EventEntry, decode_log};
use jobtap_core::job::Timestamp;
use jobtap_core::resource::Idset;
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedReceiver;

pub(in crate::cli) use self::signals::Interrupt;
use self::signals::{CtrlC, Reaction};
use self::status_line::StatusLine;
use self::terminal::Raw;
use super::event_stream::EventStream;
use super::output::{self, Output, show_exception};
use super::print_message;
use super::status::{Finish, exit_code_of};
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::{ENOENT, EPERM};
use crate::rpc::services::job_exec::Resize;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_manager::{Kill, Raise};

/// The key of the log with the output of a job's tasks.
const OUTPUT: &str = "guest.output";
/// The exit code after the user has detached from a running job.
const DETACHED: u8 = 0;

/// Options and arguments of `job attach`.
#[derive(Debug, clap::Args)]
pub(super) struct AttachArgs {
    /// Show the job's events
    #[arg(short = 'E', long)]
    show_events: bool,
    /// Show the events of the job's execution (guest.exec.eventlog)
    #[arg(short = 'X', long)]
    show_exec: bool,
    /// Show a status line until the job starts
    #[arg(long)]
    show_status: bool,
    /// Follow the job until this event only; its output is printed to the end
    #[arg(short = 'w', long, value_name = "NAME", default_value = "clean")]
    wait_event: String,
    /// Prefix each line of output with the task rank
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Print more messages (accepted, without effect)
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Suppress messages about redirected output
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Only watch: forward neither input nor signals; Ctrl-C doesn't cancel the job
    #[arg(short = 'r', long)]
    read_only: bool,
    /// Send standard input to these task ranks only
    #[arg(short = 'i', long, value_name = "IDS")]
    stdin_ranks: Option<String>,
    /// Accepted and ignored: output is never buffered
    #[arg(short = 'u', long)]
    unbuffered: bool,
    /// Print only the last N lines of the output so far
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    tail: Option<String>,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
}

/// How to attach to a job.
#[derive(Debug, Clone)]
pub(in crate::cli) struct AttachOptions {
    pub(in crate::cli) show_events: bool,
    pub(in crate::cli) show_exec: bool,
    pub(in crate::cli) show_status: bool,
    pub(in crate::cli) wait_event: String,
    pub(in crate::cli) output: Output,
    /// Don't forward signals.
    pub(in crate::cli) read_only: bool,
    /// Forward standard input to the tasks.
    pub(in crate::cli) input: bool,
    /// Pass each key of this terminal on to that of the job.
    pub(in crate::cli) keys: bool,
    /// The tasks that receive standard input; empty for all.
    pub(in crate::cli) stdin_ranks: Vec<u32>,
    /// Let the other tasks read end of file.
    pub(in crate::cli) close_others: bool,
    pub(in crate::cli) tail: Option<usize>,
    /// Whether the job had finished before. Then its events are shown before its output, as Flux does.
    pub(in crate::cli) finished: bool,
    pub(in crate::cli) interrupt: Interrupt,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: AttachArgs) -> Result<u8, CliError> {
    let target = Target::parse(&args.id)?;
    let tail = args.tail.as_deref().map(str::parse::<usize>).transpose();
    if args.read_only && args.stdin_ranks.is_some() {
        return Err(CliError::failure("Do not use --stdin-ranks with --read-only"));
    }
    let stdin_ranks = args.stdin_ranks.as_deref().map_or(Ok(Vec::new()), tasks)?;
    let Known { finished, input, keys } = look_up(client, &target).await;
    let (input, keys) = (input && !args.read_only, keys && !args.read_only);
    let options = AttachOptions {
        show_events: args.show_events,
        show_exec: args.show_exec,
        show_status: args.show_status,
        wait_event: args.wait_event,
        output: Output { label: args.label_io, quiet: args.quiet, job: None },
        read_only: args.read_only,
        input,
        keys,
        stdin_ranks,
        // Other clients may serve them.
        close_others: false,
        tail: tail.map_err(|_| CliError::failure("invalid tail argument"))?,
        finished,
        interrupt: Interrupt::WarnFirst,
    };
    attach(client, target, options).await
}

/// Prints the output of a job, and how it goes until it is inactive or has reached the event `options.wait_event`, and
/// returns the exit code.
pub(in crate::cli) async fn attach(
    client: &Client,
    target: Target,
    options: AttachOptions,
) -> Result<u8, CliError> {
    let skip = match options.tail {
        Some(tail) => printed_lines(client, &target).await?.saturating_sub(tail),
        None => 0,
    };
    let attached = Attached {
        main: Some(EventStream::open(client, target.id, "eventlog", false).await?),
        exec: match options.show_exec {
            true => Some(EventStream::open(client, target.id, "guest.exec.eventlog", false).await?),
            false => None,
        },
        out: Some(EventStream::open(client, target.id, OUTPUT, false).await?),
        signals: signals::catch(options.read_only)?,
        ctrl_c: CtrlC::new(options.interrupt),
        status: StatusLine::new(&target.typed, options.show_status, options.show_events),
        client: client.clone(),
        target,
        options,
        first: None,
        finish: Finish::default(),
        started: false,
        no_output: false,
        skip,
        open_streams: None,
        finished: None,
        raw: None,
    };
    attached.run().await
}

/// The task ranks that `--stdin-ranks` names. Empty for `all`.
pub(in crate::cli) fn tasks(text: &str) -> Result<Vec<u32>, CliError> {
    if text == "all" {
        return Ok(Vec::new());
    }
    let tasks = text.parse::<Idset>().ok().filter(|tasks| !tasks.is_empty());
    let tasks = tasks.ok_or_else(|| {
        CliError::failure(format!("Invalid argument for option 'stdin-ranks': '{text}'"))
    })?;
    Ok(tasks.iter().collect())
}

/// What is known of a job before its eventlog is followed.
#[derive(Default)]
struct Known {
    finished: bool,
    /// Its tasks read the input of clients. Otherwise standard input is left to other processes that share it.
    input: bool,
    /// They do so key by key, from a terminal.
    keys: bool,
}

async fn look_up(client: &Client, target: &Target) -> Known {
    let keys = ["jobspec", "eventlog"].map(str::to_owned).to_vec();
    let Ok(values) = client.call(Lookup { id: target.id, keys, flags: 0 }).await else {
        return Known::default();
    };
    let jobspec: Value = serde_json::from_str(values.get("jobspec")).unwrap_or_default();
    let finished = decode_log(values.get("eventlog"))
        .is_ok_and(|events| events.iter().any(|event| event.name == "finish"));
    let source = jobspec.pointer("/attributes/system/shell/options/input/stdin/type");
    let input = !finished && source.and_then(Value::as_str) == Some("service");
    Known { finished, input, keys: input && terminal::is_interactive(&jobspec) }
}

/// The number of lines of output that the job has printed so far.
async fn printed_lines(client: &Client, target: &Target) -> Result<usize, CliError> {
    let values = client
        .call(Lookup::key(target.id, OUTPUT))
        .await
        .map_err(|_| CliError::failure("No job output found"))?;
    let text = values.get(OUTPUT);
    // The tasks may be writing: the last line can be incomplete.
    let complete = text.rfind('\n').and_then(|end| text.get(..=end)).unwrap_or_default();
    let events = decode_log(complete).map_err(CliError::failure)?;
    Ok(events.iter().map(output::lines).sum())
}

/// A client that is attached to a job.
struct Attached {
    client: Client,
    target: Target,
    options: AttachOptions,
    main: Option<EventStream>,
    exec: Option<EventStream>,
    out: Option<EventStream>,
    signals: UnboundedReceiver<i32>,
    ctrl_c: CtrlC,
    status: StatusLine,
    /// The time of the job's first event, from which times are shown.
    first: Option<Timestamp>,
    finish: Finish,
    /// Whether the tasks were started.
    started: bool,
    /// Whether the job has no output log, as a simulated job.
    no_output: bool,
    /// How many more lines of output are skipped because of `--tail`.
    skip: usize,
    /// How many streams of tasks have not ended in the output log; `None` before its header.
    open_streams: Option<u64>,
    /// The `finish` event and when it came, while it waits for the rest of the output.
    finished: Option<(Instant, EventEntry)>,
    /// The state of this terminal while keys are passed on.
    raw: Option<Raw>,
}

/// How long `finish` waits for the rest of the output. The eventlog and the output log are two streams, and the
/// message about failed tasks belongs below their output. A task's stream may stay open in a process that the
/// task left behind.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// An input of the loop in [`Attached::run`].
enum Input {
    Main(Option<Result<EventEntry, RpcError>>),
    Exec(Option<Result<EventEntry, RpcError>>),
    Out(Option<Result<EventEntry, RpcError>>),
    Signal(i32),
    Tick,
}

/// Whether the client stays attached, or exits with a code.
enum Flow {
    Continue,
    Exit(u8),
}

impl Attached {
    async fn run(mut self) -> Result<u8, CliError> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        while self.main.is_some() || self.out.is_some() || self.exec.is_some() {
            // What a finished job printed is shown after how it ended, however the two streams arrive.
            let ended_first =
                self.options.finished && self.finish.status.is_none() && self.main.is_some();
            // Signals first: a job that prints without end must not delay Ctrl-C. The main eventlog precedes
            // the output, so that a message about the job's start comes before its output.
            let input = tokio::select! {
                biased;
                signal = self.signals.recv() => Input::Signal(signal.unwrap_or_default()),
                event = next(&mut self.main), if self.finished.is_none() => Input::Main(event),
                event = next(&mut self.exec) => Input::Exec(event),
                event = next(&mut self.out), if !ended_first => Input::Out(event),
                _ = ticks.tick() => Input::Tick,
            };
            if let Flow::Exit(code) = self.handle(input).await? {
                return Ok(code);
            }
            if !self.options.finished {
                self.say_without_output();
            }
            if let Some((since, event)) = self.finished.take() {
                if !self.output_has_ended() && since.elapsed() < OUTPUT_GRACE {
                    self.finished = Some((since, event));
                } else {
                    self.main_event(&event)?;
                }
            }
        }
        self.status.clear();
        self.say_without_output();
        Ok(self.exit_code())
    }

    /// Says once that the job has no output: when it has started, or at the end if it was over before.
    fn say_without_output(&mut self) {
        if self.started && self.no_output {
            self.no_output = false;
            self.status.clear();
            print_message("No job output found");
        }
    }

    async fn handle(&mut self, input: Input) -> Result<Flow, CliError> {
        match input {
            Input::Main(Some(Ok(event))) if event.name == "finish" && !self.options.finished => {
                self.finished = Some((Instant::now(), event));
            }
            Input::Main(Some(Ok(event))) => self.main_event(&event)?,
            Input::Main(Some(Err(error))) => return Err(self.cannot_attach(error)),
            Input::Main(None) => self.main = None,
            Input::Exec(Some(Ok(event))) => self.show("exec", &event),
            // Its end, or an error: a job that was never started has no such eventlog.
            Input::Exec(_) => self.exec = None,
            Input::Out(Some(Ok(event))) => self.output(&event)?,
            // The tasks of a simulated job print nothing, so that there is no output log.
            Input::Out(Some(Err(error))) if error.errno == ENOENT => {
                self.out = None;
                self.no_output = true;
            }
            Input::Out(Some(Err(error))) => {
                self.out = None;
                print_message(format!("output: {error}"));
            }
            Input::Out(None) => self.out = None,
            Input::Signal(signal) => return self.signal(signal).await,
            Input::Tick => self.status.tick(),
        }
        Ok(Flow::Continue)
    }

    fn main_event(&mut self, event: &EventEntry) -> Result<(), CliError> {
        self.first.get_or_insert(event.timestamp);
        self.finish.update(event);
        self.status.update(event);
        match &*event.name {
            "start" => self.started = true,
            "finish" => {
                self.raw = None;
                self.show_failure();
            }
            _ => {}
        }
        if event.name == "exception" {
            self.status.clear();
            let text = show_exception(event);
            session::print_message(&format!(
                "{}: job.exception {} {text}",
                self.time(event),
                self.target.typed
            ));
        } else if self.options.show_events {
            self.show("job", event);
        }
        // Before `start` there are no tasks, and the manager would refuse their input.
        if event.name == "start" && self.options.input {
            let ranks = std::mem::take(&mut self.options.stdin_ranks);
            if self.options.close_others && !ranks.is_empty() {
                let (client, id, ranks) = (self.client.clone(), self.target.id, ranks.clone());
                tokio::spawn(async move { input::close_others(&client, id, &ranks).await });
            }
            if self.options.keys {
                self.status.clear();
                self.raw = Raw::new();
            }
            input::forward(self.client.clone(), self.target.id, ranks)?;
        }
        if event.name == *self.options.wait_event {
            // As in Flux, the output is printed to its end all the same.
            self.main = None;
        }
        Ok(())
    }

    /// Whether no more output is to come.
    fn output_has_ended(&self) -> bool {
        self.out.is_none() || self.open_streams == Some(0)
    }

    /// Prints how the tasks have failed, if they did.
    fn show_failure(&mut self) {
        let status = self.finish.status.map(|status| status.text());
        if let Some(text) = status.filter(|text| !text.is_empty()) {
            self.status.clear();
            print_message(text);
        }
    }

    /// Counts the streams of tasks that have not ended.
    fn count_streams(&mut self, event: &EventEntry) {
        let context = event.context.as_ref();
        let field = |key: &str| context.and_then(|context| context.get(key));
        match &*event.name {
            "header" => {
                let counts = field("count").and_then(Value::as_object);
                let counts = counts.into_iter().flat_map(Map::values).filter_map(Value::as_u64);
                self.open_streams = Some(counts.sum());
            }
            // A stream that goes to a file has no further entries here.
            "redirect" => {
                let ranks = field("rank").and_then(Value::as_str);
                let ranks = ranks.and_then(|ranks| ranks.parse::<Idset>().ok());
                self.end_streams(ranks.map_or(1, |ranks| ranks.len() as u64));
            }
            "data" if field("eof") == Some(&Value::Bool(true)) => self.end_streams(1),
            _ => {}
        }
    }

    fn end_streams(&mut self, count: u64) {
        self.open_streams = self.open_streams.map(|open| open.saturating_sub(count));
    }

    fn output(&mut self, event: &EventEntry) -> Result<(), CliError> {
        self.count_streams(event);
        let lines = output::lines(event);
        // An event is skipped as a whole, even if fewer of its lines are to be skipped.
        if lines > 0 && self.skip > 0 {
            self.skip = self.skip.saturating_sub(lines);
            return Ok(());
        }
        self.status.clear();
        if event.name == "log" {
            // With its time, as an exception, since it tells when something happened.
            if let Some(line) = output::shell_line(event) {
                session::print_message(&format!("{}: {line}", self.time(event)));
            }
            return Ok(());
        }
        self.options.output.show(event)?;
        Ok(())
    }

    fn show(&mut self, prefix: &str, event: &EventEntry) {
        self.status.clear();
        let context =
            event.context.as_ref().map(|context| format!(" {}", Value::from(context.clone())));
        let context = context.unwrap_or_default();
        session::print_message(&format!("{}: {prefix}.{}{context}", self.time(event), event.name));
    }

    /// Seconds since the job's first event.
    fn time(&self, event: &EventEntry) -> String {
        let first = self.first.unwrap_or(event.timestamp);
        format!("{:.3}s", event.timestamp.as_secs() - first.as_secs())
    }

    async fn signal(&mut self, signal: i32) -> Result<Flow, CliError> {
        self.status.clear();
        match self.ctrl_c.react(signal, Instant::now()) {
            Reaction::Resize => self.resize().await,
            Reaction::Warn => {
                print_message("one more ctrl-C within 2s to cancel or ctrl-Z to detach");
            }
            Reaction::Cancel => {
                if self.options.interrupt == Interrupt::CancelFirst {
                    print_message("canceling the job; one more ctrl-C within 2s to detach");
                }
                self.cancel().await;
            }
            Reaction::Detach => {
                print_message("detaching...");
                return Ok(Flow::Exit(DETACHED));
            }
            Reaction::Suspend => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::STOP)
                    .map_err(|error| CliError::failure(error.to_string()))?;
            }
            Reaction::Forward(signal) => {
                let request = Kill { id: self.target.id, signum: signal.into() };
                if let Err(error) = self.client.call(request).await {
                    print_message(format!("kill {}: {error}", self.target.typed));
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// Gives the job's terminals the size of this one, if keys are passed on to them.
    async fn resize(&self) {
        if let (Some(_), Some((rows, columns))) = (&self.raw, terminal::size()) {
            // Refused: the job has ended.
            let _ = self.client.call(Resize { id: self.target.id, rows, columns }).await;
        }
    }

    async fn cancel(&self) {
        let request = Raise::cancel(self.target.id, "interrupted by ctrl-C");
        if let Err(error) = self.client.call(request).await {
            print_message(format!("cancel {}: {error}", self.target.typed));
        }
    }

    fn cannot_attach(&self, error: RpcError) -> CliError {
        let reason = match error.errno {
            ENOENT => "No such job".to_owned(),
            EPERM => "that is not your job".to_owned(),
            _ => error.to_string(),
        };
        CliError::failure(format!("Failed to attach to {}: {reason}", self.target.typed))
    }

    fn exit_code(&self) -> u8 {
        exit_code_of(&self.finish, 1)
    }
}

/// The next event of a log. Never resolves after the end of the log, so that `select!` ignores it.
async fn next(stream: &mut Option<EventStream>) -> Option<Result<EventEntry, RpcError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
