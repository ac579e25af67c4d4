//! Batch scripts: how they are read, and the `#SBATCH` lines in them.

use std::io::{self, Read};

use super::options::{Setting, parse};
use crate::cli::common::words::{Comments, Escapes, split};

/// The largest script that is accepted, in bytes: that of Slurm.
const LARGEST: usize = 4 * 1024 * 1024;

const DIRECTIVE: &str = "#SBATCH";

/// Reads a script, and of what is no script as much as [`check`] needs to say so.
pub(super) fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    from.take(LARGEST as u64 + 1).read_to_end(&mut data)?;
    Ok(data)
}

/// Checks the text of a script and returns it.
///
/// # Errors
/// A message that says what a script has to look like.
pub(super) fn check(name: &str, data: Vec<u8>) -> Result<String, String> {
    let refuse = |text: &str| Err(format!("{name}: {text}"));
    if data.len() > LARGEST {
        return refuse("the script is larger than 4 MiB");
    }
    if data.contains(&0) {
        return refuse("the script has zero bytes: is it a program? Use --wrap to run one");
    }
    let Ok(text) = String::from_utf8(data) else {
        return refuse("the script isn't UTF-8");
    };
    if text.trim().is_empty() {
        return refuse("the script is empty");
    }
    if !text.starts_with("#!") {
        return refuse("the first line of a script must be #! and the path of an interpreter");
    }
    if text.contains("\r\n") {
        return refuse("the script has DOS line ends (\\r\\n): convert it with dos2unix");
    }
    Ok(text)
}

/// The script that runs a command of the shell.
pub(super) fn wrap(command: &str) -> String {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")
}

/// The settings of the `#SBATCH` lines, which end at the first line that is no comment.
///
/// # Errors
/// A message that names the line.
pub(super) fn settings(name: &str, script: &str) -> Result<Vec<Setting>, String> {
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
        let place = format!("{name}:{}: ", index + 1);
        let words = split(options, Comments::BetweenWords, Escapes::All)
            .map_err(|_| format!("{place}a quote isn't closed"))?;
        let (found, rest) = parse(&words, &place)?;
        if let Some(word) = rest.first() {
            return Err(format!(
                "{place}unexpected word '{word}': #SBATCH lines have only options"
            ));
        }
        settings.extend(found);
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> Result<Vec<String>, String> {
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
        let refused = |line: &str| found(&format!("#!/bin/sh\n#SBATCH {line}\n")).unwrap_err();
        assert_eq!(refused("--tim=5 x"), "job.sh:2: --tim can be --time or --time-min");
        assert_eq!(
            refused("-n 4 x"),
            "job.sh:2: unexpected word 'x': #SBATCH lines have only options"
        );
        assert_eq!(refused("-J 'a"), "job.sh:2: a quote isn't closed");
        assert_eq!(refused("-n"), "job.sh:2: -n needs a value: N");
    }

    #[test]
    fn only_text_with_an_interpreter_is_a_script() {
        let refused = |data: &[u8]| check("x", data.to_vec()).unwrap_err();
        assert_eq!(refused(b""), "x: the script is empty");
        assert!(refused(b"echo").contains("interpreter"));
        assert!(refused(b"\x7fELF\0").contains("--wrap"));
        assert!(refused(b"#!/bin/sh\r\n").contains("dos2unix"));
        assert!(refused(b"#!/bin/sh\n\xff").contains("UTF-8"));
        assert!(refused(&vec![b'#'; LARGEST + 1]).contains("4 MiB"));
        assert!(check("x", b"#!/bin/sh\n".to_vec()).is_ok());
    }
}
