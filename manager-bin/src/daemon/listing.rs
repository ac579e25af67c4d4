//! `job-list.list`, read from the engine part by part: a part is made when those before it are on
//! their way, so that a listing of any length, read as slowly as can be, takes little memory, and other
//! requests have their turns in between.

use std::time::{Duration, Instant};

use jobtap_core::engine::{Engine, Listed};
use serde_json::Value;

use super::engine_thread::{EngineHandle, answered, refusal};
use crate::rpc::RpcError;

/// Jobs that are looked at for a part at most.
const LOOKS: usize = 4096;
/// A part that takes so long is long enough: it is a turn of the engine.
const TIME: Duration = Duration::from_millis(5);
/// How often the clock is looked at.
const CLOCK: usize = 64;
/// A part of so many bytes is long enough.
const BYTES: usize = 64 * 1024;

/// A listing whose first part has been read.
pub(super) struct Listing {
    engine: EngineHandle,
    part: Option<String>,
    rest: Option<Rest>,
}

/// What is still to be listed.
struct Rest {
    listing: jobtap_core::engine::Listing,
    /// Whether a job was listed already.
    begun: bool,
}

/// The beginning of a listing is asked for when this returns; it is there when its future ends.
pub(super) fn begin(
    engine: EngineHandle,
    payload: Value,
) -> impl Future<Output = Result<Listing, RpcError>> + Send {
    let first = engine.read(move |engine| {
        let listing = engine.begin_list(&payload).map_err(refusal)?;
        Ok(Rest { listing, begun: false }.part(engine))
    });
    async move {
        let (part, rest) = answered(first).await?;
        Ok(Listing { engine, part: Some(part), rest })
    }
}

impl Listing {
    /// The next jobs as the text of an array's inside; `None` after the last ones.
    pub(super) async fn next(&mut self) -> Result<Option<String>, RpcError> {
        if let Some(first) = self.part.take() {
            return Ok(Some(first));
        }
        let Some(rest) = self.rest.take() else { return Ok(None) };
        let (part, rest) = answered(self.engine.read(|engine| Ok(rest.part(engine)))).await?;
        self.rest = rest;
        Ok(Some(part))
    }
}

impl Rest {
    /// The next part, and what is left after it, if anything is.
    fn part(mut self, engine: &Engine) -> (String, Option<Self>) {
        let mut text = String::new();
        let begun = Instant::now();
        for look in 1..=LOOKS {
            match engine.next_listed(&mut self.listing) {
                Listed::Item(job) => {
                    if std::mem::replace(&mut self.begun, true) {
                        text.push(',');
                    }
                    text.push_str(&job.to_string());
                    if text.len() >= BYTES {
                        break;
                    }
                }
                Listed::Passed => {}
                Listed::End => return (text, None),
            }
            if look % CLOCK == 0 && begun.elapsed() > TIME {
                break;
            }
        }
        (text, Some(self))
    }
}
