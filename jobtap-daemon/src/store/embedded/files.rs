//! The files of the database, and their checks before the engine opens it.
//!
//! If a file is missing, fjall assumes that its part was never completed, deletes that part and continues.
//! So a database that has had data is checked for completeness first, and only one that never had data is
//! created again.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::super::{StoreError, acked, lock};
use super::integrity::{self, CURRENT};
use super::part::{PARTS, Part};
use super::write_ahead_log;

/// The engine's directory within the store's directory.
pub(super) const DB: &str = "db-3";
/// The engine's directory within a store that an earlier version has created.
const EARLIER_DB: &str = "db-2";
/// The suffix of the names of its write-ahead logs, after their number.
pub(super) const LOG_SUFFIX: &str = ".jnl";

const VERSION: &str = "version";
const LOCK: &str = "lock";
const KEYSPACES: &str = "keyspaces";
/// The first write-ahead log, which is deleted once all its rows are in tables.
pub(super) const FIRST_LOG: &str = "0.jnl";
/// The engine's own keyspace.
const META_KEYSPACE: &str = "0";
/// Our keyspaces, in the order of their creation.
const OUR_KEYSPACES: [&str; PARTS.len()] = ["1", "2", "3", "4"];
/// The number of keyspaces in the database of an earlier version: all but the one for first bundles.
const EARLIER_KEYSPACES: usize = 3;
/// The file whose presence shows that damage was found. A start reads few blocks, so it may not meet the
/// damage; with this file it checks the whole store.
const SUSPECT: &str = "suspect";

/// The keyspaces of a database. The name of its directory shows which they are, since that has to be known before the
/// engine opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyspaceSet {
    /// The keyspaces of all parts.
    All,
    /// The keyspaces of a store that an earlier version has created: first bundles are among the other rows of jobs.
    /// The missing keyspace is not added later, since the engine numbers keyspaces, and an interrupted addition would
    /// leave a gap in the numbers.
    WithoutSubmissions,
}

impl KeyspaceSet {
    /// The set of the store's database; all keyspaces if there is no database.
    pub(super) fn detect(dir: &Path) -> Self {
        match !dir.join(DB).exists() && dir.join(EARLIER_DB).exists() {
            true => Self::WithoutSubmissions,
            false => Self::All,
        }
    }

    /// The parts that have keyspaces.
    pub(super) fn parts(self) -> &'static [Part] {
        match self {
            Self::All => &PARTS,
            Self::WithoutSubmissions => PARTS.split_at(EARLIER_KEYSPACES).0,
        }
    }

    /// The directory of a database with these keyspaces in a store.
    pub(super) fn database(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::All => DB,
            Self::WithoutSubmissions => EARLIER_DB,
        })
    }
}

/// The directory of the database of a store, whether or not it exists.
pub(super) fn database(dir: &Path) -> PathBuf {
    KeyspaceSet::detect(dir).database(dir)
}

/// Makes sure that `dir` is a directory that is empty or already contains a store.
pub(super) fn prepare(dir: &Path) -> Result<(), StoreError> {
    let refuse = |found: String| StoreError::NotAStore { path: dir.to_owned(), found };
    if fs::metadata(dir).is_ok_and(|meta| !meta.is_dir()) {
        return Err(refuse("it is a file".to_owned()));
    }
    // Only the manager's user may read jobspecs and output.
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(|err| StoreError::io(dir, err))?;
    let names = names(dir).map_err(|err| StoreError::io(dir, err))?;
    let ours = |name: &String| [lock::FILE, acked::FILE].contains(&name.as_str());
    if names.iter().any(ours) {
        return Ok(());
    }
    match names.first() {
        Some(name) => Err(refuse(format!("it holds {name:?}"))),
        None => Ok(()),
    }
}

/// Whether there is a database to open, as opposed to one to create. To be called under the lock.
pub(super) fn has_database(dir: &Path, acked: Option<u64>) -> Result<bool, StoreError> {
    if [DB, EARLIER_DB].iter().all(|db| dir.join(db).exists()) {
        return two_databases(dir, acked);
    }
    let set = KeyspaceSet::detect(dir);
    let db = set.database(dir);
    let failed = |err| StoreError::io(&db, err);
    if acked.is_none() && never_held_data(&db).map_err(failed)? {
        return Ok(false);
    }
    match complete(&db, set).map_err(failed)? {
        None => Ok(true),
        Some(detail) => Err(StoreError::Corrupt { path: dir.to_owned(), detail }),
    }
}

/// Refuses a store with two databases, unless neither was ever used; then a new one is to be created. One version may
/// have begun to create a database, and another version may then have created its own.
fn two_databases(dir: &Path, acked: Option<u64>) -> Result<bool, StoreError> {
    let names = [DB, EARLIER_DB];
    let mut unused = Vec::new();
    for name in names {
        let db = dir.join(name);
        if never_held_data(&db).map_err(|err| StoreError::io(&db, err))? {
            unused.push(name);
        }
    }
    let unused = match *unused {
        [_, _] if acked.is_none() => return Ok(false),
        [unused] => Some(unused),
        _ => None,
    };
    Err(StoreError::TwoDatabases { path: dir.to_owned(), names, unused })
}

/// Removes incomplete databases, and durably creates the directory for a new one.
pub(super) fn clear(dir: &Path) -> Result<PathBuf, StoreError> {
    let db = dir.join(DB);
    let clear = || -> io::Result<()> {
        for name in [DB, EARLIER_DB] {
            match fs::remove_dir_all(dir.join(name)) {
                Err(err) if err.kind() != ErrorKind::NotFound => return Err(err),
                _ => {}
            }
        }
        fs::create_dir(&db)?;
        File::open(dir)?.sync_all()?;
        if let Some(parent) = dir.canonicalize()?.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(())
    };
    clear().map_err(|err| StoreError::io(&db, err))?;
    Ok(db)
}

/// Whether there is a store in `dir`.
pub(super) fn is_store(dir: &Path) -> bool {
    [lock::FILE, acked::FILE].iter().any(|name| dir.join(name).is_file())
}

/// Our keyspaces, with their directories.
pub(super) fn keyspaces(dir: &Path) -> Vec<(Part, PathBuf)> {
    let set = KeyspaceSet::detect(dir);
    let keyspaces = set.database(dir).join(KEYSPACES);
    let folders = OUR_KEYSPACES.iter().map(|name| keyspaces.join(name));
    set.parts().iter().copied().zip(folders).collect()
}

/// The directory of the engine's own keyspace, which describes the others.
pub(super) fn meta_keyspace(dir: &Path) -> PathBuf {
    database(dir).join(KEYSPACES).join(META_KEYSPACE)
}

/// Records that damage was found.
pub(super) fn suspect(dir: &Path) {
    // Errors are ignored: the damage is then found when it is read again.
    let _ = File::create(dir.join(SUSPECT));
}

/// Whether damage was found since the last check or repair that left no damage.
pub(super) fn is_suspect(dir: &Path) -> bool {
    dir.join(SUSPECT).exists()
}

/// Records that the store is not damaged.
pub(super) fn trust(dir: &Path) {
    // Errors are ignored: they only cause another check.
    let _ = fs::remove_file(dir.join(SUSPECT));
}

/// Makes the directories of the keyspaces durable: fjall syncs the content of each when it creates it, but
/// not its entry in the parent directory.
pub(super) fn sync_keyspaces(dir: &Path) -> Result<(), StoreError> {
    let keyspaces = database(dir).join(KEYSPACES);
    let sync = || File::open(&keyspaces)?.sync_all();
    sync().map_err(|err| StoreError::io(&keyspaces, err))
}

/// Whether there is no database, or one whose creation was interrupted.
fn never_held_data(db: &Path) -> io::Result<bool> {
    let names = match names(db) {
        Ok(names) => names,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(true),
        Err(err) => return Err(err),
    };
    let known = [VERSION, LOCK, KEYSPACES, FIRST_LOG];
    if names.iter().any(|name| !known.contains(&name.as_str())) {
        return Ok(false);
    }
    let has_tables = |keyspace: &&str| {
        let tables = db.join(KEYSPACES).join(keyspace).join(integrity::TABLES);
        tables.read_dir().is_ok_and(|mut tables| tables.next().is_some())
    };
    if OUR_KEYSPACES.iter().any(has_tables) {
        return Ok(false);
    }
    match File::open(db.join(FIRST_LOG)) {
        Ok(log) => write_ahead_log::never_used(&log),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(true),
        Err(err) => Err(err),
    }
}

/// Checks a database that has had data; returns the first missing, damaged or foreign file.
fn complete(db: &Path, set: KeyspaceSet) -> io::Result<Option<String>> {
    let missing = |path: &Path| Some(format!("{} is missing or empty", path.display()));
    let stray = |path: &Path| Some(format!("{} doesn't belong there", path.display()));
    let version = db.join(VERSION);
    if !has_content(&version)? {
        return Ok(missing(&version));
    }
    for name in names(db)? {
        let path = db.join(&name);
        if let Some(number) = name.strip_suffix(LOG_SUFFIX)
            && (number.parse::<u64>().is_err() || !path.is_file())
        {
            return Ok(stray(&path));
        }
    }
    let keyspaces = db.join(KEYSPACES);
    let ours = OUR_KEYSPACES.into_iter().take(set.parts().len());
    let needed = || ours.clone().chain([META_KEYSPACE]);
    for needed in needed() {
        let current = keyspaces.join(needed).join(CURRENT);
        if !has_content(&current)? {
            return Ok(missing(&current));
        }
        if let Some(path) = integrity::check(&keyspaces.join(needed))? {
            return Ok(Some(format!("{} is not what was written", path.display())));
        }
    }
    for name in names(&keyspaces)? {
        if !needed().any(|needed| needed == name) {
            return Ok(stray(&keyspaces.join(name)));
        }
    }
    Ok(None)
}

fn has_content(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_file() && meta.len() > 0),
        Err(err) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&err.kind()) => {
            Ok(false)
        }
        Err(err) => Err(err),
    }
}

/// The names in a directory, sorted so that messages are the same each time.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::write_ahead_log::tests::encoded;
    use super::*;

    #[test]
    fn a_foreign_directory_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let err = prepare(dir.path()).unwrap_err();
        let text = err.to_string();
        assert!(text.contains("(it holds \"thesis.tex\")"), "{text}");
        let file = dir.path().join("thesis.tex");
        let err = prepare(&file).unwrap_err();
        assert!(err.to_string().contains("(it is a file)"), "{err}");
    }

    #[test]
    fn an_interrupted_creation_is_repeated_at_every_step() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join(DB);
        let fresh = || !has_database(dir.path(), None).unwrap();
        assert!(fresh());
        fs::create_dir(&db).unwrap();
        assert!(fresh());
        fs::write(db.join(LOCK), "").unwrap();
        fs::create_dir(db.join(KEYSPACES)).unwrap();
        assert!(fresh());
        fs::write(db.join(FIRST_LOG), "").unwrap();
        assert!(fresh());
        fs::write(db.join(FIRST_LOG), [0, 0]).unwrap();
        fs::write(db.join(VERSION), "").unwrap();
        assert!(fresh());
        // The first commit, torn.
        fs::write(db.join(FIRST_LOG), [1, 2, 0, 0, 0, 7]).unwrap();
        assert!(fresh());
        fs::write(db.join(FIRST_LOG), encoded(0, 0, &[])).unwrap();
        assert!(has_database(dir.path(), None).is_err(), "data, but no version");
    }

    #[test]
    fn a_creation_that_an_earlier_version_has_begun_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let earlier = KeyspaceSet::WithoutSubmissions.database(dir.path());
        fs::create_dir(&earlier).unwrap();
        assert!(!has_database(dir.path(), None).unwrap());
        assert_eq!(clear(dir.path()).unwrap(), dir.path().join(DB));
        assert_eq!(KeyspaceSet::detect(dir.path()), KeyspaceSet::All);
        assert!(!earlier.exists());
    }

    #[test]
    fn a_store_with_two_databases_is_refused_unless_neither_was_used() {
        let dir = tempfile::tempdir().unwrap();
        let databases = [KeyspaceSet::All, KeyspaceSet::WithoutSubmissions];
        let databases = databases.map(|set| set.database(dir.path()));
        databases.iter().for_each(|db| fs::create_dir(db).unwrap());
        assert!(!has_database(dir.path(), None).unwrap());
        let refused = |acked| has_database(dir.path(), acked).unwrap_err().to_string();
        let use_one = |db: &Path| fs::write(db.join(FIRST_LOG), encoded(0, 0, &[])).unwrap();
        use_one(&databases[1]);
        let text = format!(
            "{} has two databases, db-3 and db-2: db-3 was never used, so move it away",
            dir.path().display()
        );
        assert_eq!((refused(None), refused(Some(1))), (text.clone(), text));
        use_one(&databases[0]);
        let text = refused(None);
        assert!(text.ends_with(": move the one away that isn't the store's"), "{text}");
        clear(dir.path()).unwrap();
        assert_eq!(names(dir.path()).unwrap(), [DB]);
    }

    #[test]
    fn a_database_with_acknowledged_data_is_not_recreated() {
        let dir = tempfile::tempdir().unwrap();
        let err = has_database(dir.path(), Some(1)).unwrap_err();
        assert!(matches!(err, StoreError::Corrupt { .. }), "{err}");
    }
}
