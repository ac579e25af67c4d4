//! A list of jobs, read from the engine part by part.
//!
//! A part is made when the earlier ones have been written to the client. So a list of any length, read as slowly as a
//! client likes, takes little memory, and other requests get their turns in between.

use std::time::{Duration, Instant};

use jobtap_core::engine::{Engine, Listed};
use serde_json::Value;

use crate::daemon::engine::{EngineHandle, answered, refusal};
use crate::rpc::RpcError;

/// The maximum number of jobs that are examined for a part.
const LOOKS: usize = 4096;
/// A part ends after this time: it is one turn of the engine, which serves nothing else meanwhile.
const TIME: Duration = Duration::from_millis(5);
/// The clock is read after this many jobs.
const CLOCK: usize = 64;
/// A part ends when it has this many bytes.
pub(super) const BYTES: usize = 64 * 1024;

/// A list whose first part has been read.
pub(in crate::daemon) struct Listing {
    engine: EngineHandle,
    part: Option<String>,
    rest: Option<Rest>,
}

/// The jobs that are not listed yet.
struct Rest {
    listing: jobtap_core::engine::Listing,
    /// Whether a job was listed already, so that the next one needs a comma.
    begun: bool,
}

/// Begins a list. When this returns, the request for the first part has been sent to the engine; the future ends when
/// the part is there.
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
    /// The next jobs as elements of a JSON array, without its brackets; `None` after the last ones.
    pub(in crate::daemon) async fn next(&mut self) -> Result<Option<String>, RpcError> {
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
    /// The next part, and the jobs after it, if there are any.
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
