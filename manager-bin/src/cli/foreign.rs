//! The parsers of what users, scripts and launchers write that the commands keep private, as functions for fuzzers.

use jiff::tz::TimeZone;
use serde_json::Value;

use super::common::format::{RenderOptions, Template, render};
use super::common::ids::IdStyle;
use super::common::indexes::Indexes;
use super::common::when::parse_when;
use super::common::words::{self, Comments, Escapes};
use super::jobs::row::{DisplayContext, JobRow};
use super::sbatch::begin::{self, Toward};
use crate::users::Users;

pub use super::bulksubmit::foreign::inputs;
pub use super::multi_prog::foreign::programs;
pub use super::nested::foreign::directives;
pub use super::sbatch::foreign::script;
#[cfg(feature = "builtins")]
pub use super::slurm::foreign::uses;
pub use super::slurm_commands::foreign::slurm_format;
pub use super::start::foreign::launcher;

/// A fixed time: 2023-11-14 22:13:20 UTC.
const NOW: f64 = 1_700_000_000.0;

/// The lines of these jobs, which are JSON as `job-list` has it, in this format.
pub fn lines(format: &str, jobs: &[Value]) -> Option<Vec<String>> {
    let template = Template::parse::<JobRow<'_>>(format).ok()?;
    let display = DisplayContext {
        now: NOW,
        zone: TimeZone::UTC,
        ids: IdStyle::Ascii,
        users: Users::from_passwd("alice:x:1001:1001::/:/bin/sh\n"),
    };
    let rows = jobs.iter().map(|job| JobRow::from_json(job.clone(), &display));
    let rows: Vec<_> = rows.collect::<Result<_, _>>().ok()?;
    let options = RenderOptions { header: true, zone: TimeZone::UTC };
    let table = render(&template, &rows, &options).ok()?;
    Some(table.header.into_iter().chain(table.lines).collect())
}

/// A point in time, in seconds since the epoch, in each of the languages in which one is written.
pub fn times(text: &str) -> [Option<f64>; 3] {
    let zone = TimeZone::UTC;
    let slurm = |toward| begin::parse(text, NOW, &zone, toward).map(|time| time as f64);
    [parse_when(text, NOW, &zone), slurm(Toward::Past), slurm(Toward::Future)]
}

/// The words of a line, in each way to split it.
pub fn words(text: &str) -> Vec<Vec<String>> {
    let comments = [Comments::Anywhere, Comments::BetweenWords, Comments::Never];
    let ways = comments
        .into_iter()
        .flat_map(|comments| [Escapes::QuoteAndBackslash, Escapes::All].map(|all| (comments, all)));
    ways.filter_map(|(comments, escapes)| words::split(text, comments, escapes).ok()).collect()
}

/// The indexes of a job array, as an idset, and the difference of the first two.
pub fn indexes(text: &str) -> Option<(String, u32)> {
    let indexes = Indexes::parse(text).ok()?;
    Some((indexes.all.to_string(), indexes.step()))
}
