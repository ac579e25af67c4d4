//! Archives, for fuzzers.

use std::path::Path;

use super::entries::{self, Visitor};
use super::error::ArchiveError;
use super::path::{of_key, to_key};
use crate::store::Key;

/// Counts what an archive has, and keeps nothing: a restore writes it piece by piece.
#[derive(Default)]
struct Counts {
    keys: u64,
    bytes: u64,
}

impl Visitor for Counts {
    fn wants(&self, _: &Key) -> bool {
        true
    }

    fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), ArchiveError> {
        let (key, again) = (key.to_string(), to_key(&of_key(&key.to_string())));
        assert!(again.as_ref().is_ok_and(|again| *again == key), "{key} has another path");
        self.keys += 1;
        self.bytes += value.len() as u64;
        Ok(())
    }

    fn skip(&mut self, _: String) {}
}

/// How many keys an archive has, and how many bytes in their values; `None` if it is refused.
///
/// # Panics
/// The path of a key leads to another key.
pub fn archive(file: &Path) -> Option<(u64, u64)> {
    let mut counts = Counts::default();
    entries::read(file, &mut counts).ok()?;
    Some((counts.keys, counts.bytes))
}
