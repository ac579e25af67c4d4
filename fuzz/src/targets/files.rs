//! Files: archives, output packs, and lists of jobs from the accounting of other managers.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use jobtap_core::simulation::{Rules, SwfRecord, Trace};
use jobtap_daemon::foreign::{archive, outer_jobs};
use jobtap_daemon::output_pack::{Block, PackReader};
use jobtap_laboratory::Workload;
use jobtap_laboratory::foreign::list;
use tempfile::NamedTempFile;

use crate::again::text;

thread_local! {
    static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
}

/// Calls `read` with a file that has these bytes.
fn with_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    let written = FILE.with_borrow_mut(|slot| {
        let file = match slot {
            Some(file) => file,
            // In memory, where there is such a file system.
            None => {
                slot.insert(NamedTempFile::new_in("/dev/shm").or_else(|_| NamedTempFile::new())?)
            }
        };
        let opened: &mut File = file.as_file_mut();
        opened.set_len(0)?;
        opened.rewind()?;
        opened.write_all(bytes)?;
        Ok::<PathBuf, std::io::Error>(file.path().to_owned())
    });
    match written {
        Ok(path) => read(&path),
        Err(error) => panic!("no file can be written: {error}"),
    }
}

/// An archive in tar that isn't compressed.
pub(super) fn tar(bytes: &[u8]) {
    let is_compressed = bytes.starts_with(b"BZh") || bytes.starts_with(&[0x1f, 0x8b]);
    if is_compressed {
        return;
    }
    if let Some((keys, size)) = with_file(bytes, archive) {
        assert!(keys > 0 && size <= bytes.len() as u64, "{keys} keys with {size} bytes");
    }
}

/// An archive that may be compressed: a few bytes of it may be gigabytes, which are read piece by piece.
pub(super) fn compressed_tar(bytes: &[u8]) {
    let read = with_file(bytes, archive);
    assert!(read.is_none_or(|(keys, _)| keys > 0));
}

/// A pack of output.
pub(super) fn output_pack(bytes: &[u8]) {
    with_file(bytes, |path| {
        let Ok(mut pack) = PackReader::open(path) else { return };
        let mut all = Vec::new();
        while let Ok(Some(block)) = pack.next(|_| true) {
            let pieces: usize = block.each().map(|(_, data)| data.len()).sum();
            assert!(pieces <= block.data.len(), "{pieces} of {}", block.data.len());
            all.push(block);
        }
        let size: usize = all.iter().map(|block| block.data.len()).sum();
        let passed_over = usize::try_from(pack.passed_over()).unwrap_or(usize::MAX);
        assert!(size + passed_over <= bytes.len(), "{size} and {passed_over}");
        // Written again, all blocks are there and nothing else.
        let again: Vec<u8> = all.iter().flat_map(Block::encode).collect();
        with_file(&again, |path| {
            let Ok(mut pack) = PackReader::open(path) else { panic!("it can't be opened again") };
            for block in &all {
                let next = pack.next(|_| true);
                assert_eq!(next.ok().flatten().as_ref(), Some(block));
            }
            assert_eq!(pack.passed_over(), 0);
        });
    });
}

/// A trace in the Standard Workload Format.
pub(super) fn swf(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    for record in text.lines().filter_map(|line| SwfRecord::parse(line).ok()?) {
        assert!(record.submit().is_finite() && record.run_time().is_finite());
    }
    let trace = Trace::from_swf(text, &Rules::default());
    assert!(trace.jobs.len() <= text.lines().count());
    let in_order = trace.jobs.is_sorted_by(|a, b| a.submit <= b.submit);
    assert!(in_order, "the jobs are not in the order of their submission");
}

/// A list of jobs from `sacct` or `flux jobs --json`, and what a generated trace is described by.
pub(super) fn accounting(bytes: &[u8]) {
    if let Some((jobs, broken)) = list(bytes) {
        assert!(jobs + broken <= bytes.len());
    }
    if let Some(text) = text(bytes) {
        let _ = text.parse::<Workload>();
    }
}

/// A line of `squeue`, of `flux jobs`, and of the command of a site.
pub(super) fn outer_line(bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        assert!(outer_jobs(text) <= 3);
    }
}
