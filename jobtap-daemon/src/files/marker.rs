//! The marker file of a directory that belongs to a manager, which may change and remove its content.
//!
//! It is created only in a new or an empty directory, so a marked directory contains no file that was
//! there before.

use std::io::{self, Read, Write};

use super::Dir;

/// The name of the marker file.
pub(crate) const MARKER: &str = "jobtap-directory";

/// The version of the directory's layout. A manager refuses other versions.
const FORMAT: u32 = 1;

/// A length in bytes that no marker reaches.
const MAX_LENGTH: u64 = 4096;

/// The purpose of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The durable state of a manager.
    State,
    /// Files of one run of the program, which are useless after it.
    Temporary,
}

/// The result of looking for a marker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No marker.
    Nothing,
    /// A marker of this format.
    Marker(Purpose),
    /// An incomplete marker: the process that wrote it was killed.
    Unfinished,
    /// A marker of this other format.
    Format(String),
    /// A file that is not a marker.
    Foreign,
}

impl Purpose {
    const ALL: [Self; 2] = [Self::State, Self::Temporary];

    fn title(self) -> &'static str {
        match self {
            Self::State => "jobtap state directory, format ",
            Self::Temporary => "jobtap temporary directory, format ",
        }
    }

    fn text(self) -> String {
        let rest = match self {
            Self::State => {
                "Everything in this directory belongs to the job manager jobtap, which writes and removes\n\
                 files here. It refuses a directory without this file.\n"
            }
            Self::Temporary => {
                "The job manager jobtap removes this directory when it ends, or when it starts the next\n\
                 time and no process uses the directory.\n"
            }
        };
        format!("{}{FORMAT}\n\n{rest}", self.title())
    }
}

/// Looks for the marker of `dir`.
pub(crate) fn read(dir: &Dir) -> io::Result<Found> {
    if dir.kind(MARKER)?.is_none() {
        return Ok(Found::Nothing);
    }
    let Ok(file) = dir.regular_file(MARKER) else { return Ok(Found::Foreign) };
    let mut bytes = Vec::new();
    file.take(MAX_LENGTH).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    for purpose in Purpose::ALL {
        let whole = purpose.text();
        if text == whole {
            return Ok(Found::Marker(purpose));
        }
        if whole.starts_with(&*text) {
            return Ok(Found::Unfinished);
        }
        if let Some(rest) = text.strip_prefix(purpose.title()) {
            let format = rest.lines().next().unwrap_or_default();
            // This format with a different text, which an administrator may have edited.
            return Ok(match format.parse() {
                Ok(FORMAT) => Found::Marker(purpose),
                _ => Found::Format(format.to_owned()),
            });
        }
    }
    Ok(Found::Foreign)
}

/// Creates the marker of `dir`, which has none. The marker of a state directory is durable on return.
pub(crate) fn write(dir: &Dir, purpose: Purpose) -> io::Result<()> {
    let mut file = dir.new_file(MARKER, 0o600)?;
    file.write_all(purpose.text().as_bytes())?;
    if purpose == Purpose::State {
        file.sync_all()?;
        dir.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_marker_is_recognized_by_format_and_purpose() {
        let base = tempfile::tempdir().unwrap();
        let dir = Dir::open(base.path()).unwrap();
        let file = base.path().join(MARKER);
        assert_eq!(read(&dir).unwrap(), Found::Nothing);
        for purpose in Purpose::ALL {
            write(&dir, purpose).unwrap();
            assert!(write(&dir, purpose).is_err(), "it is made once");
            assert_eq!(read(&dir).unwrap(), Found::Marker(purpose));
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, &text[..text.len() - 1]).unwrap();
            assert_eq!(read(&dir).unwrap(), Found::Unfinished);
            fs::write(&file, text.replace("format 1", "format 2")).unwrap();
            assert_eq!(read(&dir).unwrap(), Found::Format("2".to_owned()));
            fs::remove_file(&file).unwrap();
        }
        fs::write(&file, "").unwrap();
        assert_eq!(read(&dir).unwrap(), Found::Unfinished);
        for foreign in ["x", "jobtap", "jobtap state directories"] {
            fs::write(&file, foreign).unwrap();
            let expected = if foreign == "jobtap" { Found::Unfinished } else { Found::Foreign };
            assert_eq!(read(&dir).unwrap(), expected, "{foreign}");
        }
    }

    #[test]
    fn a_link_to_a_marker_is_no_marker() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("other")).unwrap();
        let other = Dir::open(&base.path().join("other")).unwrap();
        write(&other, Purpose::State).unwrap();
        std::os::unix::fs::symlink(format!("other/{MARKER}"), base.path().join(MARKER)).unwrap();
        assert_eq!(read(&Dir::open(base.path()).unwrap()).unwrap(), Found::Foreign);
    }
}
