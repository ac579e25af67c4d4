//! The text that distinguishes the processes of a state directory's jobs from all others, in their
//! [tokens](super::pids::token).
//!
//! It is stored in the state directory, so that a shepherd can find the processes left by the jobs of an earlier one. A
//! copy of the directory gets another text, since its jobs are different ones.

use std::io::{self, Read};
use std::path::Path;

use rustix::fs::OFlags;

use crate::clock::now;
use crate::files::{Access, Dir, write_whole};

/// Name of the file in the state directory.
const FILE: &str = "shepherd.nonce";

/// The longest text of the file.
const LONGEST: u64 = 256;

/// Reads the text, or makes one.
pub(super) fn for_state_dir(state_dir: &Path) -> io::Result<String> {
    let dir = Dir::open(state_dir)?;
    let stat = dir.stat()?;
    let place = format!("{}:{}", stat.st_dev, stat.st_ino);
    let mut text = String::new();
    if let Ok(file) = dir.file(FILE, OFlags::RDONLY, 0) {
        // A text that can't be read is replaced.
        let _ = file.take(LONGEST).read_to_string(&mut text);
    }
    if let Some((nonce, known)) = text.trim_end().split_once(' ')
        && known == place
        && is_nonce(nonce)
    {
        return Ok(nonce.to_owned());
    }
    let nonce = format!("{}-{:x}", std::process::id(), now().as_secs().to_bits());
    write_whole(&state_dir.join(FILE), format!("{nonce} {place}\n").as_bytes(), Access::Private)?;
    Ok(nonce)
}

/// Whether a token can be made from this text.
fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_the_same_until_the_directory_is_another_one() {
        let base = tempfile::tempdir().unwrap();
        let (dir, copy) = (base.path().join("state"), base.path().join("copy"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(&copy).unwrap();
        let nonce = for_state_dir(&dir).unwrap();
        assert_eq!(for_state_dir(&dir).unwrap(), nonce);
        fs::copy(dir.join(FILE), copy.join(FILE)).unwrap();
        assert_ne!(for_state_dir(&copy).unwrap(), nonce);
        fs::write(dir.join(FILE), "x=y 1:2\n").unwrap();
        let made = for_state_dir(&dir).unwrap();
        assert!(is_nonce(&made) && made != nonce);
    }
}
