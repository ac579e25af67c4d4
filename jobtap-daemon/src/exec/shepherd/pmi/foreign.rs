//! What tasks send by PMI, for fuzzers.

use jobtap_core::job::{JobId, TaskMap};

use super::memory::Memory;
use super::wireup::{Outcome, Wireup};

/// How many tasks the job has, two on each of its nodes.
const TASKS: u32 = 4;

/// Lets each of the tasks in turn send one of these parts. Returns how many bytes the responses have, each of which goes
/// to a task of the job.
///
/// # Panics
/// A response is for no task of the job, or a request is longer than what was sent.
pub fn pmi<'a>(parts: impl Iterator<Item = &'a [u8]>) -> usize {
    let memory = Memory::default();
    let mut job = Wireup::new(JobId::new(7), &TaskMap::block(&[2, 2]), memory.share(1));
    let mut bytes = 0;
    for (part, rank) in parts.zip((0..TASKS).cycle()) {
        let mut rest = part;
        while let Ok(Some(Outcome { used, responses, .. })) = job.next(rank, rest) {
            assert!(responses.iter().all(|(to, _)| *to < TASKS), "a response is for no task");
            bytes += responses.iter().map(|(_, text)| text.len()).sum::<usize>();
            assert!(used > 0 && used <= rest.len(), "{used} of {} bytes were used", rest.len());
            rest = rest.get(used..).unwrap_or_default();
        }
    }
    bytes
}
