//! The end of the journals after a power loss.
//!
//! Only the commit that was being written can be torn: each is durable before the next begins. It
//! was not acknowledged, so it goes, and what was found of it is kept aside. Whatever else is
//! damaged belongs to acknowledged data, and the store is refused before the engine, which would
//! cut there too, has touched it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::StoreError;
use super::files;
use super::journal::{self, Contents, Rest};

/// What was cut off a journal when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The journal.
    pub file: PathBuf,
    /// Where the cut bytes began.
    pub offset: u64,
    /// How many they were.
    pub size: u64,
    /// The file that holds them now.
    pub kept: PathBuf,
    rest: Rest,
}

impl Cut {
    /// What there is to tell once the database has all that was acknowledged: the mere beginning
    /// of a commit is no news, since a killed manager leaves that too.
    pub(super) fn news(self) -> Option<Self> {
        if self.rest == Rest::Unfinished {
            // A copy that stays is a nuisance, not a fault.
            let _ = fs::remove_file(&self.kept);
            return None;
        }
        Some(self)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ended in a torn commit, as after a power loss: its {} bytes at offset {} were cut \
             off and are kept in {}; nothing acknowledged was among them",
            self.file.display(),
            self.size,
            self.offset,
            self.kept.display()
        )
    }
}

/// Whether nothing acknowledged is missing from the journals; a torn commit may be there.
pub(super) fn check(dir: &Path, acked: Option<u64>) -> Result<(), StoreError> {
    torn(dir, acked)?;
    let acked = acked.unwrap_or_default();
    match last_commit(dir)? {
        Some(found) if found < acked => {
            Err(StoreError::Lost { path: dir.to_owned(), acked, found })
        }
        // Without one all commits are in tables.
        _ => Ok(()),
    }
}

/// The last commit in the journals.
fn last_commit(dir: &Path) -> Result<Option<u64>, StoreError> {
    let db = dir.join(files::DB);
    let read = || -> io::Result<Option<u64>> {
        let mut last = None;
        for path in journals(&db)? {
            last = journal::read(&File::open(path)?, last)?.last;
        }
        Ok(last.and_then(|batch| batch.commit))
    };
    read().map_err(|err| StoreError::io(&db, err))
}

/// The journal that ends with a torn commit which was not acknowledged.
fn torn(dir: &Path, acked: Option<u64>) -> Result<Option<(PathBuf, Contents)>, StoreError> {
    let Some((path, contents)) = damaged(dir)? else { return Ok(None) };
    let last = contents.last.and_then(|batch| batch.commit);
    let lost = match last {
        Some(last) => last < acked.unwrap_or_default(),
        // The first journal begins with the commit that creates the store.
        None => acked.is_some() && path.ends_with(files::FIRST_JOURNAL),
    };
    if lost {
        return Err(refusal(dir, &path, &contents));
    }
    Ok(Some((path, contents)))
}

/// Cuts what a power loss left of a commit that was not acknowledged; `acked` is the last one that
/// was. A store that is damaged elsewhere stays as it is.
pub(super) fn mend(dir: &Path, acked: Option<u64>) -> Result<Option<Cut>, StoreError> {
    let Some((path, contents)) = torn(dir, acked)? else { return Ok(None) };
    let last = contents.last.and_then(|batch| batch.commit);
    let mend = || -> io::Result<Option<Cut>> {
        // Without a number to compare, only the opened database will tell whether acknowledged
        // data were cut.
        let cut = match (contents.rest, last) {
            (Rest::Unfinished, Some(_)) => None,
            _ => Some(keep(dir, &path, &contents)?),
        };
        let db = dir.join(files::DB);
        if contents.end == 0 && journals(&db)?.last() != Some(&path) {
            // An empty journal before another is taken for a lost one.
            fs::remove_file(&path)?;
            File::open(db)?.sync_all()?;
        } else {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(contents.end)?;
            file.sync_all()?;
        }
        Ok(cut)
    };
    mend().map_err(|err| StoreError::io(&path, err))
}

/// The journal that doesn't end with a whole commit, when that may be the last commit of all.
fn damaged(dir: &Path) -> Result<Option<(PathBuf, Contents)>, StoreError> {
    let db = dir.join(files::DB);
    let mut last = None;
    let mut open: Option<(PathBuf, Contents)> = None;
    let journals = journals(&db).map_err(|err| StoreError::io(&db, err))?;
    if journals.is_empty() {
        // The engine would count its batches from the start again, and hide what is written then.
        let detail = format!("{} holds no journal", db.display());
        return Err(StoreError::Corrupt { path: dir.to_owned(), detail });
    }
    for path in journals {
        let read = || -> io::Result<(Contents, bool)> {
            let file = File::open(&path)?;
            let contents = journal::read(&file, last)?;
            let durable = journal::was_durable(&file, &contents)?;
            Ok((contents, durable))
        };
        let (contents, durable) = read().map_err(|err| StoreError::io(&path, err))?;
        // A journal is filled and durable before the engine writes to the next.
        if contents.length > 0
            && let Some((earlier, contents)) = &open
        {
            return Err(refusal(dir, earlier, contents));
        }
        if durable {
            return Err(refusal(dir, &path, &contents));
        }
        last = contents.last;
        if contents.rest != Rest::Nothing || contents.length == 0 && open.is_none() {
            open = Some((path, contents));
        }
    }
    Ok(open.filter(|(_, contents)| contents.rest != Rest::Nothing))
}

/// The journals, oldest first.
fn journals(db: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(db)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(Ok(number)) = name.strip_suffix(files::JOURNAL).map(str::parse::<u64>) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn refusal(dir: &Path, journal: &Path, contents: &Contents) -> StoreError {
    let place = match contents.last.and_then(|batch| batch.commit) {
        Some(last) => format!("after commit {last}"),
        None => "at the first commit".to_owned(),
    };
    let (journal, offset) = (journal.display(), contents.end);
    StoreError::Corrupt {
        path: dir.to_owned(),
        detail: format!(
            "{journal} at offset {offset}: acknowledged data {place} are not what was written"
        ),
    }
}

/// Copies what will be cut to a new file in the store's directory.
fn keep(dir: &Path, journal: &Path, contents: &Contents) -> io::Result<Cut> {
    let size = contents.length.saturating_sub(contents.end);
    let mut source = File::open(journal)?;
    source.seek(SeekFrom::Start(contents.end))?;
    let name = journal.file_name().unwrap_or_default().to_string_lossy();
    let (kept, mut copy) = create(dir, &format!("torn-{name}-{}", contents.end))?;
    io::copy(&mut source.take(size), &mut copy)?;
    copy.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok(Cut { file: journal.to_owned(), offset: contents.end, size, kept, rest: contents.rest })
}

/// A new file of that name, with a number when the same place was torn before.
fn create(dir: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let mut path = dir.join(name);
    let mut number = 1;
    loop {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {
                number += 1;
                path = dir.join(format!("{name}-{number}"));
            }
            opened => return opened.map(|file| (path, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::tests::encoded;
    use super::*;

    /// A store's directory with these journals.
    fn store(journals: &[(u64, Vec<u8>)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(files::DB)).unwrap();
        for (number, bytes) in journals {
            fs::write(journal(dir.path(), *number), bytes).unwrap();
        }
        dir
    }

    fn journal(dir: &Path, number: u64) -> PathBuf {
        dir.join(files::DB).join(format!("{number}{}", files::JOURNAL))
    }

    fn whole(commit: u64) -> Vec<u8> {
        encoded(commit * 2, commit, &[vec![1; 100]])
    }

    fn torn(commit: u64) -> Vec<u8> {
        let mut batch = whole(commit);
        batch[60] = 0;
        batch
    }

    #[test]
    fn what_is_cut_is_named_and_kept() {
        let dir = store(&[(9, [whole(4), torn(5)].concat())]);
        let cut = mend(dir.path(), Some(4)).unwrap().unwrap();
        let (file, offset, size) = (journal(dir.path(), 9), whole(4).len(), torn(5).len());
        let kept = dir.path().join(format!("torn-9.jnl-{offset}"));
        let text = format!(
            "{} ended in a torn commit, as after a power loss: its {size} bytes at offset {offset} \
             were cut off and are kept in {}; nothing acknowledged was among them",
            file.display(),
            kept.display()
        );
        assert_eq!(cut.to_string(), text);
        assert_eq!(fs::read(kept).unwrap(), torn(5));
        assert_eq!(fs::read(&file).unwrap(), whole(4));
        assert_eq!(mend(dir.path(), Some(4)).unwrap(), None);

        fs::write(&file, [whole(4), torn(5)].concat()).unwrap();
        let again = mend(dir.path(), Some(4)).unwrap().unwrap();
        assert_eq!(again.kept, dir.path().join(format!("torn-9.jnl-{offset}-2")));
    }

    /// A killed manager leaves that, and may be killed often.
    #[test]
    fn the_beginning_of_a_commit_is_cut_and_not_kept() {
        let dir = store(&[(9, [whole(4).as_slice(), &whole(5)[..30]].concat())]);
        assert_eq!(mend(dir.path(), Some(4)).unwrap(), None);
        assert_eq!(fs::read(journal(dir.path(), 9)).unwrap(), whole(4));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the database is there");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let (sender, made) = std::sync::mpsc::channel();
        // On a thread of its own: the fault would be to try further names for ever.
        std::thread::spawn(move || sender.send(create(&missing, "torn").map(drop)));
        let made = made.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(made.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_was_acknowledged_is_left_as_it_is() {
        let bytes = [whole(4), torn(5)].concat();
        let dir = store(&[(9, bytes.clone())]);
        let text = mend(dir.path(), Some(5)).unwrap_err().to_string();
        let file = journal(dir.path(), 9);
        let expected = format!(
            "{} is damaged ({} at offset {}: acknowledged data after commit 4 are not what was \
             written): ",
            dir.path().display(),
            file.display(),
            whole(4).len()
        );
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(fs::read(file).unwrap(), bytes);
    }

    #[test]
    fn a_journal_that_others_follow_must_be_whole() {
        for first in [torn(0), [whole(0), torn(1)].concat(), Vec::new(), vec![0; 9]] {
            for second in [whole(2), torn(2)] {
                let dir = store(&[(0, first.clone()), (1, second)]);
                let err = mend(dir.path(), Some(0)).unwrap_err();
                assert!(err.to_string().contains("0.jnl at offset "), "{err}");
            }
        }
        let dir = store(&[(9, whole(3)), (10, whole(4)), (11, whole(5)), (12, vec![0; 99])]);
        assert_eq!(mend(dir.path(), Some(5)).unwrap(), None);
        fs::remove_file(journal(dir.path(), 10)).unwrap();
        assert!(mend(dir.path(), Some(5)).is_err(), "one is missing");
    }

    /// The disk was full: the commit failed, but the engine had begun the next journal by then.
    #[test]
    fn a_journal_of_which_nothing_remains_is_not_left_before_another() {
        let dir = store(&[(9, torn(5)), (10, Vec::new())]);
        assert!(mend(dir.path(), Some(4)).unwrap().is_some());
        assert!(!journal(dir.path(), 9).exists());
        assert_eq!(mend(dir.path(), Some(4)).unwrap(), None);
        let dir = store(&[(9, torn(5))]);
        assert!(mend(dir.path(), Some(4)).unwrap().is_some());
        assert!(journal(dir.path(), 9).exists(), "the engine needs one");
    }

    #[test]
    fn a_store_without_journals_is_damaged() {
        let err = mend(store(&[]).path(), Some(4)).unwrap_err();
        assert!(err.to_string().contains("db-2 holds no journal"), "{err}");
    }
}
