//! The status line of an attached client, which shows why a pending job hasn't started.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use jobtap_core::eventlog::{EventEntry, Name};
use jobtap_core::job::JobId;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cli::common::message::Prog;
use crate::cli::job::several::COMMAND;
use crate::client::{Client, RpcError};
use crate::rpc::services::job_list::ListId;
use crate::rpc::services::queue::GetStatus;
use crate::shown;

const RESOURCES: &str = "waiting for resources";

/// After this time the line is shown even without `--show-status`.
const DELAY: Duration = Duration::from_secs(2);

/// The status line. It disappears when the job starts.
pub(super) struct StatusLine {
    name: String,
    message: Option<&'static str>,
    since: Instant,
    after: Option<Duration>,
    shown: bool,
}

impl StatusLine {
    /// The line for a job. Without the option `--show-status` (`requested`) it is shown on terminals only,
    /// and not together with events.
    pub(super) fn new(typed: &str, requested: bool, events_shown: bool) -> Self {
        let interactive = std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal()
            && std::env::var_os("FLUX_ATTACH_NONINTERACTIVE").is_none();
        let after = match (requested, interactive && !events_shown) {
            (true, _) => Some(Duration::ZERO),
            (false, true) => Some(DELAY),
            (false, false) => None,
        };
        let name = typed.to_owned();
        Self { name, message: Some("submitted"), since: Instant::now(), after, shown: false }
    }

    /// Updates the message for an event of the main eventlog.
    pub(super) fn update(&mut self, event: &EventEntry) {
        self.message = match &event.name {
            Name::Submit => Some("submitted"),
            Name::Validate => Some("resolving dependencies"),
            Name::Depend | Name::Urgency => Some("waiting for priority assignment"),
            Name::Priority => Some(RESOURCES),
            Name::Alloc | Name::PrologFinish => Some("starting"),
            Name::PrologStart => Some("waiting for prolog"),
            Name::Exception if event.fatal_exception().is_some() => {
                Some("canceling due to exception")
            }
            Name::Start | Name::Clean | Name::Finish => None,
            _ => return,
        };
        if self.message.is_none() {
            self.clear();
        }
    }

    /// Whether the line says, or would soon say, that the job waits for resources.
    fn waits_for_resources(&self) -> bool {
        self.after.is_some() && self.message == Some(RESOURCES)
    }

    /// Redraws the line; to be called every second. `stopped` is the queue of the job, if it is stopped.
    pub(super) fn tick(&mut self, stopped: Option<String>) {
        let elapsed = self.since.elapsed();
        let (Some(message), Some(after)) = (self.message, self.after) else {
            return;
        };
        if elapsed < after {
            return;
        }
        let seconds = elapsed.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let queue = stopped.map(|queue| format!(" ({} queue stopped)", shown::in_line(&queue)));
        let queue = queue.unwrap_or_default();
        let text = format!("{} {message}{queue} {hours:02}:{minutes:02}:{seconds:02}", self.name);
        self.write(&format!("\r{}\x1b[K", Prog::current().plain(COMMAND, text)));
        self.shown = true;
    }

    /// Erases the line, so that something else can be printed.
    pub(super) fn clear(&mut self) {
        if self.shown {
            self.write("\r\x1b[K");
            self.shown = false;
        }
    }

    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

/// What is known about the job's queue, which is requested while the job waits for resources.
#[derive(Default)]
pub(super) struct Queue {
    asking: Option<JoinHandle<()>>,
    /// Its name, if it is stopped.
    stopped: watch::Sender<Option<String>>,
}

impl Queue {
    /// The name of the queue, if it was stopped at the last response of the manager. Requests its status again.
    pub(super) fn stopped(
        &mut self,
        client: &Client,
        id: JobId,
        status: &StatusLine,
    ) -> Option<String> {
        if !status.waits_for_resources() {
            return None;
        }
        if self.asking.as_ref().is_none_or(JoinHandle::is_finished) {
            let (client, told) = (client.clone(), self.stopped.clone());
            self.asking = Some(tokio::spawn(async move {
                // If the manager refuses, the line doesn't mention the queue.
                told.send_replace(stopped_queue(&client, id).await.unwrap_or_default());
            }));
        }
        self.stopped.borrow().clone()
    }
}

/// The name of the queue of the job, if that is stopped.
async fn stopped_queue(client: &Client, id: JobId) -> Result<Option<String>, RpcError> {
    let job = client.call(ListId { id, attrs: &["queue"] }).await?.job;
    let queue = job.get("queue").and_then(Value::as_str).map(str::to_owned);
    let status = client.call(GetStatus { name: queue.clone() }).await?;
    Ok((status.start == Some(false)).then(|| queue.unwrap_or_else(|| "default".to_owned())))
}
