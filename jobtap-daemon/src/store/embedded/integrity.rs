//! Checks the engine's files against the checksums that they contain, before the engine reads them.
//!
//! fjall writes a checksum of each keyspace's manifest and doesn't verify it. A flipped bit there can make
//! it miss tables, and it deletes tables that the manifest doesn't list. It also uses the length of a
//! file's table of contents before it verifies it, and a wrong length can make it run out of memory, which
//! ends the process. It verifies all other data when it reads them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

/// The file that names the current manifest: its number, its checksum and the kind of checksum.
pub(super) const CURRENT: &str = "current";
const CURRENT_LEN: usize = 8 + 16 + 1;
/// The directory of a keyspace's tables.
pub(super) const TABLES: &str = "tables";

/// The length of the trailer of every manifest and table: a magic word, two versions, the checksum of the
/// table of contents, its offset and its length.
const TRAILER_LEN: usize = 4 + 1 + 1 + 16 + 8 + 8;
const TRAILER_MAGIC: &[u8] = b"SFA!";
/// The first bytes of every table of contents.
const CONTENTS_MAGIC: [u8; 4] = *b"TOC!";
/// The section of a manifest that lists the tables.
const LISTED: &str = "tables";
/// The longest table of contents; real ones have some twenty sections with short names.
const MAX_CONTENTS: u64 = 64 * 1024;

/// Checks the directory of a keyspace; returns the first damaged file.
pub(super) fn check(keyspace: &Path) -> io::Result<Option<PathBuf>> {
    let current = keyspace.join(CURRENT);
    let Some((number, checksum)) = parse_current(&fs::read(&current)?) else {
        return Ok(Some(current));
    };
    let manifest = keyspace.join(format!("v{number}"));
    if !manifest.is_file() || xxh3_128(&fs::read(&manifest)?) != checksum {
        return Ok(Some(manifest));
    }
    let tables = keyspace.join(TABLES);
    if !tables.is_dir() {
        return Ok(Some(tables));
    }
    let listed: Option<HashSet<PathBuf>> =
        listed_tables(keyspace)?.map(|listed| listed.into_iter().map(|(path, _)| path).collect());
    let is_listed = |table: &Path| listed.as_ref().is_none_or(|listed| listed.contains(table));
    for entry in fs::read_dir(tables)? {
        let table = entry?.path();
        if !table.is_file() {
            return Ok(Some(table));
        }
        // A table that isn't listed yet may be incomplete in any way: a power loss can keep its trailer and
        // lose what is before it. The engine removes it unread.
        if is_listed(&table) && !contents_match(&table)? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

fn parse_current(bytes: &[u8]) -> Option<(u64, u128)> {
    if bytes.len() != CURRENT_LEN {
        return None;
    }
    let (number, rest) = bytes.split_first_chunk()?;
    let (checksum, kind) = rest.split_first_chunk()?;
    let known = kind == [0];
    known.then_some((u64::from_le_bytes(*number), u128::from_le_bytes(*checksum)))
}

/// The tables that a keyspace's manifest lists, with the checksums of the whole files; `None` if it can't
/// be parsed. To be called after [`check`] has verified the manifest.
pub(super) fn listed_tables(keyspace: &Path) -> io::Result<Option<Vec<(PathBuf, u128)>>> {
    let Some((number, _)) = parse_current(&fs::read(keyspace.join(CURRENT))?) else {
        return Ok(None);
    };
    let manifest = keyspace.join(format!("v{number}"));
    let sections = sections(&manifest)?.unwrap_or_default();
    let Some(section) = sections.into_iter().find(|section| section.name == LISTED) else {
        return Ok(None);
    };
    let mut file = File::open(manifest)?;
    file.seek(SeekFrom::Start(section.start))?;
    let mut bytes = Vec::new();
    file.take(section.end.saturating_sub(section.start)).read_to_end(&mut bytes)?;
    let tables = parse_listed(&mut bytes.as_slice());
    let place = |(id, checksum)| (keyspace.join(TABLES).join(format!("{id}")), checksum);
    Ok(tables.map(|tables| tables.into_iter().map(place).collect()))
}

/// Parses the list: levels of runs of tables, each with its id, the kind of checksum, the checksum, and a
/// number that is added to the sequence numbers of its rows.
fn parse_listed(bytes: &mut &[u8]) -> Option<Vec<(u64, u128)>> {
    let mut tables = Vec::new();
    let [levels] = take(bytes)?;
    for _ in 0..levels {
        let [runs] = take(bytes)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(take(bytes)?) {
                let id = u64::from_le_bytes(take(bytes)?);
                let [0] = take(bytes)? else { return None };
                tables.push((id, u128::from_le_bytes(take(bytes)?)));
                let _: [u8; 8] = take(bytes)?;
            }
        }
    }
    Some(tables)
}

/// A part of a manifest or table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// The name of the section.
    pub(super) name: String,
    /// Where it begins.
    pub(super) start: u64,
    /// Where it ends.
    pub(super) end: u64,
}

/// The sections in the table of contents of a manifest or table; `None` if it is missing or damaged.
pub(super) fn sections(path: &Path) -> io::Result<Option<Vec<Section>>> {
    let mut file = File::open(path)?;
    let contents = match contents(&mut file)? {
        Contents::Whole(contents) => contents,
        Contents::Missing | Contents::Damaged => return Ok(None),
    };
    Ok(parse_sections(&contents))
}

fn parse_sections(mut bytes: &[u8]) -> Option<Vec<Section>> {
    let bytes = &mut bytes;
    let CONTENTS_MAGIC = take(bytes)? else { return None };
    let mut found = Vec::new();
    for _ in 0..u32::from_le_bytes(take(bytes)?) {
        let start = u64::from_le_bytes(take(bytes)?);
        let end = start.checked_add(u64::from_le_bytes(take(bytes)?))?;
        let size = u16::from_le_bytes(take(bytes)?);
        let (name, rest) = bytes.split_at_checked(size.into())?;
        *bytes = rest;
        found.push(Section { name: String::from_utf8_lossy(name).into_owned(), start, end });
    }
    Some(found)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// Whether the table of contents matches the checksum in the trailer. A file without a trailer passes: it
/// was not written completely, and the engine knows whether it needs it.
pub(super) fn contents_match(path: &Path) -> io::Result<bool> {
    Ok(!matches!(contents(&mut File::open(path)?)?, Contents::Damaged))
}

/// A table of contents.
enum Contents {
    /// It matches its checksum.
    Whole(Vec<u8>),
    /// The file has no trailer.
    Missing,
    /// It does not match its checksum.
    Damaged,
}

fn contents(file: &mut File) -> io::Result<Contents> {
    let length = file.metadata()?.len();
    let Some(end) = length.checked_sub(TRAILER_LEN as u64) else {
        return Ok(Contents::Missing);
    };
    file.seek(SeekFrom::Start(end))?;
    let mut trailer = [0; TRAILER_LEN];
    file.read_exact(&mut trailer)?;
    let Some((checksum, start)) = parse_trailer(&trailer) else {
        return Ok(Contents::Missing);
    };
    let Some(size) = end.checked_sub(start).filter(|size| *size <= MAX_CONTENTS) else {
        return Ok(Contents::Damaged);
    };
    file.seek(SeekFrom::Start(start))?;
    let mut contents = Vec::new();
    file.take(size).read_to_end(&mut contents)?;
    match xxh3_128(&contents) == checksum {
        true => Ok(Contents::Whole(contents)),
        false => Ok(Contents::Damaged),
    }
}

/// The checksum and the offset of the table of contents; `None` if this is not a trailer, which the engine
/// detects itself.
fn parse_trailer(trailer: &[u8; TRAILER_LEN]) -> Option<(u128, u64)> {
    let rest = trailer.strip_prefix(TRAILER_MAGIC)?.get(2..)?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (start, _) = rest.split_first_chunk()?;
    Some((u128::from_le_bytes(*checksum), u64::from_le_bytes(*start)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pointer_to_a_manifest_reads_back(number: u64, checksum: u128) {
            let mut current = [number.to_le_bytes().as_slice(), &checksum.to_le_bytes()].concat();
            current.push(0);
            prop_assert_eq!(parse_current(&current), Some((number, checksum)));
            prop_assert_eq!(parse_current(&current[1..]), None);
            current.push(0);
            prop_assert_eq!(parse_current(&current), None);
        }

        #[test]
        fn tables_of_random_bytes_are_damaged(
            mut table in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            if let Some(at) = table.len().checked_sub(TRAILER_LEN) {
                table[at..at + 4].copy_from_slice(TRAILER_MAGIC);
            }
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("0");
            fs::write(&path, &table).unwrap();
            prop_assert_eq!(contents_match(&path).unwrap(), table.len() < TRAILER_LEN);
        }
    }

    #[test]
    fn a_manifest_must_be_the_one_that_was_written() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(TABLES)).unwrap();
        let manifest = dir.path().join("v3");
        fs::write(&manifest, "levels").unwrap();
        let mut current = 3u64.to_le_bytes().to_vec();
        current.extend(xxh3_128(b"levels").to_le_bytes());
        current.push(0);
        fs::write(dir.path().join(CURRENT), current).unwrap();
        assert_eq!(check(dir.path()).unwrap(), None);
        fs::write(&manifest, "level5").unwrap();
        assert_eq!(check(dir.path()).unwrap(), Some(manifest.clone()));
        fs::remove_file(&manifest).unwrap();
        assert_eq!(check(dir.path()).unwrap(), Some(manifest));
    }
}
