//! Checks a store that no manager has open, and reports damage with the rows that it may concern.
//!
//! The engine verifies a block when it reads it, which may be days after a start, and an error during a
//! merge ends the manager. This check verifies all checksums of tables and write-ahead logs. It changes no
//! data.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use jobtap_core::job::{Encoding, JobId};
use xxhash_rust::xxh3::Xxh3;

use super::super::acked::Acked;
use super::super::lock::Lock;
use super::super::{StoreError, rows};
use super::part::Part;
use super::table::{BadPart, Neighbors};
use super::{files, integrity, table, tail};

/// The damage at one place of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The place, and what is damaged there.
    pub(super) place: String,
    /// The rows that may be lost.
    pub(super) loss: Loss,
}

/// The rows that may be lost by damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// None: only data that locates rows is damaged.
    Nothing,
    /// The rows of a range.
    Rows(Range),
    /// Unknown: no undamaged data shows which rows there were.
    Unknown,
}

/// Rows in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The keyspace that they are in.
    pub(super) part: Part,
    /// The row before the first of them; `None` if the first of all rows may be among them.
    pub(super) after: Option<Vec<u8>>,
    /// The last of them; `None` if the last of all rows may be among them.
    pub(super) through: Option<Vec<u8>>,
}

impl Damage {
    /// Whether [`repair`](super::repair()) can repair the store.
    pub fn is_repairable(&self) -> bool {
        self.loss != Loss::Unknown
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.loss)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no key is lost"),
            Self::Rows(range) => write!(f, "{range}"),
            Self::Unknown => f.write_str("nothing tells which keys were there"),
        }
    }
}

impl fmt::Display for Range {
    /// Shows the key of a row as `jobtap kvs` does, with the job's id in F58. A row with several keys of a job is shown
    /// as the job's submission, or as its commit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys may be lost ")?;
        match (&self.after, &self.through) {
            (None, None) => f.write_str("in the whole keyspace ")?,
            (Some(after), None) => write!(f, "after {} ", Name(after))?,
            (None, Some(through)) => write!(f, "up to {} ", Name(through))?,
            (Some(after), Some(through)) => {
                write!(f, "after {} up to {} ", Name(after), Name(through))?;
            }
        }
        write!(f, "({})", self.part.name())
    }
}

/// Displays the name of a row.
struct Name<'a>(&'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(row) = rows::parse(self.0) else {
            return write!(f, "{}", self.0.escape_ascii());
        };
        if let Some(id) = row.job {
            write!(f, "job {} ", JobId::new(id).encode(Encoding::F58))?;
        }
        match (row.name, row.seq) {
            ("", Some(rows::FIRST)) => f.write_str("submission"),
            ("", Some(commit)) => write!(f, "commit {commit}"),
            (name, Some(seq)) => write!(f, "{name} record {seq}"),
            (name, None) => f.write_str(name),
        }
    }
}

/// Checks the store in `dir` and returns the damage found; the list is empty for an undamaged store.
///
/// # Errors
/// Fails if `dir` is not a store, a manager has it open, or it can't be read.
pub fn check(dir: &Path) -> Result<Vec<Damage>, StoreError> {
    if !files::is_store(dir) {
        return Err(StoreError::NotAStore {
            path: dir.to_owned(),
            found: "it holds no store".to_owned(),
        });
    }
    let _lock = Lock::take(dir)?;
    check_locked(dir)
}

/// Refuses a store in which damage was found before, if the damage is still there. A start reads few
/// blocks, so without this check the manager would run until it reads the damaged block again.
pub(super) fn refuse_suspect(dir: &Path) -> Result<(), StoreError> {
    if !files::is_suspect(dir) {
        return Ok(());
    }
    let damages = check_locked(dir)?;
    let Some(first) = damages.first() else {
        files::trust(dir);
        return Ok(());
    };
    let mut detail = first.to_string();
    if damages.len() > 1 {
        detail += &format!("; {} more", damages.len() - 1);
    }
    Err(StoreError::Corrupt { path: dir.to_owned(), detail })
}

/// As [`check`], for a caller that holds the lock.
pub(super) fn check_locked(dir: &Path) -> Result<Vec<Damage>, StoreError> {
    let unknown = |err: StoreError| match err {
        StoreError::Corrupt { detail, .. } => {
            Ok(vec![Damage { place: detail, loss: Loss::Unknown }])
        }
        StoreError::Lost { acked, found, .. } => {
            let place = format!(
                "commits {} to {acked} were acknowledged and are not there",
                found.saturating_add(1)
            );
            Ok(vec![Damage { place, loss: Loss::Unknown }])
        }
        err => Err(err),
    };
    let whole = Acked::read(dir).and_then(|acked| {
        let has_database = files::has_database(dir, acked)?;
        if has_database {
            tail::check(dir, acked)?;
        }
        Ok(has_database)
    });
    match whole {
        Ok(false) => Ok(Vec::new()),
        Ok(true) => tables(dir),
        Err(err) => unknown(err),
    }
}

/// Checks the tables.
pub(super) fn tables(dir: &Path) -> Result<Vec<Damage>, StoreError> {
    let mut found = Vec::new();
    let ours = files::keyspaces(dir).into_iter().map(|(part, folder)| (Some(part), folder));
    for (part, folder) in ours.chain([(None, files::meta_keyspace(dir))]) {
        let listed = integrity::listed_tables(&folder);
        let Some(listed) = listed.map_err(|err| StoreError::io(&folder, err))? else {
            let place = format!("{} doesn't list its tables", folder.display());
            found.push(Damage { place, loss: Loss::Unknown });
            continue;
        };
        for (path, checksum) in listed {
            let damages = damages_of_table(part, &path, checksum);
            found.extend(damages.map_err(|err| StoreError::io(&path, err))?);
        }
    }
    Ok(found)
}

/// Checks a table. `part` is `None` for a table of the engine's own metadata, which can't be repaired.
fn damages_of_table(part: Option<Part>, path: &Path, checksum: u128) -> io::Result<Vec<Damage>> {
    let unknown = |what: &str| {
        let place = format!("{} {what}", path.display());
        Ok(vec![Damage { place, loss: Loss::Unknown }])
    };
    match sum(path) {
        Ok(sum) if sum == checksum => return Ok(Vec::new()),
        Ok(_) => {}
        Err(err) if err.kind() == ErrorKind::NotFound => return unknown("is missing"),
        Err(err) => return Err(err),
    }
    let (Some(part), Some(sections)) = (part, integrity::sections(path)?) else {
        return unknown("is not what was written");
    };
    let parts = table::damages(path, &sections)?;
    if parts.is_empty() {
        // The bytes between blocks contain no rows.
        let place = format!("{} is not what was written, but its blocks are", path.display());
        return Ok(vec![Damage { place, loss: Loss::Nothing }]);
    }
    let damage = |bad: BadPart| {
        let (start, size) = (bad.offset, bad.end.saturating_sub(bad.offset));
        let what = format!("is not what was written at offset {start} ({size} bytes)");
        let loss = bad.rows.map_or(Loss::Nothing, |Neighbors { after, through }| {
            Loss::Rows(Range { part, after, through })
        });
        Damage { place: format!("{} {what}", path.display()), loss }
    };
    Ok(parts.into_iter().map(damage).collect())
}

/// The checksum of a file, of the kind in the engine's manifests.
fn sum(path: &Path) -> io::Result<u128> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut chunk = vec![0; 256 * 1024];
    loop {
        match io::Read::read(&mut file, &mut chunk)? {
            0 => return Ok(hasher.digest128()),
            size => hasher.update(chunk.get(..size).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_table_is_damage_and_a_read_error_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("7");
        let damages = damages_of_table(None, &missing, 0).unwrap();
        let expected =
            format!("{} is missing: nothing tells which keys were there", missing.display());
        assert_eq!((damages.len(), damages[0].to_string()), (1, expected));
        // A directory can be opened like a file, and every read of it fails.
        damages_of_table(None, dir.path(), 0).unwrap_err();
    }
}
