//! The life of a job is told by the manager's events.
use jobtap_core::prelude::*;

pub const ALLOC: EventName = event_name!("alloc");

fn main() {}
