//! `raise` posts what doesn't end a job.
use jobtap_core::prelude::*;

pub const FATAL: Severity = severity!(0);

fn main() {}
