//! `raise` posts exceptions that don't end the job.
use jobtap_core::prelude::*;

pub const FATAL: Severity = severity!(0);

fn main() {}
