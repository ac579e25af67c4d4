//! Batch scripts: how they are read, and the `#SBATCH` lines in them.

use std::io::{self, Read};

use thiserror::Error;

use super::error::{OptionError, OptionFault, Place};
use super::options::{Setting, parse};
use crate::cli::common::words::{Comments, Escapes, split};

/// The maximum size of a script in bytes, as in Slurm.
const LARGEST: usize = 4 * 1024 * 1024;

const DIRECTIVE: &str = "#SBATCH";

/// A text that can't be submitted as a script.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{name}: {fault}")]
pub(super) struct ScriptError {
    name: String,
    fault: ScriptFault,
}

#[derive(Debug, PartialEq, Eq, Error)]
enum ScriptFault {
    #[error("the script is larger than 4 MiB")]
    TooLarge,
    #[error("the script has zero bytes: is it a program? Use --wrap to run one")]
    ZeroBytes,
    #[error("the script isn't UTF-8")]
    NotUtf8,
    #[error("the script is empty")]
    Empty,
    #[error("the first line of a script must be #! and the path of an interpreter")]
    NoInterpreter,
    #[error("the script has DOS line ends (\\r\\n): convert it with dos2unix")]
    DosLineEnds,
}

/// Reads a script. Of a file that is too large, reads only as much as [`check`] needs to refuse it.
pub(super) fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    from.take(LARGEST as u64 + 1).read_to_end(&mut data)?;
    Ok(data)
}

/// Checks the text of a script and returns it.
///
/// # Errors
/// [`ScriptError`].
pub(super) fn check(name: &str, data: Vec<u8>) -> Result<String, ScriptError> {
    let refuse = |fault| Err(ScriptError { name: name.to_owned(), fault });
    if data.len() > LARGEST {
        return refuse(ScriptFault::TooLarge);
    }
    if data.contains(&0) {
        return refuse(ScriptFault::ZeroBytes);
    }
    let Ok(text) = String::from_utf8(data) else {
        return refuse(ScriptFault::NotUtf8);
    };
    if text.trim().is_empty() {
        return refuse(ScriptFault::Empty);
    }
    if !text.starts_with("#!") {
        return refuse(ScriptFault::NoInterpreter);
    }
    if text.contains("\r\n") {
        return refuse(ScriptFault::DosLineEnds);
    }
    Ok(text)
}

/// The script that runs a command of the shell.
pub(super) fn wrap(command: &str) -> String {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")
}

/// The settings of the `#SBATCH` lines, which end at the first line that is not a comment.
///
/// # Errors
/// [`OptionError`], with the line.
pub(super) fn settings(name: &str, script: &str) -> Result<Vec<Setting>, OptionError> {
    let mut settings = Vec::new();
    for (index, line) in script.lines().enumerate() {
        if !line.starts_with('#') && !line.trim().is_empty() {
            break;
        }
        let Some(options) = line.strip_prefix(DIRECTIVE) else { continue };
        // Another word, such as `#SBATCHES`.
        if !options.is_empty() && !options.starts_with(char::is_whitespace) {
            continue;
        }
        let place = Place::Line { script: name.to_owned(), number: index + 1 };
        let words = match split(options, Comments::BetweenWords, Escapes::All) {
            Ok(words) => words,
            Err(_) => return Err(OptionError { place, fault: OptionFault::OpenQuote }),
        };
        let (found, rest) = parse(&words, &place)?;
        // Such a line stands alone: it ends the options of a component.
        let heterogeneous = ["hetjob", "packjob"].into_iter().find(|word| words == [*word]);
        if let Some(word) = heterogeneous {
            return Err(OptionError { place, fault: OptionFault::Heterogeneous(word) });
        }
        if let Some(word) = rest.first() {
            return Err(OptionError { place, fault: OptionFault::Word(word.clone()) });
        }
        settings.extend(found);
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> Result<Vec<String>, OptionError> {
        let settings = settings("job.sh", script)?;
        Ok(settings.iter().map(|set| format!("{}={}", set.name, set.value)).collect())
    }

    #[test]
    fn lines_before_the_first_command_set_options() {
        let script = "#!/bin/sh\n#SBATCH -n 4   # tasks\n# a comment\n\n#SBATCH --comment=\"two words\" -J 'a b'\n\
                      ##SBATCH -p x\n#SBATCHES\n#SBATCH\nset -e\n#SBATCH -t 5\n";
        assert_eq!(found(script).unwrap(), ["ntasks=4", "comment=two words", "job-name=a b"]);
    }

    #[test]
    fn errors_name_the_line() {
        let refused =
            |line: &str| found(&format!("#!/bin/sh\n#SBATCH {line}\n")).unwrap_err().to_string();
        assert_eq!(refused("--tim=5 x"), "job.sh:2: --tim can be --time or --time-min");
        assert_eq!(
            refused("-n 4 x"),
            "job.sh:2: unexpected word 'x': #SBATCH lines have only options"
        );
        for word in ["hetjob", "packjob"] {
            let named = format!("job.sh:2: heterogeneous jobs ({word}) don't exist here: ");
            assert!(refused(word).starts_with(&named), "{}", refused(word));
        }
        assert_eq!(refused("-J 'a"), "job.sh:2: a quote isn't closed");
        assert_eq!(refused("-n"), "job.sh:2: -n needs a value: N");
    }

    #[test]
    fn only_text_with_an_interpreter_is_a_script() {
        let refused = |data: &[u8]| check("x", data.to_vec()).unwrap_err().to_string();
        assert_eq!(refused(b""), "x: the script is empty");
        assert!(refused(b"echo").contains("interpreter"));
        assert!(refused(b"\x7fELF\0").contains("--wrap"));
        assert!(refused(b"#!/bin/sh\r\n").contains("dos2unix"));
        assert!(refused(b"#!/bin/sh\n\xff").contains("UTF-8"));
        assert!(refused(&vec![b'#'; LARGEST + 1]).contains("4 MiB"));
        assert!(check("x", b"#!/bin/sh\n".to_vec()).is_ok());
    }
}
