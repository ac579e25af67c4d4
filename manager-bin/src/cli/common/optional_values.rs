//! Short options with an optional value: `-Lalways`, `-rDIR`. clap would take the word after a bare `-L` as its value,
//! so these options require a `=` before their value. This module inserts it into the words of a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command};

/// Inserts `=` before values that are attached to such options. The first word is the name of the program.
pub(in crate::cli) fn with_equals(top: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let mut command = top;
    let mut at = 1;
    while let Some(inner) = words.get(at).and_then(|word| command.find_subcommand(word)) {
        command = inner;
        at += 1;
    }
    if !command.get_arguments().any(has_optional_value) {
        return words;
    }
    // The first positional argument of such a command ends the options: the words of a job's command follow.
    let ends_options = command.get_positionals().any(Arg::is_trailing_var_arg_set);
    // True if the next word is the value of an option, which can look like an option itself.
    let mut is_value = false;
    for word in words.iter_mut().skip(at) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let bytes = word.as_bytes();
        match bytes {
            b"--" => break,
            [b'-', b'-', ..] => is_value = long_wants_value(command, word),
            [b'-', _, ..] => match cluster(command, bytes) {
                Cluster::Flags => {}
                Cluster::WantsValue => is_value = true,
                Cluster::Attached(end) => {
                    let (flags, value) = bytes.split_at(end);
                    *word = OsString::from_vec([flags, b"=", value].concat());
                }
            },
            _ if ends_options => break,
            _ => {}
        }
    }
    words
}

/// Returns true if an option has a short form and an optional value.
fn has_optional_value(arg: &Arg) -> bool {
    arg.get_short().is_some() && arg.is_require_equals_set()
}

/// How a word of short options ends.
enum Cluster {
    /// With an option that is complete.
    Flags,
    /// With an option whose value is the next word.
    WantsValue,
    /// With an option whose value is optional, and the value, which begins at this index.
    Attached(usize),
}

fn cluster(command: &Command, word: &[u8]) -> Cluster {
    for (end, letter) in (1..).zip(word).skip(1) {
        let letter = Some(char::from(*letter));
        let arg = command.get_arguments().find(|arg| arg.get_short() == letter);
        let Some(arg) = arg.filter(|arg| arg.get_action().takes_values()) else { continue };
        return match (word.get(end), has_optional_value(arg)) {
            (None, false) => Cluster::WantsValue,
            (Some(next), true) if *next != b'=' => Cluster::Attached(end),
            _ => Cluster::Flags,
        };
    }
    Cluster::Flags
}

/// Returns true if the value of a long option, which may be abbreviated, is the next word.
fn long_wants_value(command: &Command, word: &OsStr) -> bool {
    let name = word.to_str().and_then(|word| word.strip_prefix("--"));
    let Some(name) = name.filter(|name| !name.contains('=')) else { return false };
    let long = |arg: &&Arg| arg.get_long().is_some_and(|long| long.starts_with(name));
    let exact = command.get_arguments().find(|arg| arg.get_long() == Some(name));
    exact
        .or_else(|| command.get_arguments().find(long))
        .is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::CommandLine;

    #[track_caller]
    fn becomes(line: &str, wanted: &str) {
        let words = format!("jobtap {line}").split(' ').map(OsString::from).collect();
        let words = with_equals(&CommandLine::command(), words);
        let words: Vec<_> = words.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words.join(" "), wanted);
    }

    #[test]
    fn an_attached_value_is_distinguished_from_flags() {
        becomes("resource list -nLnever", "resource list -nL=never");
        becomes("resource status -Lalways -o -Lx", "resource status -L=always -o -Lx");
        becomes("resource list -o{state}L -L=auto -L", "resource list -o{state}L -L=auto -L");
        becomes("job eventlog -Lnever ID", "job eventlog -L=never ID");
        becomes("dmesg -HLalways", "dmesg -HL=always");
        becomes("job eventlog --format text -Lnever ID", "job eventlog --format text -L=never ID");
    }

    #[test]
    fn the_words_of_a_jobs_command_remain_unchanged() {
        becomes("start -r/a/b ls -rx", "start -r=/a/b ls -rx");
        becomes("start --conf -rx -rdir -- -rx", "start --conf -rx -r=dir -- -rx");
        becomes("start --test-s 2 -rdir", "start --test-s 2 -r=dir");
        becomes("submit -n2 prog -Lalways", "submit -n2 prog -Lalways");
    }
}
