//! What is kept of queues over a restart: the list `queue` of `checkpoint.job-manager`.

use serde_json::{Map, Value, json};

use super::queues::{Entry, Queues, Scheduling};

/// The form that [`Queues::checkpoint`] writes.
pub(crate) const VERSION: u64 = 1;

/// The reason of queues that are stopped because the manager was restarted.
const RESTARTED: &str = "Automatically stopped due to restart";

/// A checkpoint that a later manager wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "checkpoint.job-manager has version {0}, and this manager knows versions up to {VERSION}: \
     start the manager that wrote it"
)]
pub struct CheckpointError(u64);

impl Queues {
    /// The list as it is stored.
    pub fn checkpoint(&self) -> Value {
        self.queues.iter().map(|(name, entry)| saved(name, entry)).collect()
    }

    /// Takes over the stored list of a checkpoint. Names that are not configured any more are passed
    /// over, and queues that it doesn't have stay as they are. `stop`: those that were started are
    /// stopped.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn restore(&mut self, checkpoint: &Value, stop: bool) -> Result<(), CheckpointError> {
        let version = checkpoint.get("version").and_then(Value::as_u64).unwrap_or(0);
        if version > VERSION {
            return Err(CheckpointError(version));
        }
        let list = checkpoint.get("queue").and_then(Value::as_array);
        for stored in list.into_iter().flatten() {
            let name = stored.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(entry) = self.queues.get_mut(name) {
                restore(entry, stored, version, stop);
            }
        }
        Ok(())
    }
}

fn saved(name: &str, entry: &Entry) -> Value {
    let Scheduling { started, reason } = &entry.saved;
    let mut table = Map::new();
    if !name.is_empty() {
        table.insert("name".to_owned(), name.into());
    }
    table.insert("enable".to_owned(), json!(entry.disabled.is_none()));
    table.insert("start".to_owned(), json!(started));
    for (key, text) in [("disable_reason", &entry.disabled), ("stop_reason", reason)] {
        if let Some(text) = text {
            table.insert(key.to_owned(), text.as_str().into());
        }
    }
    Value::Object(table)
}

fn restore(entry: &mut Entry, stored: &Value, version: u64, stop: bool) {
    let text = |key: &str| stored.get(key).and_then(Value::as_str).map(str::to_owned);
    let bit = |key: &str| stored.get(key).and_then(Value::as_bool);
    let reason = if version == 0 { "reason" } else { "disable_reason" };
    match bit("enable") {
        Some(true) => entry.disabled = None,
        Some(false) => entry.disabled = Some(text(reason).unwrap_or_default()),
        None => {}
    }
    if let Some(started) = bit("start") {
        let reason = text("stop_reason").filter(|_| !started);
        entry.scheduling = match started && stop {
            true => Scheduling { started: false, reason: Some(RESTARTED.to_owned()) },
            false => Scheduling { started, reason },
        };
        entry.saved = entry.scheduling.clone();
    }
}
