//! Cuts off a torn commit at the end of the write-ahead logs, which a power loss may leave.
//!
//! Only the commit that was being written can be torn, since each commit is durable before the next
//! begins. It was not acknowledged, so it is cut off, and a copy of the cut bytes is saved. Any other
//! damage concerns acknowledged data. Then the store is refused before the engine opens it, because the
//! engine would cut the write-ahead log at the damage.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::StoreError;
use super::files;
use super::write_ahead_log::{self, Contents, Rest};

/// The torn commit that was cut off a write-ahead log when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The write-ahead log.
    pub file: PathBuf,
    /// The offset of the cut bytes.
    pub offset: u64,
    /// The number of the cut bytes.
    pub size: u64,
    /// The file with the copy of the cut bytes.
    pub kept: PathBuf,
    rest: Rest,
}

impl Cut {
    /// Returns `self` if the cut is to be logged. An incomplete commit is not, since a killed manager
    /// leaves one too; then the copy is removed. To be called once it is clear that the database has all
    /// acknowledged commits.
    pub(super) fn reportable(self) -> Option<Self> {
        if self.rest == Rest::Unfinished {
            // A copy that can't be removed does no harm.
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

/// Checks that no acknowledged commit is missing from the write-ahead logs. A torn commit is accepted.
pub(super) fn check(dir: &Path, acked: Option<u64>) -> Result<(), StoreError> {
    torn(dir, acked)?;
    let acked = acked.unwrap_or_default();
    match last_commit(dir)? {
        Some(found) if found < acked => {
            Err(StoreError::Lost { path: dir.to_owned(), acked, found })
        }
        // Without a commit in the write-ahead logs, all commits are in tables.
        _ => Ok(()),
    }
}

/// The number of the last commit in the write-ahead logs.
fn last_commit(dir: &Path) -> Result<Option<u64>, StoreError> {
    let db = files::database(dir);
    let read = || -> io::Result<Option<u64>> {
        let mut last = None;
        for path in logs(&db)? {
            last = write_ahead_log::read(&File::open(path)?, last)?.last;
        }
        Ok(last.and_then(|batch| batch.commit))
    };
    read().map_err(|err| StoreError::io(&db, err))
}

/// The write-ahead log that ends with a torn commit, if that was not acknowledged.
fn torn(dir: &Path, acked: Option<u64>) -> Result<Option<(PathBuf, Contents)>, StoreError> {
    let Some((path, contents)) = damaged(dir)? else { return Ok(None) };
    let last = contents.last.and_then(|batch| batch.commit);
    let lost = match last {
        Some(last) => last < acked.unwrap_or_default(),
        // The first write-ahead log begins with the commit that creates the store.
        None => acked.is_some() && path.ends_with(files::FIRST_LOG),
    };
    if lost {
        return Err(refusal(dir, &path, &contents));
    }
    Ok(Some((path, contents)))
}

/// Cuts off a torn commit that was not acknowledged; `acked` is the number of the last acknowledged one.
/// Does not change a store that has other damage.
pub(super) fn mend(dir: &Path, acked: Option<u64>) -> Result<Option<Cut>, StoreError> {
    let Some((path, contents)) = torn(dir, acked)? else { return Ok(None) };
    let last = contents.last.and_then(|batch| batch.commit);
    let mend = || -> io::Result<Option<Cut>> {
        // Without the number of an earlier commit, only opening the database shows whether acknowledged
        // data was cut. So the bytes are saved even if the commit is incomplete.
        let cut = match (contents.rest, last) {
            (Rest::Unfinished, Some(_)) => None,
            _ => Some(keep(dir, &path, &contents)?),
        };
        let db = files::database(dir);
        if contents.end == 0 && logs(&db)?.last() != Some(&path) {
            // The engine takes an empty write-ahead log for a lost one if another log follows.
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

/// The write-ahead log that ends with an incomplete commit, if that may be the last commit of all.
fn damaged(dir: &Path) -> Result<Option<(PathBuf, Contents)>, StoreError> {
    let db = files::database(dir);
    let mut last = None;
    let mut open: Option<(PathBuf, Contents)> = None;
    let logs = logs(&db).map_err(|err| StoreError::io(&db, err))?;
    if logs.is_empty() {
        // The engine would number its batches from the start again, and rows written then would be older
        // than those in tables.
        let detail = format!("{} has no write-ahead log", db.display());
        return Err(StoreError::Corrupt { path: dir.to_owned(), detail });
    }
    for path in logs {
        let read = || -> io::Result<(Contents, bool)> {
            let file = File::open(&path)?;
            let contents = write_ahead_log::read(&file, last)?;
            let durable = write_ahead_log::was_durable(&file, &contents)?;
            Ok((contents, durable))
        };
        let (contents, durable) = read().map_err(|err| StoreError::io(&path, err))?;
        // The engine completes and syncs a write-ahead log before it writes to the next. So a damaged
        // one with commits after it is not torn.
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

/// The write-ahead logs, oldest first.
fn logs(db: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(db)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(Ok(number)) = name.strip_suffix(files::LOG_SUFFIX).map(str::parse::<u64>) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn refusal(dir: &Path, log: &Path, contents: &Contents) -> StoreError {
    let place = match contents.last.and_then(|batch| batch.commit) {
        Some(last) => format!("after commit {last}"),
        None => "at the first commit".to_owned(),
    };
    let (log, offset) = (log.display(), contents.end);
    StoreError::Corrupt {
        path: dir.to_owned(),
        detail: format!(
            "{log} at offset {offset}: acknowledged data {place} are not what was written"
        ),
    }
}

/// Copies the bytes that will be cut to a new file in the store's directory.
fn keep(dir: &Path, log: &Path, contents: &Contents) -> io::Result<Cut> {
    let size = contents.length.saturating_sub(contents.end);
    let mut source = File::open(log)?;
    source.seek(SeekFrom::Start(contents.end))?;
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let (kept, mut copy) = create(dir, &format!("torn-{name}-{}", contents.end))?;
    io::copy(&mut source.take(size), &mut copy)?;
    copy.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok(Cut { file: log.to_owned(), offset: contents.end, size, kept, rest: contents.rest })
}

/// Creates a file with that name, with a number appended if the file exists.
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
    use super::super::write_ahead_log::tests::encoded;
    use super::*;

    /// A store's directory with these write-ahead logs.
    fn store(logs: &[(u64, Vec<u8>)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(files::DB)).unwrap();
        for (number, bytes) in logs {
            fs::write(log(dir.path(), *number), bytes).unwrap();
        }
        dir
    }

    fn log(dir: &Path, number: u64) -> PathBuf {
        dir.join(files::DB).join(format!("{number}{}", files::LOG_SUFFIX))
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
    fn cut_bytes_are_reported_and_saved() {
        let dir = store(&[(9, [whole(4), torn(5)].concat())]);
        let cut = mend(dir.path(), Some(4)).unwrap().unwrap();
        let (file, offset, size) = (log(dir.path(), 9), whole(4).len(), torn(5).len());
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

    /// A killed manager leaves such a commit, and managers may be killed often.
    #[test]
    fn an_incomplete_commit_is_cut_and_not_saved() {
        let dir = store(&[(9, [whole(4).as_slice(), &whole(5)[..30]].concat())]);
        assert_eq!(mend(dir.path(), Some(4)).unwrap(), None);
        assert_eq!(fs::read(log(dir.path(), 9)).unwrap(), whole(4));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the database is there");
    }

    #[test]
    fn a_copy_that_cannot_be_created_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let (sender, made) = std::sync::mpsc::channel();
        // On a thread of its own, since a bug would show as an endless search for an unused name.
        std::thread::spawn(move || sender.send(create(&missing, "torn").map(drop)));
        let made = made.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(made.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn acknowledged_commits_are_not_changed() {
        let bytes = [whole(4), torn(5)].concat();
        let dir = store(&[(9, bytes.clone())]);
        let text = mend(dir.path(), Some(5)).unwrap_err().to_string();
        let file = log(dir.path(), 9);
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
    fn a_write_ahead_log_before_others_must_be_complete() {
        for first in [torn(0), [whole(0), torn(1)].concat(), Vec::new(), vec![0; 9]] {
            for second in [whole(2), torn(2)] {
                let dir = store(&[(0, first.clone()), (1, second)]);
                let err = mend(dir.path(), Some(0)).unwrap_err();
                assert!(err.to_string().contains("0.jnl at offset "), "{err}");
            }
        }
        let dir = store(&[(9, whole(3)), (10, whole(4)), (11, whole(5)), (12, vec![0; 99])]);
        assert_eq!(mend(dir.path(), Some(5)).unwrap(), None);
        fs::remove_file(log(dir.path(), 10)).unwrap();
        assert!(mend(dir.path(), Some(5)).is_err(), "one is missing");
    }

    /// The disk was full: the commit failed, but the engine had already begun the next write-ahead log.
    #[test]
    fn an_empty_write_ahead_log_before_another_is_removed() {
        let dir = store(&[(9, torn(5)), (10, Vec::new())]);
        assert!(mend(dir.path(), Some(4)).unwrap().is_some());
        assert!(!log(dir.path(), 9).exists());
        assert_eq!(mend(dir.path(), Some(4)).unwrap(), None);
        let dir = store(&[(9, torn(5))]);
        assert!(mend(dir.path(), Some(4)).unwrap().is_some());
        assert!(log(dir.path(), 9).exists(), "the engine needs one");
    }

    #[test]
    fn a_store_without_write_ahead_logs_is_damaged() {
        let err = mend(store(&[]).path(), Some(4)).unwrap_err();
        assert!(err.to_string().contains("db-3 has no write-ahead log"), "{err}");
    }
}
