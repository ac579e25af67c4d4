//! The formats of Slurm's commands, for fuzzers.

use super::fields::{Format, Order};
use super::squeue::FIELDS;

/// The headings of `squeue` in a format of `-o` and in one of `-O`, and whether the text is an order of `-S`.
pub fn slurm_format(text: &str) -> (Option<String>, Option<String>, bool) {
    let letters = Format::letters(text, FIELDS).ok().map(|format| format.heading());
    let names = Format::names(text, FIELDS).ok().map(|format| format.heading());
    (letters, names, Order::parse(text, FIELDS).is_ok())
}
