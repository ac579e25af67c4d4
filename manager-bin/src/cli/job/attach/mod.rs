//! `job attach`, which `run` uses as well: prints a job's output and events until the job is inactive, and
//! returns the job's exit code.

mod input;
mod signals;
mod status_line;
mod tail;
pub(in crate::cli) mod terminal;

use std::time::{Duration, Instant};

use jobtap_core::eventlog::{EventEntry, Name, decode_log};
use jobtap_core::job::Timestamp;
use jobtap_core::resource::Idset;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

pub(in crate::cli) use self::signals::Interrupt;
use self::signals::{CtrlC, Reaction};
use self::status_line::{Queue, StatusLine};
use self::tail::Tail;
use self::terminal::Raw;
use super::event_stream::EventStream;
use super::output::{Meaning, Output, OutputEvent, OutputStream, Piece, Pieces, show_exception};
use super::several::print_message;
use super::status::{Finish, exit_code_of};
use crate::cli::common::arrays;
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::{ENOENT, EPERM};
use crate::rpc::service::Service;
use crate::rpc::services::job_exec::Resize;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_manager::{Kill, Raise};

/// The exit code after the user has detached from a running job.
const DETACHED: u8 = 0;
/// How long the manager may take to pass a signal on. A user who ends this command doesn't wait longer than that.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// Pass each key of this terminal on to the job's terminal.
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
    let target = arrays::target(&args.id, client).await?;
    arrays::no_array(&target, client).await?;
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
        close_others: true,
        tail: tail.map_err(|_| CliError::failure("invalid tail argument"))?,
        finished,
        interrupt: Interrupt::WarnFirst,
    };
    attach(client, target, options).await
}

/// Prints the output and the progress of a job until it is inactive or has reached the event `options.wait_event`, and
/// returns the exit code.
pub(in crate::cli) async fn attach(
    client: &Client,
    target: Target,
    options: AttachOptions,
) -> Result<u8, CliError> {
    let attached = Attached {
        main: Some(EventStream::open(client, target.id, "eventlog", false).await?),
        exec: match options.show_exec {
            true => Some(EventStream::open(client, target.id, "guest.exec.eventlog", false).await?),
            false => None,
        },
        out: match options.finished {
            // The events are shown first. Nobody would read the output meanwhile, so it isn't requested yet.
            true => Out::Later,
            false => Out::Open(open_output(client, &target, &options).await?),
        },
        signals: signals::catch(options.read_only)?,
        ctrl_c: CtrlC::new(options.interrupt),
        status: StatusLine::new(&target.typed, options.show_status, options.show_events),
        queue: Queue::default(),
        client: client.clone(),
        tail: options.tail.map(Tail::new),
        target,
        options,
        first: None,
        finish: Finish::default(),
        started: false,
        no_output: false,
        writing: None,
        control: None,
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

/// What is known about a job before its eventlog is watched.
#[derive(Default)]
struct Known {
    finished: bool,
    /// Whether its tasks read the input of clients. If not, standard input is left to other processes that share it.
    input: bool,
    /// Whether they read it key by key, from a terminal.
    keys: bool,
}

async fn look_up(client: &Client, target: &Target) -> Known {
    let keys = ["jobspec", "eventlog"].map(str::to_owned).to_vec();
    let Ok(values) = client.call(Lookup { id: target.id, keys, flags: 0 }).await else {
        return Known::default();
    };
    let jobspec: Value = serde_json::from_str(values.get("jobspec")).unwrap_or_default();
    let finished = decode_log(values.get("eventlog"))
        .is_ok_and(|events| events.iter().any(|event| event.name == Name::Finish));
    let source = jobspec.pointer("/attributes/system/shell/options/input/stdin/type");
    let pty = jobspec.pointer("/attributes/system/shell/options/pty");
    // Tasks without another source read the input of clients, except those that have a terminal.
    let takes = source.map_or(pty.is_none(), |source| source == "service");
    let input = !finished && takes;
    Known { finished, input, keys: input && terminal::is_interactive(&jobspec) }
}

async fn open_output(
    client: &Client,
    target: &Target,
    options: &AttachOptions,
) -> Result<OutputStream, RpcError> {
    OutputStream::open(client, target.id, options.tail.is_some()).await
}

/// A client that is attached to a job.
struct Attached {
    client: Client,
    target: Target,
    options: AttachOptions,
    main: Option<EventStream>,
    exec: Option<EventStream>,
    out: Out,
    /// The thread that is writing output. Nothing else is shown meanwhile.
    writing: Option<JoinHandle<Result<(), CliError>>>,
    /// Another connection for requests while the output is shown, since the first one is full of output.
    control: Option<Client>,
    signals: UnboundedReceiver<i32>,
    ctrl_c: CtrlC,
    status: StatusLine,
    queue: Queue,
    /// The time of the job's first event, from which times are shown.
    first: Option<Timestamp>,
    finish: Finish,
    /// Whether the tasks were started.
    started: bool,
    /// Whether the job has no output log. A simulated job has none.
    no_output: bool,
    /// The last lines of the output so far, until all of it has been read; `None` without `--tail`.
    tail: Option<Tail>,
    /// The number of streams of tasks that have not ended in the output log; `None` before its header.
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

/// The output log of the job.
enum Out {
    /// The log is opened once the job's `finish` event or the end of its eventlog has been read.
    Later,
    Open(OutputStream),
    Ended,
}

/// An input of the loop in [`Attached::run`].
enum Input {
    Main(Option<Result<EventEntry, RpcError>>),
    Exec(Option<Result<EventEntry, RpcError>>),
    Out(Result<Piece, RpcError>),
    Written(Result<(), CliError>),
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
        while !self.is_over() {
            if matches!(self.out, Out::Later)
                && (self.finish.status.is_some() || self.main.is_none())
            {
                self.out = Out::Open(open_output(&self.client, &self.target, &self.options).await?);
            }
            let busy = self.writing.is_some();
            // Signals first: a job that prints without end, or output that nobody reads, must not delay Ctrl-C. The
            // main eventlog precedes the output, so that a message about the job's start comes before its output.
            let input = tokio::select! {
                biased;
                signal = self.signals.recv() => Input::Signal(signal.unwrap_or_default()),
                written = written(&mut self.writing), if busy => Input::Written(written),
                event = next(&mut self.main), if !busy && self.finished.is_none() => {
                    Input::Main(event)
                }
                event = next(&mut self.exec), if !busy => Input::Exec(event),
                piece = self.out.next(), if !busy => Input::Out(piece),
                _ = ticks.tick(), if !busy => Input::Tick,
            };
            if let Flow::Exit(code) = self.handle(input).await? {
                return Ok(code);
            }
            if !self.options.finished {
                self.say_without_output();
            }
            if self.writing.is_none()
                && let Some((since, event)) = self.finished.take()
            {
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

    /// Whether there is nothing more to show.
    fn is_over(&self) -> bool {
        self.main.is_none()
            && self.exec.is_none()
            && matches!(self.out, Out::Ended)
            && self.writing.is_none()
    }

    /// Says once that the job has no output: when it has started, or at the end if it had finished before.
    fn say_without_output(&mut self) {
        if self.started && self.no_output {
            self.no_output = false;
            self.status.clear();
            print_message("No job output found");
        }
    }

    async fn handle(&mut self, input: Input) -> Result<Flow, CliError> {
        match input {
            Input::Main(Some(Ok(event)))
                if event.name == Name::Finish && !self.options.finished =>
            {
                self.finished = Some((Instant::now(), event));
            }
            Input::Main(Some(Ok(event))) => self.main_event(&event)?,
            Input::Main(Some(Err(error))) => return Err(self.cannot_attach(error)),
            Input::Main(None) => self.main = None,
            Input::Exec(Some(Ok(event))) => self.show("exec", &event),
            // Its end, or an error: a job that was never started has no such eventlog.
            Input::Exec(_) => self.exec = None,
            Input::Out(piece) => self.piece(&piece?)?,
            Input::Written(written) => written?,
            Input::Signal(signal) => return self.signal(signal).await,
            Input::Tick => {
                let stopped = self.queue.stopped(&self.client, self.target.id, &self.status);
                self.status.tick(stopped);
            }
        }
        Ok(Flow::Continue)
    }

    fn main_event(&mut self, event: &EventEntry) -> Result<(), CliError> {
        self.first.get_or_insert(event.timestamp);
        self.finish.update(event);
        self.status.update(event);
        match event.name {
            Name::Start => self.started = true,
            Name::Finish => {
                self.raw = None;
                self.show_failure();
            }
            _ => {}
        }
        if event.name == Name::Exception {
            self.status.clear();
            let text = show_exception(event);
            session::print_message(&format!(
                "{}: job.exception {} {text}",
                self.time(event.timestamp),
                self.target.typed
            ));
        } else if self.options.show_events {
            self.show("job", event);
        }
        // Before `start` there are no tasks, and the manager would refuse their input.
        if event.name == Name::Start && self.options.input {
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

    /// Whether all of the output has been read.
    fn output_has_ended(&self) -> bool {
        matches!(self.out, Out::Ended) || self.open_streams == Some(0)
    }

    /// Prints how the tasks failed, if they did.
    fn show_failure(&mut self) {
        let status = self.finish.status.map(|status| status.text());
        if let Some(text) = status.filter(|text| !text.is_empty()) {
            self.status.clear();
            print_message(text);
        }
    }

    /// Shows a piece of the output.
    fn piece(&mut self, piece: &Piece) -> Result<(), CliError> {
        let events = match piece.events() {
            Ok(Some(events)) => events,
            Ok(None) => {
                self.out = Out::Ended;
                Vec::new()
            }
            // The tasks of a simulated job print nothing, so that there is no output log.
            Err(error) if error.errno == ENOENT => {
                self.out = Out::Ended;
                self.no_output = true;
                Vec::new()
            }
            Err(error) => {
                self.out = Out::Ended;
                print_message(format!("output: {error}"));
                Vec::new()
            }
        };
        let mut pieces = Pieces::default();
        for event in &events {
            self.output(event, &mut pieces);
        }
        if events.is_empty()
            && let Some(tail) = self.tail.take()
        {
            if tail.found_nothing() {
                return Err(CliError::failure("No job output found"));
            }
            tail.show(&mut pieces);
        }
        if !pieces.is_empty() {
            self.status.clear();
            // On its own thread, since it takes as long as the reader of the output needs.
            self.writing = Some(tokio::task::spawn_blocking(move || pieces.write()));
        }
        Ok(())
    }

    fn output(&mut self, event: &OutputEvent<'_>, pieces: &mut Pieces) {
        match event.meaning() {
            Meaning::Streams(count) => self.open_streams = Some(count),
            Meaning::Ended(count) => {
                self.open_streams = self.open_streams.map(|open| open.saturating_sub(count));
            }
            // Printed with its time, like an exception, since it says when something happened.
            Meaning::Message(line) => {
                let line = format!("{}: {line}", self.time(event.timestamp));
                return pieces.add_line(&line);
            }
            Meaning::Other => {}
        }
        let id = self.target.id;
        match &mut self.tail {
            Some(tail) => tail.add(self.options.output, id, event, pieces),
            None => self.options.output.show(id, event, pieces),
        }
    }

    fn show(&mut self, prefix: &str, event: &EventEntry) {
        self.status.clear();
        let context =
            event.context.as_ref().map(|context| format!(" {}", Value::from(context.clone())));
        let context = context.unwrap_or_default();
        let time = self.time(event.timestamp);
        session::print_message(&format!("{time}: {prefix}.{}{context}", event.name));
    }

    /// Seconds since the job's first event.
    fn time(&self, timestamp: Timestamp) -> String {
        let first = self.first.unwrap_or(timestamp);
        format!("{:.3}s", timestamp.as_secs() - first.as_secs())
    }

    async fn signal(&mut self, signal: i32) -> Result<Flow, CliError> {
        self.status.clear();
        match self.ctrl_c.react(signal, Instant::now()) {
            Reaction::Resize => self.resize().await,
            // There is nothing to cancel or to forward a signal to, and the rest of the output may be long.
            Reaction::Warn | Reaction::Cancel | Reaction::Detach | Reaction::Forward(_)
                if self.has_ended() && signals::ends(signal) =>
            {
                return Ok(Flow::Exit(signals::code(signal)));
            }
            Reaction::Warn => {
                self.say("one more ctrl-C within 2s to cancel or ctrl-Z to detach");
            }
            Reaction::Cancel => {
                if self.options.interrupt == Interrupt::CancelFirst {
                    self.say("canceling the job; one more ctrl-C within 2s to detach");
                }
                let request = Raise::cancel(self.target.id, "interrupted by ctrl-C");
                if let Err(error) = self.ask(request).await {
                    self.say(&format!("cancel {}: {error}", self.target.typed));
                }
            }
            Reaction::Detach => {
                self.say("detaching...");
                return Ok(Flow::Exit(DETACHED));
            }
            Reaction::Suspend => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::STOP)
                    .map_err(|error| CliError::failure(error.to_string()))?;
            }
            Reaction::Forward(signal) => {
                let request = Kill::all(self.target.id, signal.into());
                if let Err(error) = self.ask(request).await {
                    self.say(&format!("kill {}: {error}", self.target.typed));
                    // The job has no tasks, so this command would keep waiting.
                    if signals::ends(signal) {
                        return Ok(Flow::Exit(signals::code(signal)));
                    }
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// Whether the job has no tasks any more.
    fn has_ended(&self) -> bool {
        self.options.finished || self.finished.is_some() || self.finish.status.is_some()
    }

    /// Prints a message, unless output waits for its reader: the message might block on the same reader.
    fn say(&self, text: &str) {
        if self.writing.is_none() {
            print_message(text);
        }
    }

    /// Sends a request to the manager over a separate connection, with a time limit.
    async fn ask<S: Service>(&mut self, request: S) -> Result<S::Response, CliError> {
        let asked = async {
            let client = match &self.control {
                Some(client) => client.clone(),
                None => self.control.insert(self.client.another().await?).clone(),
            };
            client.call(request).await.map_err(CliError::from)
        };
        let late = |_| CliError::failure("the manager doesn't respond");
        tokio::time::timeout(PATIENCE, asked).await.map_err(late)?
    }

    /// Gives the job's terminals the size of this one, if keys are passed on to them.
    async fn resize(&mut self) {
        if let (Some(_), Some((rows, columns))) = (&self.raw, terminal::size()) {
            // Refused: the job has ended.
            let _ = self.ask(Resize { id: self.target.id, rows, columns }).await;
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

impl Out {
    /// The next piece of the output. Never resolves while there is none to come, so that `select!` ignores it.
    async fn next(&mut self) -> Result<Piece, RpcError> {
        match self {
            Self::Open(stream) => stream.next().await,
            Self::Later | Self::Ended => std::future::pending().await,
        }
    }
}

/// Waits until the output is written.
async fn written(writing: &mut Option<JoinHandle<Result<(), CliError>>>) -> Result<(), CliError> {
    let Some(handle) = writing else { return Ok(()) };
    let written = handle.await;
    *writing = None;
    written.unwrap_or_else(|error| Err(CliError::failure(error)))
}

/// The next event of a log. Never resolves after the end of the log, so that `select!` ignores it.
async fn next(stream: &mut Option<EventStream>) -> Option<Result<EventEntry, RpcError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
