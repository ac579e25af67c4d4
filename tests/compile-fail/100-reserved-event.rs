//! Only the manager posts the events of a job's life cycle.
use jobtap_core::prelude::*;

pub const ALLOC: EventName = event_name!("alloc");

fn main() {}
