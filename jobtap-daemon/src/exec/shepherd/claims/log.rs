//! The claims on disk: a file in the state directory with the ids of all jobs that a shepherd began
//! to launch and whose end the manager has not acknowledged.
//!
//! A line is a checksum and the ids of one group, in hexadecimal; the first line names the format. A line of jobs that
//! were claimed ahead has the boot of the host before the ids; which of them have begun in this boot is in a file of its
//! own ([`begun`](super::begun)).
//! Each line is synced before the next one is written, so that a crash can only tear the last line,
//! and no job of a torn line was started. Damage anywhere else may hide a job that did run. Such a
//! file is refused as a whole, since there is no way to find out which job that is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jobtap_core::job::JobId;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64;

use super::begun::Begun;
use crate::open_files::OpenFiles;

/// Name of the file in the state directory.
const NAME: &str = "shepherd.claims";

/// Name of the file that will replace it, while that is being written.
const NEXT: &str = "shepherd.claims.next";

/// The first line, after its checksum.
const FORMAT: &str = "jobtap claims 2";

/// What the content of a line of jobs that were claimed ahead begins with.
const AHEAD: &str = "ahead ";

/// What the content of a line of jobs begins with that were claimed ahead and are given back.
const BACK: &str = "back ";

/// A file larger than this many bytes is rewritten without the dropped claims, provided that this leaves
/// at most a quarter of it.
const COMPACT_ABOVE: u64 = 64 * 1024;

/// The file, and the claims in force.
#[derive(Debug)]
pub(super) struct ClaimLog {
    dir: OwnedFd,
    path: PathBuf,
    claimed: BTreeSet<JobId>,
    /// Jobs that were claimed ahead and haven't begun.
    ahead: BTreeSet<JobId>,
    /// Jobs that were claimed ahead, as the file says, and are given back.
    given_back: BTreeSet<JobId>,
    begun: Begun,
    /// The file, open for appending; `None` if the next claim has to rewrite it: at first, and after an
    /// error, which leaves the content on disk unknown.
    file: Option<File>,
    written: u64,
}

impl ClaimLog {
    /// Reads the claims in `state_dir`. Nothing is written before the first claim.
    ///
    /// # Errors
    /// Fails if the directory or the file can't be read, or the file is damaged; the message names it.
    pub(super) fn open(state_dir: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = openat(CWD, state_dir, flags, Mode::empty())?;
        let path = state_dir.join(NAME);
        // NONBLOCK, so that a FIFO in its place does not block the start.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let begun = Begun::open(&dir)?;
        let Stored { mut claimed, ahead } = match openat(&dir, NAME, flags, Mode::empty()) {
            Ok(file) => {
                let mut text = Vec::new();
                File::from(file).read_to_end(&mut text)?;
                read(&text).map_err(|line| damaged(&path, line))?
            }
            Err(Errno::NOENT) => Stored::default(),
            Err(errno) => return Err(errno.into()),
        };
        claimed.extend(begun.may_have_begun(ahead));
        let dir = OpenFiles::of_this_process().apart(dir);
        let (ahead, given_back) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { dir, path, claimed, ahead, given_back, begun, file: None, written: 0 })
    }

    /// The claimed jobs.
    pub(super) fn claimed(&self) -> &BTreeSet<JobId> {
        &self.claimed
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a job was claimed ahead and hasn't begun.
    pub(super) fn is_ahead(&self, id: JobId) -> bool {
        self.ahead.contains(&id)
    }

    /// Claims jobs ahead. On return that is durable.
    ///
    /// # Errors
    /// Fails if the file can't be written or synced.
    pub(super) fn claim_ahead(&mut self, ids: &[JobId]) -> io::Result<()> {
        let ids: Vec<JobId> = ids.iter().filter(|id| !self.claimed.contains(id)).copied().collect();
        let Some(boot) = self.begun.boot().filter(|_| !ids.is_empty()) else { return Ok(()) };
        let line = ahead_line(boot, &ids);
        // Only a rewrite makes the files.
        if self.file.is_none() || self.is_outgrown() {
            self.rewrite(&[])?;
        }
        self.append(&line)?;
        self.ahead.extend(ids);
        Ok(())
    }

    /// Notes that jobs begin that were claimed ahead. That outlives this process, and the claim ahead outlives the host.
    ///
    /// # Errors
    /// Fails if the file can't be written.
    pub(super) fn begin(&mut self, ids: &[JobId]) -> io::Result<()> {
        self.begun.add(ids)?;
        ids.iter().for_each(|id| {
            self.ahead.remove(id);
        });
        self.claimed.extend(ids);
        Ok(())
    }

    /// Appends a line and syncs it.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        // The file is put back only after a successful sync: after a failed one the kernel may have
        // dropped the dirty pages, and a later sync that succeeds would prove nothing.
        let Some(mut file) = self.file.take() else { return Err(io::ErrorKind::NotFound.into()) };
        // First what is no longer so: the line may claim one of these jobs again.
        let mut text = self.back_line();
        text.extend_from_slice(line);
        file.write_all(&text)?;
        file.sync_data()?;
        self.written += text.len() as u64;
        self.file = Some(file);
        self.given_back.clear();
        Ok(())
    }

    /// Claims jobs. On return the claims are durable.
    ///
    /// # Errors
    /// Fails if the file can't be written or synced. None of the jobs is claimed then, although the file
    /// may contain them; the next claim rewrites it.
    pub(super) fn claim(&mut self, ids: &[JobId]) -> io::Result<()> {
        let outcome = match self.file {
            Some(_) if !self.is_outgrown() => self.append(&line(&hexadecimal(ids))),
            _ => self.rewrite(ids),
        };
        if outcome.is_ok() {
            self.claimed.extend(ids);
            ids.iter().for_each(|id| {
                self.ahead.remove(id);
            });
        }
        outcome
    }

    /// Drops the claim of a job whose end is durable. The file is updated with the next rewrite, which
    /// may be much later: no manager requests such a job again.
    pub(super) fn forget(&mut self, id: JobId) {
        self.claimed.remove(&id);
        if self.ahead.remove(&id) {
            self.given_back.insert(id);
        }
    }

    /// Writes which jobs are given back, if there are any.
    ///
    /// # Errors
    /// Fails if the file can't be written or synced.
    pub(super) fn give_back(&mut self) -> io::Result<()> {
        if self.given_back.is_empty() {
            return Ok(());
        }
        self.append(&[])
    }

    fn back_line(&self) -> Vec<u8> {
        let ids: Vec<JobId> = self.given_back.iter().copied().collect();
        match ids.is_empty() {
            true => Vec::new(),
            false => line(&format!("{BACK}{}", hexadecimal(&ids))),
        }
    }

    fn is_outgrown(&self) -> bool {
        is_outgrown(self.written, self.claimed.len() + self.ahead.len())
    }

    /// Writes a new file with the claims in force and those of `more`, and replaces the old one with it.
    fn rewrite(&mut self, more: &[JobId]) -> io::Result<()> {
        self.file = None;
        let mut text = line(FORMAT);
        let claimed: Vec<JobId> = self.claimed.iter().chain(more).copied().collect();
        text.extend(line(&hexadecimal(&claimed)));
        if let Some(boot) = self.begun.boot().filter(|_| !self.ahead.is_empty()) {
            let ahead: Vec<JobId> = self.ahead.iter().copied().collect();
            text.extend(ahead_line(boot, &ahead));
        }
        match unlinkat(&self.dir, NEXT, AtFlags::empty()) {
            // Left by a shepherd that was killed while it wrote the file.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, NEXT, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(OpenFiles::of_this_process().apart(file));
        file.write_all(&text)?;
        // The content must be durable before the name refers to it, and the name before a job is
        // started: so the file is synced before the rename, and the directory after it.
        file.sync_all()?;
        renameat(&self.dir, NEXT, &self.dir, NAME)?;
        rustix::fs::fsync(&self.dir)?;
        // All that have begun are among the claims now.
        self.begun.clear(&self.dir)?;
        self.given_back.clear();
        self.written = text.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}

/// Whether a file of `written` bytes with `claimed` claims in force is to be rewritten.
fn is_outgrown(written: u64, claimed: usize) -> bool {
    /// Digits of an id and a blank.
    const LONGEST: u64 = 17;
    written > COMPACT_ABOVE && written / 4 > LONGEST * claimed as u64
}

fn hexadecimal(ids: &[JobId]) -> String {
    let mut text = String::new();
    for id in ids {
        let blank = if text.is_empty() { "" } else { " " };
        // Writing to a string doesn't fail.
        let _ = write!(text, "{blank}{:x}", id.as_u64());
    }
    text
}

fn line(text: &str) -> Vec<u8> {
    format!("{:016x} {text}\n", xxh3_64(text.as_bytes())).into_bytes()
}

fn ahead_line(boot: &str, ids: &[JobId]) -> Vec<u8> {
    line(&format!("{AHEAD}{boot} {}", hexadecimal(ids)))
}

/// What is in a file.
#[derive(Debug, Default)]
struct Stored {
    claimed: BTreeSet<JobId>,
    /// Jobs that were claimed ahead, each with the boot of the host.
    ahead: BTreeMap<JobId, String>,
}

fn ids(text: &str) -> Option<Vec<JobId>> {
    let id = |word| u64::from_str_radix(word, 16).ok().map(JobId::new);
    text.split_whitespace().map(id).collect()
}

/// Reads a file. The error is the number of the damaged line.
fn read(text: &[u8]) -> Result<Stored, usize> {
    let mut all = Stored::default();
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    for (number, line) in (1..).zip(&lines) {
        match (number, content(line)) {
            (1, Some(FORMAT)) => {}
            (2.., Some(text)) => {
                if let Some((boot, text)) =
                    text.strip_prefix(AHEAD).and_then(|rest| rest.split_once(' '))
                {
                    let ids = ids(text).ok_or(number)?;
                    all.ahead.extend(ids.into_iter().map(|id| (id, boot.to_owned())));
                } else if let Some(text) = text.strip_prefix(BACK) {
                    for id in ids(text).ok_or(number)? {
                        all.ahead.remove(&id);
                    }
                } else {
                    all.claimed.extend(ids(text).ok_or(number)?);
                }
            }
            (2.., None) if number == lines.len() && is_torn(line) => {}
            _ => return Err(number),
        }
    }
    if lines.is_empty() { Err(1) } else { Ok(all) }
}

/// The content of a line, if its checksum is right. The newline may be missing.
fn content(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?;
    let (sum, text) = text.strip_suffix('\n').unwrap_or(text).split_once(' ')?;
    (u64::from_str_radix(sum, 16) == Ok(xxh3_64(text.as_bytes()))).then_some(text)
}

/// Whether a line was written in part: its end is missing, or a block that was not written reads as zeros.
fn is_torn(line: &[u8]) -> bool {
    line.last() != Some(&b'\n') || line.contains(&0)
}

fn damaged(path: &Path, line: usize) -> io::Error {
    let path = path.display();
    let text = format!(
        "{path}: line {line} is damaged. The file says which jobs were started, so that none is \
         started twice. If no job may run twice, cancel those that were about to start; then move \
         the file away and start the manager again"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    fn some<const N: usize>(ids: [u64; N]) -> [JobId; N] {
        ids.map(JobId::new)
    }

    fn claimed(dir: &TempDir) -> Vec<u64> {
        ClaimLog::open(dir.path()).unwrap().claimed().iter().map(|id| id.as_u64()).collect()
    }

    fn file_of(dir: &TempDir) -> PathBuf {
        dir.path().join(NAME)
    }

    /// A directory in which two groups of jobs are claimed.
    fn two_groups() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut log = ClaimLog::open(dir.path()).unwrap();
        log.claim(&some([1, 2])).unwrap();
        log.claim(&some([0xabc, u64::MAX])).unwrap();
        dir
    }

    #[test]
    fn claims_survive_reopening_the_log() {
        let dir = two_groups();
        assert_eq!(claimed(&dir), [1, 2, 0xabc, u64::MAX]);
        let mut log = ClaimLog::open(dir.path()).unwrap();
        log.forget(JobId::new(2));
        log.claim(&some([3])).unwrap();
        assert_eq!(claimed(&dir), [1, 3, 0xabc, u64::MAX]);
        let mode = fs::metadata(file_of(&dir)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for open in [log.dir.as_fd(), log.file.as_ref().unwrap().as_fd()] {
            let flags = rustix::io::fcntl_getfd(open).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "jobs would inherit it");
        }
    }

    #[test]
    fn what_was_claimed_ahead_and_is_given_back_does_not_count_if_the_host_goes_down() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = ClaimLog::open(dir.path()).unwrap();
        log.claim_ahead(&some([1, 2, 3])).unwrap();
        log.forget(JobId::new(2));
        log.forget(JobId::new(3));
        // With the next line.
        log.claim_ahead(&some([3, 4])).unwrap();
        log.forget(JobId::new(4));
        let ahead = |dir: &TempDir| {
            let Stored { ahead, .. } = read(&fs::read(file_of(dir)).unwrap()).unwrap();
            ahead.into_keys().map(JobId::as_u64).collect::<Vec<_>>()
        };
        assert_eq!(ahead(&dir), [1, 3, 4]);
        log.give_back().unwrap();
        assert_eq!(ahead(&dir), [1, 3]);
    }

    #[test]
    fn the_file_of_many_jobs_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = ClaimLog::open(dir.path()).unwrap();
        log.claim(&some([7])).unwrap();
        for group in 0..200u64 {
            let ids = (0..100).map(|job| JobId::new((group << 40) + job + 8));
            let ids: Vec<JobId> = ids.collect();
            log.claim(&ids).unwrap();
            ids.iter().for_each(|id| log.forget(*id));
        }
        assert!(fs::metadata(file_of(&dir)).unwrap().len() < 2 * COMPACT_ABOVE);
        assert!(claimed(&dir).contains(&7), "a job that runs stays claimed");
    }

    /// A rewrite takes one more sync, that of the directory.
    #[test]
    fn a_small_file_or_one_of_claims_in_force_is_not_rewritten() {
        assert!(!is_outgrown(COMPACT_ABOVE, 0));
        assert!(is_outgrown(COMPACT_ABOVE + 1, 0));
        assert!(!is_outgrown(COMPACT_ABOVE + 1, 10_000));
    }

    #[test]
    fn a_torn_last_line_is_ignored_and_never_appended_to() {
        let whole = fs::read(file_of(&two_groups())).unwrap();
        let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let mut cases: Vec<Vec<u8>> =
            (last..whole.len() - 1).map(|length| whole[..length].to_vec()).collect();
        let mut hole = whole.clone();
        hole[last..last + 4].fill(0);
        cases.push(hole);
        for torn in cases {
            let dir = tempfile::tempdir().unwrap();
            fs::write(file_of(&dir), torn).unwrap();
            let mut log = ClaimLog::open(dir.path()).unwrap();
            log.claim(&some([5])).unwrap();
            log.claim(&some([6])).unwrap();
            assert_eq!(claimed(&dir), [1, 2, 5, 6]);
        }
    }

    #[test]
    fn a_file_without_a_format_is_refused() {
        for text in ["", "\n", "0000000000000000 jobtap claims 9\n", "1 2 3\n"] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(file_of(&dir), text).unwrap();
            let error = ClaimLog::open(dir.path()).unwrap_err().to_string();
            assert!(error.contains("shepherd.claims: line 1 is damaged. "), "{error}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other"), line(FORMAT)).unwrap();
        std::os::unix::fs::symlink("other", file_of(&dir)).unwrap();
        ClaimLog::open(dir.path()).unwrap_err();
        std::os::unix::fs::symlink("other", dir.path().join(NEXT)).unwrap();
        fs::remove_file(file_of(&dir)).unwrap();
        ClaimLog::open(dir.path()).unwrap().claim(&some([1])).unwrap();
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), line(FORMAT));
    }

    #[test]
    fn a_claim_that_cannot_be_written_fails_and_can_be_retried() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = ClaimLog::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join(NEXT)).unwrap();
        log.claim(&some([1])).unwrap_err();
        assert!(log.claimed().is_empty());
        fs::remove_dir(dir.path().join(NEXT)).unwrap();
        log.claim(&some([2])).unwrap();
        // As on a full disk: the content after an error is unknown, so the file is rewritten.
        log.file = Some(File::options().write(true).open("/dev/full").unwrap());
        log.claim(&some([3])).unwrap_err();
        log.claim(&some([4])).unwrap();
        // /dev/null accepts writes but can't be synced.
        log.file = Some(File::options().write(true).open("/dev/null").unwrap());
        log.claim(&some([5])).unwrap_err();
        log.claim(&some([6])).unwrap();
        assert_eq!(claimed(&dir), [2, 4, 6]);
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_refused_or_hides_no_claim(at: prop::sample::Index, bit in 0..8u8) {
            let whole = fs::read(file_of(&two_groups())).unwrap();
            let mut text = whole.clone();
            let at = at.index(text.len());
            text[at] ^= 1 << bit;
            match read(&text) {
                Err(_) => {}
                Ok(Stored { claimed, .. }) => {
                    let expected = BTreeSet::from(some([1, 2, 0xabc, u64::MAX]));
                    // A last line that has lost its end, or has a zero in it, counts as torn.
                    let last = text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
                    prop_assert!(claimed == expected || is_torn(last), "{claimed:?}");
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused_by_a_line_of_it(text: Vec<u8>) {
            if let Err(line) = read(&text) {
                prop_assert!(line <= text.split_inclusive(|byte| *byte == b'\n').count().max(1));
            }
        }
    }
}
