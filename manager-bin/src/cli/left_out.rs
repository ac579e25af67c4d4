//! The commands of Flux that don't exist here, and what a user does instead: the response to a user who calls one, and
//! a part of the guide's page on Flux's options.

use super::common::usage;

const SIGNATURES: &str = "the system says who submits, and there are no brokers on other hosts";
const VALIDATION: &str =
    "the manager does it itself at submission; plugins handle `job.create` and `job.validate`";
const SCRIPTS_OF_NODES: &str =
    "the manager runs the commands of `[job-manager.prolog]`, `epilog` and `housekeeping` itself";

/// Each command, and why it doesn't exist here.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "account",
        "`accounting` reports what jobs have used; `[fairshare]` and `[limits]` have shares and limits",
    ),
    ("admin", "its only subcommand is a part of the scripts with which brokers start"),
    ("archive", "`submit --add-file` brings files to a job"),
    ("broker", "`start` is the manager itself"),
    ("content", "the store has no blobs that are found by their hash"),
    ("cron", "cron(8) and timers of systemd run commands at their times; plugins have timers"),
    (
        "event",
        "there are no messages of brokers: `job eventlog --follow`, `resource eventlog --follow` and `watch` follow what happens",
    ),
    ("fortune", "there are none"),
    ("gc", "the store removes what isn't needed while it runs"),
    ("help", "`COMMAND --help`, or `man COMMAND`"),
    ("ion-resource", "it belongs to a scheduler of Flux; `resource` is for every scheduler"),
    ("job-frobnicator", VALIDATION),
    ("job-validator", VALIDATION),
    ("keygen", SIGNATURES),
    ("mini", "its commands stand for themselves: `run`, `submit`, `bulksubmit`, `batch`, `alloc`"),
    (
        "modprobe",
        "the parts of the manager are always loaded; `plugin load` and `module load` load plugins",
    ),
    ("module-exec", "a plugin is no process of its own"),
    ("module-python-exec", "a plugin is no process of its own"),
    ("overlay", "there is no network of brokers: `resource status` shows the nodes"),
    ("ping", "there are no brokers to reach: `uptime` answers when the manager does"),
    ("pmi", "MPI programs are run by `run`"),
    ("python", "there is no Python in the manager; scripts use HTTP and the OpenAPI document"),
    ("restore", "`kvs restore --state-dir=DIR FILE`, or `start -Scontent.restore=FILE`"),
    ("run-epilog", SCRIPTS_OF_NODES),
    ("run-housekeeping", SCRIPTS_OF_NODES),
    ("run-prolog", SCRIPTS_OF_NODES),
    ("shell", "one shepherd starts the tasks of all jobs; `-o` has its options"),
    (
        "slurm-expiration-sync",
        "a manager inside a job of Slurm doesn't learn when the limit of that job is changed",
    ),
    ("sproc", "no commands run in the background: `exec` waits for its own ones"),
    ("terminus", "a job has a terminal with `-o pty`"),
];

/// Why a command of Flux doesn't exist here.
pub(super) fn reason(command: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(name, _)| *name == command).map(|(_, why)| *why)
}

/// The message about a word that is not a command. `meant` is a command with a similar name.
pub(super) fn message(program: &str, word: &str, meant: Option<&str>) -> String {
    if word.starts_with('-') {
        return format!("{program}: unrecognized option '{word}'\n{}", usage::try_help(program));
    }
    let unknown =
        format!("{program}: `{word}' is not a {program} command.  See '{program} --help'");
    match (reason(word), meant) {
        (Some(why), _) => format!("{unknown}\n{program}: this command of Flux is left out: {why}"),
        (None, Some(meant)) => format!("{unknown}\n{program}: did you mean '{meant}'?"),
        (None, None) => unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that have a page in Flux's manual, and others that come with Flux and that scripts use.
    const OF_FLUX: &str = "account admin alloc archive batch broker bulksubmit cancel config content cron dmesg dump \
        env event exec fortune fsck gc getattr help hostlist housekeeping ion-resource job job-exec-override \
        job-frobnicator job-validator jobs jobtap keygen kvs logger lsattr mini modprobe module module-exec \
        module-python-exec multi-prog overlay pgrep ping pkill pmi post-job-event proxy pstree python queue R resource \
        restore run run-epilog run-housekeeping run-prolog setattr shell shutdown slurm-expiration-sync sproc start \
        startlog submit terminus top update uptime uri version watch";

    #[test]
    fn each_command_of_flux_is_there_or_left_out() {
        let program = crate::cli::program();
        for word in OF_FLUX.split_whitespace() {
            let there = program.find_subcommand(word).is_some();
            assert_ne!(there, reason(word).is_some(), "{word}");
        }
        for (word, _) in COMMANDS {
            assert!(OF_FLUX.split_whitespace().any(|known| known == *word), "{word}");
        }
    }

    #[test]
    fn who_calls_one_reads_what_became_of_it() {
        let mini = message("flux", "mini", Some("man"));
        let lines: Vec<_> = mini.lines().collect();
        assert_eq!(lines[0], "flux: `mini' is not a flux command.  See 'flux --help'");
        assert!(lines[1].contains("`run`, `submit`") && !mini.contains("mean"), "{mini}");
        assert!(message("flux", "sumbit", Some("submit")).ends_with("did you mean 'submit'?"));
        assert_eq!(message("flux", "x", None).lines().count(), 1);
        assert!(
            message("flux", "--x", None)
                .starts_with("flux: unrecognized option '--x'\nTry `flux --help'")
        );
    }
}
