//! Checks the engine's files against the checksums that they carry, before the engine reads them.
//!
//! fjall writes a checksum of each keyspace's manifest and doesn't look at it: a flipped bit there
//! makes it forget tables, and it deletes what it has forgotten. It also trusts the length of a
//! file's table of contents before it checks it, and a wrong one ends the process for want of
//! memory. Everything else it checks as it reads.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

/// Names the manifest in force: its number, its checksum and the kind of checksum.
pub(super) const CURRENT: &str = "current";
const CURRENT_LEN: usize = 8 + 16 + 1;
/// The folder of a keyspace's tables.
pub(super) const TABLES: &str = "tables";

/// What ends every manifest and table: a magic word, two versions, the checksum of the table of
/// contents, its place and its length.
const TRAILER_LEN: usize = 4 + 1 + 1 + 16 + 8 + 8;
const TRAILER_MAGIC: &[u8] = b"SFA!";
/// Some twenty sections, each with a short name.
const MAX_CONTENTS: u64 = 64 * 1024;

/// What is wrong with a keyspace's folder.
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
    for entry in fs::read_dir(tables)? {
        let table = entry?.path();
        if !table.is_file() || !contents_match(&table)? {
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

/// Whether the table of contents is what the file's end says it is. A file too short to have an
/// end is one whose writing never ended; the engine knows whether it needs it.
fn contents_match(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let Some(end) = length.checked_sub(TRAILER_LEN as u64) else {
        return Ok(true);
    };
    file.seek(SeekFrom::Start(end))?;
    let mut trailer = [0; TRAILER_LEN];
    file.read_exact(&mut trailer)?;
    let Some((checksum, start)) = parse_trailer(&trailer) else {
        return Ok(true);
    };
    let Some(size) = end.checked_sub(start).filter(|size| *size <= MAX_CONTENTS) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(start))?;
    let mut contents = Vec::new();
    file.take(size).read_to_end(&mut contents)?;
    Ok(xxh3_128(&contents) == checksum)
}

/// The checksum and the start of the table of contents; none when this is no trailer, which the
/// engine notices.
fn parse_trailer(trailer: &[u8; TRAILER_LEN]) -> Option<(u128, u64)> {
    let rest = trailer.strip_prefix(TRAILER_MAGIC)?.get(2..)?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let (start, _) = rest.split_first_chunk()?;
    Some((u128::from_le_bytes(*checksum), u64::from_le_bytes(*start)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(
            current in proptest::collection::vec(any::<u8>(), 0..30),
            mut table in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = parse_current(&current);
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
