//! Reads the whole of a file that a user or an administrator names, up to a limit: the name may refer to a
//! device, to a pipe that never ends, or to a file that would fill the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The maximum size of a file in bytes, unless it has a limit of its own: more than any configuration,
/// list or description needs.
pub const LARGEST: u64 = 256 << 20;

/// A file is larger than this limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("larger than {} MiB, the most that is read here", .0 >> 20)]
pub struct TooLarge(pub u64);

/// Reads a file.
///
/// # Errors
/// It can't be read, or is larger than [`LARGEST`].
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    bytes_up_to(path, LARGEST)
}

/// Reads a file of at most this many bytes.
///
/// # Errors
/// It can't be read, or is larger.
pub fn bytes_up_to(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    all_of(File::open(path)?, most)
}

/// Reads a file as text.
///
/// # Errors
/// It can't be read, is not UTF-8, or is larger than [`LARGEST`].
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    as_text(bytes(path)?)
}

/// Reads standard input as text.
///
/// # Errors
/// It can't be read, is not UTF-8, or is larger than [`LARGEST`].
pub fn stdin_text() -> io::Result<String> {
    as_text(stdin_up_to(LARGEST)?)
}

/// Reads at most this many bytes of standard input.
///
/// # Errors
/// It can't be read, or there is more.
pub fn stdin_up_to(most: u64) -> io::Result<Vec<u8>> {
    all_of(io::stdin().lock(), most)
}

/// Reads everything, if it is at most this many bytes.
///
/// # Errors
/// It can't be read, or there is more.
pub fn all_of(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    // One more byte distinguishes a longer input from one that just fits.
    from.take(most.saturating_add(1)).read_to_end(&mut read)?;
    match read.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, TooLarge(most))),
        false => Ok(read),
    }
}

fn as_text(bytes: Vec<u8>) -> io::Result<String> {
    let no_text =
        |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(bytes).map_err(no_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_just_fits_is_read() {
        assert_eq!(all_of(&b"1234"[..], 4).unwrap(), b"1234");
        let error = all_of(&b"12345"[..], 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_device_without_end_is_refused() {
        let error = bytes_up_to("/dev/zero", 4 << 20).unwrap_err();
        assert_eq!(error.to_string(), "larger than 4 MiB, the most that is read here");
    }
}
