//! How much space is free, and how much must stay free.

use std::io;
use std::path::Path;

/// The bytes that must stay free for the events of active jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reserve(u64);

impl Reserve {
    /// A reserve of `bytes`; with 0, submissions are never refused.
    pub fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The size of the reserve.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for Reserve {
    /// 256 MiB: more than twice a write-ahead log of 64 MiB and a table of 32 MiB, which is what the
    /// embedded store writes before it frees space.
    fn default() -> Self {
        Self(256 * 1024 * 1024)
    }
}

/// Bytes that an ordinary user may still write on the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let fs = rustix::fs::statvfs(path)?;
    Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_space_of_a_directory_is_known() {
        assert!(free_bytes(&std::env::temp_dir()).unwrap() > 0);
        assert!(free_bytes(Path::new("/no/such/place")).is_err());
    }
}
