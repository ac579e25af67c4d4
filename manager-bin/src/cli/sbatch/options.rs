//! The options of Slurm's `sbatch` and `srun`: their names, and how they are read from a command line, from the
//! environment and from the `#SBATCH` lines of a script.
//!
//! All three are read by the same rules into settings in the order of precedence, so that the last of two settings of
//! one option counts. The rules are those of `getopt_long`: short options can be combined, a long one can be shortened,
//! and options end at the first word that is not an option.

use std::fmt::Write as _;

use jobtap_core::suggest::nearest;

use super::error::{Name, OptionError, OptionFault, Origin, Place};

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// It has none.
    Nothing,
    /// It needs one; the name of the value.
    Value(&'static str),
    /// It can have one, after `=`; the name of the value, and the value if none is given.
    Optional(&'static str, &'static str),
}

/// An option.
#[derive(Debug)]
pub(super) struct Spec {
    /// The long name, which settings use.
    pub(super) name: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes: Takes,
    /// The environment variable that sets it; empty for an option without one.
    pub(super) variable: &'static str,
    pub(super) help: &'static str,
}

/// An option that is set, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// Where it was set, for messages.
    pub(super) origin: Origin,
}

macro_rules! options {
    ($(#[$doc:meta])* $table:ident: $($name:literal $($short:literal)?: $takes:expr, $variable:literal, $help:literal;)*) => {
        $(#[$doc])*
        const $table: &[Spec] = {
            use Takes::{Nothing, Optional, Value};
            &[$(
            Spec { name: $name, short: options!(@short $($short)?), takes: $takes, variable: $variable, help: $help },
        )*]
        };
    };
    (@short) => { None };
    (@short $short:literal) => { Some($short) };
}

options! {
    /// The options of `sbatch`, by their long names.
    OPTIONS:
    "account" 'A': Value("NAME"), "SBATCH_ACCOUNT", "Account to charge";
    "acctg-freq": Value("LIST"), "SBATCH_ACCTG_FREQ", "How often accounting samples the job";
    "array" 'a': Value("INDEXES"), "SBATCH_ARRAY_INX", "Submit a job for each index: 0-7, 1,3,5, 0-9:2, 0-99%10";
    "batch": Value("FEATURES"), "SBATCH_BATCH", "Features of the node of the script";
    "bb": Value("SPEC"), "", "Burst buffer";
    "bbf": Value("FILE"), "", "File that describes a burst buffer";
    "begin" 'b': Value("TIME"), "", "Earliest start: now+1hour, 16:00, 2030-01-20T12:34, tomorrow";
    "chdir" 'D': Value("DIR"), "SBATCH_CHDIR", "Working directory";
    "cluster-constraint": Value("LIST"), "", "Features of the cluster";
    "clusters" 'M': Value("LIST"), "SBATCH_CLUSTERS", "Clusters";
    "comment": Value("TEXT"), "SBATCH_COMMENT", "Comment";
    "consolidate-segments": Nothing, "", "No effect: where segments are";
    "constraint" 'C': Value("LIST"), "SBATCH_CONSTRAINT", "Features that nodes must have: a&b, a|b, (a|b)&!c";
    "container": Value("PATH"), "SBATCH_CONTAINER", "OCI container bundle";
    "contiguous": Nothing, "", "Contiguous nodes";
    "core-spec" 'S': Value("N"), "SBATCH_CORE_SPEC", "Cores kept for the system";
    "cores-per-socket": Value("N"), "", "Cores of each socket";
    "cpu-freq": Value("SPEC"), "SBATCH_CPU_FREQ_REQ", "Frequency of the CPUs";
    "cpus-per-gpu": Value("N"), "SBATCH_CPUS_PER_GPU", "CPUs for each GPU";
    "cpus-per-task" 'c': Value("N"), "SBATCH_CPUS_PER_TASK", "CPUs of each task";
    "deadline": Value("TIME"), "", "Time by which the job must have ended";
    "delay-boot": Value("MINUTES"), "SBATCH_DELAY_BOOT", "Longest wait for a node to reboot";
    "dependency" 'd': Value("LIST"), "", "Dependencies: afterok:ID[:ID], afterany:ID, singleton";
    "distribution" 'm': Value("KIND"), "SBATCH_DISTRIBUTION", "How tasks are distributed";
    "error" 'e': Value("FILE"), "SBATCH_ERROR", "File for standard error";
    "exclude" 'x': Value("HOSTS"), "", "Hosts that the job doesn't get";
    "exclusive": Optional("user|mcs", ""), "SBATCH_EXCLUSIVE", "Whole nodes";
    "export": Value("LIST"), "SBATCH_EXPORT", "Environment: ALL, NONE, NAME, NAME=VALUE";
    "export-file": Value("FILE"), "", "File with the environment, NAME=VALUE each ended by a zero byte";
    "extra": Value("TEXT"), "", "A text that plugins can read";
    "extra-node-info" 'B': Value("S[:C[:T]]"), "", "Sockets, cores and threads of nodes";
    "get-user-env": Optional("TIMEOUT", ""), "SBATCH_GET_USER_ENV", "No effect: jobs have the environment of sbatch";
    "gpu-bind": Value("SPEC"), "SBATCH_GPU_BIND", "How tasks are bound to GPUs";
    "gpu-freq": Value("SPEC"), "SBATCH_GPU_FREQ", "Frequency of GPUs";
    "gpus" 'G': Value("[TYPE:]N"), "SBATCH_GPUS", "GPUs of the job";
    "gpus-per-node": Value("[TYPE:]N"), "SBATCH_GPUS_PER_NODE", "GPUs of each node";
    "gpus-per-socket": Value("[TYPE:]N"), "SBATCH_GPUS_PER_SOCKET", "GPUs of each socket";
    "gpus-per-task": Value("[TYPE:]N"), "SBATCH_GPUS_PER_TASK", "GPUs of each task";
    "gres": Value("LIST"), "SBATCH_GRES", "Generic resources of each node: gpu:2";
    "gres-flags": Value("FLAGS"), "SBATCH_GRES_FLAGS", "enforce-binding or disable-binding";
    "help" 'h': Nothing, "", "Print this help";
    "hint": Value("KIND"), "SBATCH_HINT", "No effect: how tasks use cores";
    "hold" 'H': Nothing, "", "Hold the job";
    "ignore-pbs": Nothing, "SBATCH_IGNORE_PBS", "#PBS lines are comments, as always here";
    "input" 'i': Value("FILE"), "SBATCH_INPUT", "File with standard input";
    "job-name" 'J': Value("NAME"), "SBATCH_JOB_NAME", "Name of the job";
    "kill-on-invalid-dep": Value("yes|no"), "", "Whether a dependency that can't be satisfied ends the job";
    "licenses" 'L': Value("LIST"), "", "Licenses: matlab:2,ansys";
    "mail-type": Value("LIST"), "", "When mail is sent: BEGIN, END, FAIL, ALL, ...";
    "mail-user": Value("USER"), "", "To whom mail is sent";
    "mcs-label": Value("LABEL"), "", "Security label";
    "mem": Value("SIZE"), "SBATCH_MEM_PER_NODE", "Memory of each node, in MiB or with K, M, G, T";
    "mem-bind": Value("SPEC"), "SBATCH_MEM_BIND", "How tasks are bound to memory";
    "mem-per-cpu": Value("SIZE"), "SBATCH_MEM_PER_CPU", "Memory for each CPU";
    "mem-per-gpu": Value("SIZE"), "SBATCH_MEM_PER_GPU", "Memory for each GPU";
    "mincpus": Value("N"), "", "CPUs of each node, at least";
    "network": Value("SPEC"), "SBATCH_NETWORK", "What the job needs of the network";
    "nice": Optional("N", "100"), "", "Lower the priority";
    "no-kill" 'k': Optional("off", ""), "SBATCH_NO_KILL", "A failed node doesn't end the job";
    "no-requeue": Nothing, "SBATCH_NO_REQUEUE", "The job isn't requeued";
    "nodefile" 'F': Value("FILE"), "", "File with the hosts of the job";
    "nodelist" 'w': Value("HOSTS"), "", "Hosts of the job";
    "nodes" 'N': Value("N[-MAX]"), "", "Nodes";
    "ntasks" 'n': Value("N"), "", "Tasks";
    "ntasks-per-core": Value("N"), "SBATCH_NTASKS_PER_CORE", "Tasks on each core";
    "ntasks-per-gpu": Value("N"), "SBATCH_NTASKS_PER_GPU", "Tasks for each GPU";
    "ntasks-per-node": Value("N"), "", "Tasks on each node";
    "ntasks-per-socket": Value("N"), "", "Tasks on each socket";
    "oom-kill-step": Optional("0|1", "1"), "SBATCH_OOM_KILL_STEP", "No effect: what ends when memory is short";
    "open-mode": Value("append|truncate"), "SBATCH_OPEN_MODE", "Append to output files, or replace them";
    "output" 'o': Value("FILE"), "SBATCH_OUTPUT", "File for standard output; %j is the job, %x its name, %u the user";
    "overcommit" 'O': Nothing, "SBATCH_OVERCOMMIT", "Several tasks on a CPU";
    "oversubscribe" 's': Nothing, "", "Other jobs may be on the nodes";
    "parsable": Nothing, "", "Print only the job id";
    "partition" 'p': Value("NAMES"), "SBATCH_PARTITION", "Partition, a queue here";
    "power": Value("FLAGS"), "SBATCH_POWER", "No effect: flags of power management";
    "prefer": Value("LIST"), "", "Features that nodes should have";
    "priority": Value("N"), "", "Urgency from 0 to 31, or a number that plugins can read";
    "profile": Value("LIST"), "SBATCH_PROFILE", "No effect: what is profiled";
    "propagate": Optional("LIST", ""), "", "Resource limits of sbatch for the tasks: ALL, NONE, NOFILE, CORE, ...";
    "qos" 'q': Value("NAME"), "SBATCH_QOS", "Quality of service";
    "quiet" 'Q': Nothing, "", "Print no warnings";
    "reboot": Nothing, "", "Reboot the nodes first";
    "requeue": Nothing, "SBATCH_REQUEUE", "The job may be requeued";
    "reservation": Value("NAMES"), "SBATCH_RESERVATION", "Reservation";
    "segment": Value("N"), "SBATCH_SEGMENT_SIZE", "Nodes of a segment";
    "signal": Value("[R][B:]SIG[@SECONDS]"), "SBATCH_SIGNAL", "Send a signal before the end";
    "sockets-per-node": Value("N"), "", "Sockets of each node";
    "spread-job": Nothing, "SBATCH_SPREAD_JOB", "Use many nodes";
    "spread-segments": Nothing, "", "No effect: where segments are";
    "switches": Value("N[@MINUTES]"), "SBATCH_REQ_SWITCH", "Most network switches";
    "test-only": Nothing, "", "Check script and options and print the jobspec; submit nothing";
    "thread-spec": Value("N"), "SBATCH_THREAD_SPEC", "Threads kept for the system";
    "threads-per-core": Value("N"), "SBATCH_THREADS_PER_CORE", "Threads of each core";
    "time" 't': Value("TIME"), "SBATCH_TIMELIMIT", "Time limit: minutes, HH:MM:SS, D-HH:MM:SS, UNLIMITED";
    "time-min": Value("TIME"), "", "Least time limit";
    "tmp": Value("SIZE"), "", "Temporary disk of each node";
    "tres-bind": Value("SPEC"), "", "How tasks are bound to resources";
    "usage": Nothing, "", "Print this help";
    "use-min-nodes": Nothing, "SBATCH_USE_MIN_NODES", "Use few nodes";
    "verbose" 'v': Nothing, "", "Say what has no effect here (repeatable)";
    "version" 'V': Nothing, "", "Print the version";
    "wait" 'W': Nothing, "SBATCH_WAIT", "Wait for the job, and exit with its exit code";
    "wait-all-nodes": Value("0|1"), "SBATCH_WAIT_ALL_NODES", "Start when all nodes are ready";
    "wckey": Value("KEY"), "SBATCH_WCKEY", "Workload characterization key";
    "wrap": Value("COMMAND"), "", "Run a command of the shell in place of a script";
}

options! {
    /// The options that only `srun` has, or that mean something else there.
    OF_SRUN:
    "bcast": Optional("DEST", ""), "", "No effect: all nodes see the program";
    "compress": Optional("TYPE", ""), "", "No effect: nothing is copied";
    "disable-status" 'X': Nothing, "", "No effect: Ctrl-C cancels";
    "exact": Nothing, "", "No effect: steps get what they ask for";
    "immediate" 'I': Optional("SECONDS", ""), "", "No effect: the command waits for resources";
    "kill-on-bad-exit" 'K': Optional("0|1", "1"), "SLURM_KILL_BAD_EXIT", "The first task that fails ends the others";
    "label" 'l': Nothing, "SLURM_LABELIO", "Begin lines with the rank of their task";
    "mpi": Value("TYPE"), "", "No effect: PMI is always there";
    "multi-prog": Nothing, "", "Run the programs that a file names for the tasks";
    "overlap": Nothing, "", "No effect: steps share the resources of their job";
    "preserve-env" 'E': Nothing, "", "No effect: the step's own sizes are set";
    "pty": Optional("FILE", ""), "", "Run in a terminal";
    "quit-on-interrupt": Nothing, "", "No effect: Ctrl-C cancels";
    "send-libs": Optional("yes|no", ""), "", "No effect: nothing is copied";
    "slurmd-debug": Value("LEVEL"), "", "No effect: there is no slurmd";
    "threads" 'T': Value("N"), "", "No effect: one process starts all tasks";
    "unbuffered" 'u': Nothing, "", "No effect: output is never buffered";
    "wait" 'W': Value("SECONDS"), "", "How long tasks may go on after the first has ended; 0 for no limit";
}

/// The options of `sbatch` that `srun` doesn't have.
const NOT_OF_SRUN: &[&str] = &[
    "array",
    "batch",
    "export-file",
    "get-user-env",
    "ignore-pbs",
    "no-requeue",
    "parsable",
    "requeue",
    "test-only",
    "wait-all-nodes",
    "wrap",
];

/// Options of `srun` that are refused.
const REFUSED_OF_SRUN: &[(&str, &str)] = &[
    ("epilog", "run it after the command"),
    ("external-launcher", "steps start their tasks themselves"),
    ("het-group", "heterogeneous jobs don't exist here"),
    ("jobid", "steps run in the job that calls srun"),
    ("no-allocate", "every command is a job or a step of one"),
    ("prolog", "run it before the command"),
    ("relative", "steps run where there is room in the job"),
    ("task-epilog", "run it in the command"),
    ("task-prolog", "run it in the command"),
    ("x11", "no X11 is forwarded here"),
];

/// The options of a command.
pub(super) struct Syntax {
    /// Options that come before those of the same name in `then`.
    first: &'static [Spec],
    then: &'static [Spec],
    /// What it lacks of `then`.
    without: &'static [&'static str],
    refused: [&'static [(&'static str, &'static str)]; 2],
}

/// The options of `sbatch`.
const SBATCH: Syntax = Syntax { first: &[], then: OPTIONS, without: &[], refused: [REFUSED, &[]] };

/// The options of `srun`.
pub(super) const SRUN: Syntax = Syntax {
    first: OF_SRUN,
    then: OPTIONS,
    without: NOT_OF_SRUN,
    refused: [REFUSED, REFUSED_OF_SRUN],
};

/// Options of Slurm that are refused: if they were ignored, the job would do something other than the user expects.
const REFUSED: &[(&str, &str)] = &[
    ("uid", "jobs run as the user who submits them"),
    ("gid", "jobs run with the groups of the user who submits them"),
    ("container-id", "jobs run in no container: put the runtime's command into the script"),
    ("context", "jobs have no SELinux context here"),
    ("tres-per-task", "use --gpus-per-task"),
    ("stepmgr", "steps are jobs of a manager here"),
    ("resv-ports", "no ports are reserved here"),
];

/// Reads the options of `sbatch` at the start of a list of words. Returns the settings and the remaining words.
///
/// # Errors
/// [`OptionError`].
pub(super) fn parse<'w>(
    words: &'w [String],
    place: &Place,
) -> Result<(Vec<Setting>, &'w [String]), OptionError> {
    parse_as(&SBATCH, words, place)
}

/// As [`parse`], for the options of another command.
pub(super) fn parse_as<'w>(
    syntax: &Syntax,
    words: &'w [String],
    place: &Place,
) -> Result<(Vec<Setting>, &'w [String]), OptionError> {
    let refused = |fault| OptionError { place: place.clone(), fault };
    let setting = |spec: &Spec, name, value: &str| {
        let origin = Origin::Option { place: place.clone(), name };
        Setting { name: spec.name, value: value.to_owned(), origin }
    };
    let mut settings = Vec::new();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if word == "--" {
            return Ok((settings, after));
        }
        let mut next = after;
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let spec = syntax.find(name).map_err(refused)?;
            let name = Name::Long(spec.name);
            let value = match (spec.takes, value) {
                (Takes::Nothing, Some(_)) => return Err(refused(OptionFault::TakesNoValue(name))),
                (Takes::Nothing, None) => "",
                (Takes::Optional(_, default), None) => default,
                (Takes::Value(_) | Takes::Optional(..), Some(value)) => value,
                (Takes::Value(value), None) => take(&mut next, name, value).map_err(refused)?,
            };
            settings.push(setting(spec, name, value));
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let mut letters = letters;
            while let Some(letter) = letters.chars().next() {
                letters = letters.get(letter.len_utf8()..).unwrap_or_default();
                let spec = syntax.specs().find(|spec| spec.short == Some(letter));
                let unknown = || refused(OptionFault::Unknown(format!("-{letter}")));
                let spec = spec.ok_or_else(unknown)?;
                let name = Name::Short(letter);
                // The value is the rest of the word, or for an option that needs one the next word.
                let value = match (spec.takes, letters) {
                    (Takes::Nothing, _) => "",
                    (Takes::Optional(_, default), "") => default,
                    (Takes::Value(value), "") => take(&mut next, name, value).map_err(refused)?,
                    (Takes::Optional(..) | Takes::Value(_), rest) => {
                        letters = "";
                        rest
                    }
                };
                settings.push(setting(spec, name, value));
            }
        } else {
            break;
        }
        rest = next;
    }
    // On the command line, it separates the components of a heterogeneous job.
    if rest.first().is_some_and(|word| word == ":") {
        return Err(refused(OptionFault::Heterogeneous(":")));
    }
    Ok((settings, rest))
}

fn take<'w>(
    words: &mut &'w [String],
    name: Name,
    value: &'static str,
) -> Result<&'w str, OptionFault> {
    let (word, rest) = words.split_first().ok_or(OptionFault::NeedsValue { name, value })?;
    *words = rest;
    Ok(word)
}

impl Syntax {
    fn specs(&self) -> impl Iterator<Item = &'static Spec> {
        let (first, without) = (self.first, self.without);
        let then = self.then.iter().filter(move |spec| {
            !without.contains(&spec.name) && first.iter().all(|other| other.name != spec.name)
        });
        first.iter().chain(then)
    }

    /// The option of this name, or of the only name that begins with it.
    fn find(&self, name: &str) -> Result<&'static Spec, OptionFault> {
        if let Some(spec) = self.specs().find(|spec| spec.name == name) {
            return Ok(spec);
        }
        let mut refused = self.refused.into_iter().flatten();
        if let Some((name, reason)) = refused.find(|(refused, _)| *refused == name) {
            return Err(OptionFault::Refused { name, reason });
        }
        let matching: Vec<&Spec> =
            self.specs().filter(|spec| !name.is_empty() && spec.name.starts_with(name)).collect();
        match matching.as_slice() {
            [spec] => Ok(spec),
            [] => Err(match self.meant(name) {
                Some(meant) => OptionFault::Misspelled { given: name.to_owned(), meant },
                None => OptionFault::Unknown(format!("--{name}")),
            }),
            several => {
                let names = several.iter().map(|spec| spec.name).collect();
                Err(OptionFault::Ambiguous { given: name.to_owned(), names })
            }
        }
    }

    /// The option that was probably meant. Of two equally near ones, the one with the same first letter.
    fn meant(&self, name: &str) -> Option<&'static str> {
        let names = || self.specs().map(|spec| spec.name);
        let same = |known: &&str| known.chars().next() == name.chars().next();
        nearest(name, names().filter(same).chain(names()))
    }
}

/// The settings that variables of the environment make.
pub(super) fn from_environment<'v>(variable: impl Fn(&str) -> Option<&'v str>) -> Vec<Setting> {
    let mut settings = Vec::new();
    for spec in OPTIONS.iter().filter(|spec| !spec.variable.is_empty()) {
        let Some(value) = variable(spec.variable) else { continue };
        // For these Slurm only checks whether the variable is set.
        let value = if spec.takes == Takes::Nothing { "" } else { value };
        let (value, origin) = (value.to_owned(), Origin::Variable(spec.variable));
        settings.push(Setting { name: spec.name, value, origin });
    }
    settings
}

/// The help text.
pub(super) fn help(program: &str) -> String {
    let mut text = format!(
        "Submit a batch script with the options of Slurm's sbatch\n\n\
         Usage: {program} sbatch [OPTIONS] [SCRIPT [ARGS]...]\n\n\
         Options are also read from lines of the script that begin with #SBATCH, and from the environment.\n\
         The command line comes first, then the environment, then the script.\n\nOptions:\n"
    );
    list(&SBATCH, &mut text);
    text
}

/// The help text of `srun`.
pub(super) fn help_of_srun(program: &str) -> String {
    let mut text = format!(
        "Run a command as a job, or inside a job as a step of it\n\n\
         Usage: {program} srun [OPTIONS] COMMAND [ARGS]...\n\nOptions:\n"
    );
    list(&SRUN, &mut text);
    text
}

fn list(syntax: &Syntax, text: &mut String) {
    for spec in syntax.specs() {
        let short = spec.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        let value = match spec.takes {
            Takes::Nothing => String::new(),
            Takes::Value(name) => format!("={name}"),
            Takes::Optional(name, _) => format!("[={name}]"),
        };
        let left = format!("{short}--{}{value}", spec.name);
        let _ = writeln!(text, "  {left:<36} {}", spec.help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn parsed(text: &str) -> Result<String, OptionError> {
        let words = words(text);
        let (settings, rest) = parse(&words, &Place::CommandLine)?;
        let settings: Vec<String> =
            settings.iter().map(|set| format!("{}={}", set.name, set.value)).collect();
        Ok(format!("{} | {}", settings.join(" "), rest.join(" ")))
    }

    fn refused(text: &str) -> String {
        parsed(text).unwrap_err().to_string()
    }

    #[test]
    fn options_end_at_the_script() {
        let all = parsed("-n4 -p batch --time=5 --wrap x -HQ job.sh -n 7").unwrap();
        assert_eq!(all, "ntasks=4 partition=batch time=5 wrap=x hold= quiet= | job.sh -n 7");
        assert_eq!(parsed("-- -n").unwrap(), " | -n");
        assert_eq!(parsed("-").unwrap(), " | -");
    }

    #[test]
    fn long_options_can_be_shortened() {
        assert_eq!(parsed("--part a --nodel n1").unwrap(), "partition=a nodelist=n1 | ");
        assert_eq!(refused("--node 3"), "--node can be --nodefile or --nodelist or --nodes");
        // The name of this option is the beginning of other names.
        assert_eq!(parsed("--mem 3").unwrap(), "mem=3 | ");
    }

    #[test]
    fn optional_values_stand_after_an_equals_sign() {
        assert_eq!(parsed("--exclusive job").unwrap(), "exclusive= | job");
        assert_eq!(parsed("--exclusive=user").unwrap(), "exclusive=user | ");
        assert_eq!(parsed("--nice --nice=-5 -koff").unwrap(), "nice=100 nice=-5 no-kill=off | ");
    }

    #[test]
    fn wrong_options_are_refused_with_what_was_meant() {
        assert_eq!(refused("--tmie=5"), "unknown option --tmie: did you mean --time?");
        assert_eq!(refused("--xyzzy"), "unknown option --xyzzy: see --help");
        assert_eq!(refused("-Z"), "unknown option -Z: see --help");
        assert_eq!(refused("--hold=1"), "--hold takes no value");
        assert_eq!(refused("-n"), "-n needs a value: N");
        assert!(refused("-n1 : -n2 job.sh").starts_with("heterogeneous jobs (:) don't exist here"));
        assert_eq!(
            refused("--uid=0"),
            "--uid can't be used: jobs run as the user who submits them"
        );
    }

    #[test]
    fn names_are_unique_and_in_order() {
        for table in [OPTIONS, OF_SRUN] {
            assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
        }
        for syntax in [SBATCH, SRUN] {
            let mut shorts: Vec<char> = syntax.specs().filter_map(|spec| spec.short).collect();
            let count = shorts.len();
            shorts.sort_unstable();
            shorts.dedup();
            assert_eq!(shorts.len(), count);
        }
    }

    #[test]
    fn variables_set_options() {
        let variable = |name: &str| match name {
            "SBATCH_TIMELIMIT" => Some("5"),
            "SBATCH_WAIT" => Some("yes"),
            _ => None,
        };
        let settings = from_environment(variable);
        let found: Vec<(&str, &str)> =
            settings.iter().map(|set| (set.name, set.value.as_str())).collect();
        assert_eq!(found, [("time", "5"), ("wait", "")]);
    }
}
