//! The commands and options of Flux beside those of this program. The guide's page `flux-options.md` is generated from
//! both, so that it can neither list an option that doesn't exist nor omit one that is left out.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

use super::{left_out, program};

/// Each command of Flux with its options; the names of an option are separated by slashes.
const FLUX: &[(&str, &str)] = &[
    (
        "start",
        "-s/--test-size -c/--config-path --conf -S/--setattr -r/--recovery --sysconfig -o/--broker-opts -v/--verbose \
         -X/--noexec --wrap --test-hosts --test-exit-timeout --test-exit-mode --test-start-mode --test-rundir \
         --test-rundir-cleanup --test-pmi-clique",
    ),
    ("submit", SUBMISSION),
    ("submit", BULK),
    ("run", SUBMISSION),
    ("run", "--wait-event"),
    ("bulksubmit", SUBMISSION),
    ("bulksubmit", BULK),
    ("bulksubmit", "--shuffle --sep --define"),
    ("alloc", NESTED),
    ("alloc", "--bg"),
    ("batch", NESTED),
    ("batch", "--wrap"),
    (
        "jobs",
        "-a -A -u/--user -f/--filter -q/--queue --name -i/--include --since -c/--count -n/--no-header/--suppress-header \
         -o/--format --sort -w/--width --json --color -R/--recursive -L/--level --recurse-all --threads --stats \
         --stats-only --from-stdin",
    ),
    (
        "job attach",
        "-E/--show-events -X/--show-exec --show-status -w/--wait-event -l/--label-io -v/--verbose -q/--quiet \
         -r/--read-only -u/--unbuffered -i/--stdin-ranks --tail --debug",
    ),
    ("job status", "-v/--verbose -e/--exception-exit-code -j/--json"),
    ("job wait", "-a/--all -v/--verbose"),
    (
        "job wait-event",
        "-t/--timeout -v/--verbose -q/--quiet -c/--count -m/--match-context -p/--path -W/--waitcreate -f/--format \
         -T/--time-format -H/--human -L/--color",
    ),
    ("job eventlog", "-f/--format -T/--time-format -H/--human -L/--color -F/--follow -p/--path"),
    ("job info", "-o/--original -b/--base"),
    ("job raise", "-s/--severity -t/--type -m/--message"),
    ("job raiseall", "-s/--severity -u/--user -S/--states -f/--force"),
    ("job kill", "-s/--signal"),
    ("job killall", "-s/--signal -u/--user -f/--force"),
    ("job urgency", "-v/--verbose"),
    ("job submit", "-u/--urgency -f/--flags -c/--security-config -s/--sign-type"),
    ("job id", "-t/--to"),
    ("job namespace", ""),
    ("job list", "-c/--count -s/--states -u/--user -a/--all-user -A/--all"),
    ("job list-inactive", "-c/--count -s/--since"),
    ("job list-ids", "-W/--wait-state"),
    ("job last", ""),
    ("job memo", "--volatile"),
    ("job purge", "--age-limit --num-limit --batch -f/--force"),
    ("job stats", ""),
    ("job taskmap", "--taskids --ntasks --nodeid --hostname --to"),
    ("job timeleft", "-H/--human"),
    ("job hostpids", "-d/--delimiter -r/--ranks -t/--timeout"),
    ("cancel", "--all -S/--states -u/--user -n/--dry-run -q/--quiet -m/--message"),
    ("update", "-n/--dry-run -v/--verbose --wait"),
    ("queue status", "-v/--verbose -q/--queue"),
    ("queue enable", "-a/--all --quiet -v/--verbose -q/--queue"),
    ("queue disable", "-a/--all --quiet -v/--verbose -m/--message --nocheckpoint -q/--queue"),
    ("queue start", "-a/--all --quiet -v/--verbose -q/--queue"),
    ("queue stop", "-a/--all --quiet -v/--verbose -m/--message --nocheckpoint -q/--queue"),
    ("queue drain", "-t/--timeout"),
    ("queue idle", "-t/--timeout --quiet"),
    ("queue list", "-q/--queue -o/--format -n/--no-header"),
    ("jobtap load", "-r/--remove"),
    ("jobtap remove", ""),
    ("jobtap list", "-a/--all"),
    ("jobtap query", ""),
    ("post-job-event", ""),
    ("config load", ""),
    ("config reload", ""),
    ("config get", "-t/--type -q/--quiet -d/--default -c/--config-path"),
    ("config set", "-t/--type"),
    ("config unset", ""),
    ("config builtin", ""),
    (
        "resource list",
        "-s/--states -o/--format -n/--no-header -i/--include -q/--queue --skip-empty --no-skip-empty",
    ),
    ("resource info", "-s/--states -i/--include -q/--queue"),
    (
        "resource status",
        "-s/--states -o/--format -n/--no-header -i/--include -q/--queue -L/--color --skip-empty",
    ),
    (
        "resource drain",
        "-o/--format -n/--no-header -i/--include -q/--queue -L/--color -f/--force -u/--update",
    ),
    ("resource undrain", "-f/--force"),
    ("resource reload", "-x/--xml -f/--force"),
    ("resource R", "-s/--states -i/--include -q/--queue"),
    (
        "resource eventlog",
        "-f/--format -T/--time-format -H/--human -F/--follow -w/--wait -m/--match-context -t/--timeout -i/--include \
         -L/--color",
    ),
    ("resource acquire-mute", ""),
    ("dmesg", "-C/--clear -c/--read-clear -f/--follow -n/--new -H/--human -d/--delta -L/--color"),
    ("module load", "--name --exec"),
    ("module reload", "-f/--force"),
    ("module remove", "-f/--force --cancel"),
    ("module list", "-l/--long"),
    ("module stats", "-p/--parse -t/--type -s/--scale -R/--rusage"),
    ("module debug", "-S/--set -s/--setbit -c/--clearbit -C/--clear"),
    ("kvs get", "-r/--raw"),
    ("kvs dir", "-R/--recursive"),
    ("kvs put", "-r/--raw"),
    ("kvs unlink", ""),
    ("kvs move", ""),
    ("getattr", ""),
    (
        "exec",
        "-l/--label-io -n/--noinput -d/--dir -r/--rank -x/--exclude -j/--jobid -v/--verbose -q/--quiet --with-imp --bg \
         --waitable --label --attach",
    ),
    ("logger", "-s/--severity -n/--appname"),
    ("multi-prog", "-n/--dry-run"),
    ("hostlist", ""),
    ("pstree", ""),
    ("uri", ""),
    ("env", ""),
    ("fsck", ""),
    ("lsattr", "-v"),
    ("setattr", ""),
    ("proxy", ""),
    ("shutdown", "--quiet"),
    ("dump", ""),
    ("version", ""),
    ("R encode", ""),
    ("R decode", ""),
    ("R set-property", ""),
    ("pgrep", PGREP),
    ("pgrep", "-n/--no-header -o/--format"),
    ("pkill", PGREP),
    ("pkill", "--wait"),
    (
        "watch",
        "-a/--active -A/--all -c/--count -f/--filter --since --progress --jps -l/--label-io -v/--verbose",
    ),
    ("top", "-q/--queue --color"),
    ("uptime", ""),
    ("startlog", "--check --quiet -v/--show-version"),
    ("housekeeping list", "-n/--no-header -o/--format -i/--include"),
    ("housekeeping kill", "--all -j/--jobid -t/--targets -s/--signal"),
    ("job-exec-override start", ""),
    ("job-exec-override finish", ""),
];

/// What `submit`, `run` and `bulksubmit` share.
const SUBMISSION: &str = "-n/--ntasks -c/--cores-per-task -g/--gpus-per-task -N/--nodes -x/--exclusive --cores --tasks-per-node --tasks-per-core \
     --gpus-per-node -t/--time-limit -q/--queue -B/--bank --urgency --job-name --dependency --begin-time --requires \
     -S/--setattr -o/--setopt --flags --signal --dry-run --quiet --env --env-remove --env-file --rlimit --input --output \
     --error -u/--unbuffered -l/--label-io --cwd --add-file --taskmap -v/--verbose --list-plugins";

/// What `submit` and `bulksubmit` share.
const BULK: &str = "--cc --bcc --wait --wait-event --watch --log --log-stderr --progress --jps";

/// What `alloc` and `batch` share.
const NESTED: &str = "-n/--nslots -c/--cores-per-slot -g/--gpus-per-slot -N/--nodes -x/--exclusive -t/--time-limit --conf \
     --broker-opts --dump";

/// What `pgrep` and `pkill` share.
const PGREP: &str = "-a -A -u/--user -f/--filter -q/--queue -c/--count --max-entries";

/// What is left out, and why. An empty option stands for the whole command.
const LEFT: &[(&str, &str, &str)] = &[
    ("start", "--wrap", "the manager is this very process: `strace jobtap start` does the same"),
    ("start", "--test-rundir", RUN_DIRECTORY),
    ("start", "--test-rundir-cleanup", RUN_DIRECTORY),
    ("job attach", "--debug", "there is no interface for parallel debuggers (MPIR)"),
    (
        "exec",
        "--with-imp",
        "the command is run as the user who calls it, who may have that right otherwise",
    ),
    ("exec", "--bg", BACKGROUND),
    ("exec", "--waitable", BACKGROUND),
    ("exec", "--label", BACKGROUND),
    ("exec", "--attach", BACKGROUND),
    ("job submit", "-c/--security-config", SIGNATURES),
    ("job submit", "-s/--sign-type", SIGNATURES),
    ("config builtin", "", "no value is compiled in: `lsattr -v` has the paths in use"),
    ("resource reload", "-x/--xml", "topologies of hwloc aren't read: name a file with R"),
    ("resource acquire-mute", "", "internal to Flux's resource module"),
    ("module load", "--name", "a plugin is linked under one name"),
    ("module load", "--exec", "a plugin is no process of its own"),
    (
        "module stats",
        "-R/--rusage",
        "all parts are one process, whose use of resources ps(1) shows",
    ),
    ("module debug", "", "no part has bits for debugging: `start -v` and `dmesg` say more"),
    ("kvs put", "", WRITES),
    ("kvs unlink", "", WRITES),
    ("kvs move", "", WRITES),
];

const RUN_DIRECTORY: &str =
    "`--state-dir` names the directory, and without it the state is removed at the end";
const BACKGROUND: &str =
    "`exec` waits for the commands that it starts; a service of the system runs on its own";
const SIGNATURES: &str = "the socket says who submits, so a jobspec needs no signature; `--flags=signed` takes one of RFC 15's type `none`";
const WRITES: &str = "only the manager and its plugins write";

/// Whether this program has an option.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Done,
    /// It is accepted, since scripts use it, but has no effect.
    NoEffect,
    Missing,
}

fn find(command: Option<&Command>, names: &str) -> Found {
    let Some(command) = command else { return Found::Missing };
    let arguments: Vec<&Arg> = command.get_arguments().collect();
    // All names must belong to one option.
    let found = arguments.iter().find(|arg| names.split('/').all(|name| has_name(arg, name)));
    match found {
        Some(arg) => {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            if help.starts_with("Accepted without effect") { Found::NoEffect } else { Found::Done }
        }
        None => Found::Missing,
    }
}

fn has_name(arg: &Arg, name: &str) -> bool {
    match name.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg.get_all_aliases().unwrap_or_default().contains(&long)
        }
        None => {
            let short = name.trim_start_matches('-').chars().next();
            arg.get_short() == short
                || short
                    .is_some_and(|c| arg.get_all_short_aliases().unwrap_or_default().contains(&c))
        }
    }
}

/// The commands in the order of the table, each with all of its options.
fn commands() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (command, options) in FLUX {
        let options = options.split_whitespace();
        match all.iter_mut().find(|(name, _)| name == command) {
            Some((_, known)) => known.extend(options),
            None => all.push((command, options.collect())),
        }
    }
    all
}

fn reason(command: &str, option: &str) -> Option<&'static str> {
    LEFT.iter().find(|(c, o, _)| *c == command && *o == option).map(|(.., why)| *why)
}

/// The text of the page, and the mistakes in the tables, such as options that are neither supported nor left out, or
/// both.
fn page() -> (String, Vec<String>) {
    let top = program();
    let (mut rows, mut left, mut wrong) = (String::new(), String::new(), Vec::new());
    for (name, why) in left_out::COMMANDS {
        let _ = writeln!(left, "| `{name}` | {why} |");
    }
    let (mut done, mut without_effect, mut missing, mut whole) = (0, 0, 0, 0);
    let all = commands();
    for (name, options) in &all {
        let command = name.split(' ').try_fold(&top, |at, word| at.find_subcommand(word));
        if command.is_none() {
            whole += 1;
            match reason(name, "") {
                Some(why) => {
                    let _ = writeln!(left, "| `{name}` | {why} |");
                }
                None => wrong.push(format!("{name} is not there")),
            }
            continue;
        }
        let (mut here, mut ignored, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        for names in options {
            let shown = format!("`{}`", names.replace('/', ", "));
            let why = reason(name, names);
            match (find(command, names), why) {
                (Found::Done, None) => here.push(shown),
                (Found::NoEffect, None) => ignored.push(shown),
                (Found::Missing, Some(why)) => {
                    let _ = writeln!(left, "| `{name} {}` | {why} |", names.replace('/', ", "));
                    absent.push(shown);
                }
                (Found::Missing, None) => wrong.push(format!("{name} {names} is not there")),
                (_, Some(_)) => wrong.push(format!("{name} {names} is there")),
            }
        }
        done += here.len();
        without_effect += ignored.len();
        missing += absent.len();
        let [here, ignored, absent] = [here, ignored, absent].map(|names| names.join(" "));
        let _ = writeln!(rows, "| `{name}` | {here} | {ignored} | {absent} |");
    }
    for (command, option, _) in LEFT {
        let known = all.iter().find(|(name, _)| name == command);
        if !known.is_some_and(|(_, options)| option.is_empty() || options.contains(option)) {
            wrong.push(format!("{command} {option} is not in the table"));
        }
    }
    let (commands, total) = (all.len() - whole, all.len() + left_out::COMMANDS.len());
    let text = format!(
        "# Flux's options, one by one\n\n\
         <!-- Generated. `UPDATE_DOCS=1 cargo test -p jobtap-manager --lib flux_options` writes it again. -->\n\n\
         The commands of Flux that people and scripts use, with their options, beside those of `jobtap`: a test compares\n\
         this page with the program. {commands} of {total} commands are there, with {done} options; {without_effect} options more \
         are accepted and\nchange nothing, because there is nothing to change; {missing} are left out. What has another meaning \
         here is on the page\n[Flux's commands](flux-commands.md).\n\n\
         ## Left out\n\n| command or option | why |\n|---|---|\n{left}\n\
         ## All commands\n\n| command | done | accepted without effect | left out |\n|---|---|---|---|\n{rows}",
    );
    (text, wrong)
}

#[test]
fn the_page_says_what_the_program_has() {
    let (wanted, wrong) = page();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/flux-options.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/src/flux-options.md differs from the program: `UPDATE_DOCS=1 cargo test -p jobtap-manager --lib \
         flux_options` writes it again; read the difference before you commit it"
    );
}
