//! Writes an archive. The file gets its name only when it is complete.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use bzip2::Compression;
use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;

use super::error::ArchiveError;
use super::path;
use crate::files::{Access, WholeFile};
use crate::store::{GuestFiles, Key, Store, StoredJob};

/// Values of the instance's keys that are newer than the stored ones.
pub type Overrides = BTreeMap<String, Vec<u8>>;

/// The contents of an archive that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of jobs.
    pub jobs: u64,
    /// The number of keys, those of jobs included.
    pub keys: u64,
}

/// Writes all keys of `store` and `files` to `file`, compressed according to the ending of its name.
/// `newer` replaces stored values of the same keys. All jobs are as they were at one moment.
///
/// # Errors
/// Fails if the compression is unknown, the store can't be read, or the file can't be written. In that
/// case, no file is left.
pub fn dump(
    store: &dyn Store,
    files: &GuestFiles,
    newer: Overrides,
    file: &Path,
) -> Result<Counts, ArchiveError> {
    let failed = |reason| ArchiveError::File { file: file.to_owned(), reason };
    let compression = Compressed::by_name(file)?;
    // Mode 0600, since it has the environments of all users' jobs.
    let whole = WholeFile::create(file, Access::Private).map_err(failed)?;
    let out = Out::new(compression, BufWriter::new(whole.file()));
    let counts = write_all(store, files, newer, out, &failed)?;
    whole.finish().map_err(failed)?;
    Ok(counts)
}

fn write_all(
    store: &dyn Store,
    files: &GuestFiles,
    newer: Overrides,
    out: Out<'_>,
    failed: &dyn Fn(io::Error) -> ArchiveError,
) -> Result<Counts, ArchiveError> {
    let mut archive = Archive::new(out);
    let mut counts = Counts::default();
    for key in store.instance_keys()? {
        if key.is_index() || newer.contains_key(&key.to_string()) {
            continue;
        }
        let value = match store.get(&key)? {
            Some(value) => Some(value),
            None => store.read_log(&key)?,
        };
        archive.add(&key.to_string(), &value.unwrap_or_default()).map_err(failed)?;
        counts.keys += 1;
    }
    for (key, value) in newer {
        archive.add(&key, &value).map_err(failed)?;
        counts.keys += 1;
    }
    let mut outcome = Ok(());
    store.scan_jobs(&|_| true, &mut |job| match archive.add_job(&job, files) {
        Ok(keys) => {
            counts.jobs += 1;
            counts.keys += keys;
            ControlFlow::Continue(())
        }
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome.map_err(failed)?;
    archive.finish().map_err(failed)?;
    Ok(counts)
}

/// An archive that is being written.
struct Archive<'a> {
    builder: tar::Builder<Out<'a>>,
    now: u64,
}

impl<'a> Archive<'a> {
    fn new(out: Out<'a>) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { builder: tar::Builder::new(out), now: now.as_secs() }
    }

    fn add_job(&mut self, job: &StoredJob, files: &GuestFiles) -> io::Result<u64> {
        let mut keys = 0;
        let key = |name: &str| Key::job(job.id, name).map_err(io::Error::other);
        for entry in &job.entries {
            self.add(&key(&entry.name)?.to_string(), &entry.value)?;
            keys += 1;
        }
        for name in GuestFiles::names() {
            if let Some(value) = files.read(job.id, name)? {
                self.add(&key(name)?.to_string(), &value)?;
                keys += 1;
            }
        }
        Ok(keys)
    }

    fn add(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        let path = path::of_key(key);
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(self.now);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        header.set_size(value.len() as u64);
        if header.set_path(&path).is_err() {
            // A path longer than the header's field goes into an extended header of its own (POSIX).
            self.builder.append_pax_extensions([("path", path.as_bytes())])?;
            header.set_path("long-path")?;
        }
        header.set_cksum();
        self.builder.append(&header, value)
    }

    fn finish(self) -> io::Result<()> {
        self.builder.into_inner()?.finish()
    }
}

/// A kind of compression.
enum Compressed {
    Not,
    Gzip,
    Bzip2,
}

impl Compressed {
    /// Returns the compression for the ending of a file's name.
    fn by_name(file: &Path) -> Result<Self, ArchiveError> {
        let unknown = |how| Err(ArchiveError::Compression { file: file.to_owned(), how });
        match &*file.extension().unwrap_or_default().to_string_lossy() {
            "xz" | "txz" => unknown("xz"),
            "zst" | "tzst" => unknown("zstd"),
            "lz4" => unknown("lz4"),
            "gz" | "tgz" => Ok(Self::Gzip),
            "bz2" | "tbz2" | "tbz" => Ok(Self::Bzip2),
            _ => Ok(Self::Not),
        }
    }
}

/// The file, written through its compression.
enum Out<'a> {
    Plain(BufWriter<&'a File>),
    Gzip(GzEncoder<BufWriter<&'a File>>),
    Bzip2(BzEncoder<BufWriter<&'a File>>),
}

impl<'a> Out<'a> {
    fn new(compression: Compressed, file: BufWriter<&'a File>) -> Self {
        match compression {
            Compressed::Not => Self::Plain(file),
            Compressed::Gzip => Self::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Compressed::Bzip2 => Self::Bzip2(BzEncoder::new(file, Compression::default())),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Bzip2(encoder) => encoder.finish()?,
        }
        .flush()
    }
}

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Bzip2(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Bzip2(encoder) => encoder.flush(),
        }
    }
}
