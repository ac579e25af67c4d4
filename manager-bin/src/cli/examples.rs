//! The examples at the end of each command's help. They are in one table, apart from the options, so that one test
//! parses them all: it fails if an example is not a valid command line, and if a command has no example.

use clap::Command;

/// The commands whose examples are here, with those examples. The other commands define their own in their help.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("R append", &["cat a.json b.json | jobtap R append"]),
    (
        "R decode",
        &["jobtap resource R | jobtap R decode --short", "jobtap R decode --nodelist < R.json"],
    ),
    ("R diff", &["cat all.json used.json | jobtap R diff"]),
    (
        "R encode",
        &["jobtap R encode --hosts 'node[0-3]' --cores 0-7 > R.json", "jobtap R encode --local"],
    ),
    ("R intersect", &["cat a.json b.json | jobtap R intersect"]),
    ("R parse-config", &["jobtap R parse-config /etc/jobtap/conf.d"]),
    ("R remap", &["jobtap R remap < R.json"]),
    ("R rerank", &["jobtap R rerank 'node[3,2,1,0]' < R.json"]),
    ("R set-property", &["jobtap R set-property big:0-3 gpu:2 < R.json"]),
    ("R verify", &["jobtap R verify < R.json"]),
    ("alloc", &["jobtap alloc -N2 -t 1h", "jobtap alloc -n4 --bg", "jobtap alloc -n4 ./steps.sh"]),
    ("audit", &["jobtap audit", "jobtap audit drain undrain"]),
    (
        "batch",
        &["jobtap batch -N2 -t 1h script.sh", "jobtap batch -n4 --wrap 'jobtap run -n4 ./app'"],
    ),
    ("bench", &["jobtap bench submit --jobs 10000", "jobtap bench --full"]),
    (
        "build",
        &[
            "jobtap build -o jobtap-site",
            "jobtap build --with deadline=plugins/deadline -o jobtap-site",
        ],
    ),
    ("build add", &["jobtap build add deadline@1.2", "jobtap build add deadline=plugins/deadline"]),
    ("build diff", &["jobtap build diff jobtap-old jobtap-new"]),
    ("build explain", &["jobtap build explain"]),
    ("build remove", &["jobtap build remove deadline"]),
    (
        "bulksubmit",
        &[
            "jobtap bulksubmit ./app {} ::: a.dat b.dat",
            "jobtap bulksubmit -n4 --wait ./app --seed {0} {1} ::: 1 2 3 ::: x y",
            "ls | jobtap bulksubmit gzip {}",
        ],
    ),
    ("resubmit", &["jobtap resubmit --failed f2oLkTLb", "jobtap resubmit -t 2h f2oLkTLb[17]"]),
    ("cancel", &["jobtap cancel f2oLkTLb", "jobtap cancel --all --states=pending --dry-run"]),
    ("completion", &["jobtap completion bash > ~/.local/share/bash-completion/completions/jobtap"]),
    (
        "config check",
        &[
            "jobtap config check /etc/jobtap/conf.d",
            "jobtap config check --host slurm /etc/slurm/jobtap.toml",
        ],
    ),
    ("allocation join", &["jobtap allocation join invitation"]),
    ("allocation list", &["jobtap allocation list", "jobtap allocation list --tables"]),
    ("allocation release", &["jobtap allocation release 3"]),
    ("config get", &["jobtap config get", "jobtap config get policy.limits.duration"]),
    ("config load", &["jobtap config load new.toml"]),
    ("config reload", &["jobtap config reload"]),
    ("config set", &["jobtap config set policy.limits.duration 1h"]),
    ("config unset", &["jobtap config unset policy.limits.duration"]),
    ("dmesg", &["jobtap dmesg", "jobtap dmesg --follow"]),
    ("exec", &["jobtap exec -l uptime", "jobtap exec -r 0-3 systemctl restart munge"]),
    ("dump", &["jobtap dump backup.tgz"]),
    ("env", &["jobtap env", "jobtap env make"]),
    ("fsck", &["jobtap fsck /var/lib/jobtap", "jobtap fsck --repair /var/lib/jobtap"]),
    ("getattr", &["jobtap getattr local-uri"]),
    ("hostlist", &["jobtap hostlist --count f2oLkTLb", "jobtap hostlist -e 'node[1-3]'"]),
    ("housekeeping kill", &["jobtap housekeeping kill --all"]),
    ("housekeeping list", &["jobtap housekeeping list"]),
    ("job attach", &["jobtap job attach f2oLkTLb"]),
    ("job eventlog", &["jobtap job eventlog -H f2oLkTLb", "jobtap job eventlog --follow f2oLkTLb"]),
    ("job hostpids", &["jobtap job hostpids f2oLkTLb"]),
    ("job id", &["jobtap job id --to=dec f2oLkTLb"]),
    ("job info", &["jobtap job info f2oLkTLb R", "jobtap job info f2oLkTLb jobspec"]),
    ("job journal", &["jobtap job journal"]),
    ("job kill", &["jobtap job kill -s USR1 f2oLkTLb"]),
    ("job killall", &["jobtap job killall --force -s TERM"]),
    ("job last", &["jobtap job last", "jobtap job last 5"]),
    ("job memo", &["jobtap job memo f2oLkTLb step=3"]),
    ("job namespace", &["jobtap job namespace f2oLkTLb"]),
    ("job unpack", &["jobtap job unpack out.pack", "jobtap job unpack out.pack f2oLkTLb[17]"]),
    (
        "job purge",
        &["jobtap job purge --age-limit=30d", "jobtap job purge --num-limit=1000 --force"],
    ),
    ("job raise", &["jobtap job raise --type=note --severity=3 f2oLkTLb"]),
    ("job raiseall", &["jobtap job raiseall --states=pending --force cancel"]),
    ("job stats", &["jobtap job stats"]),
    ("job status", &["jobtap job status f2oLkTLb"]),
    ("job submit", &["jobtap submit --dry-run ./app | jobtap job submit"]),
    ("job taskmap", &["jobtap job taskmap f2oLkTLb", "jobtap job taskmap --to=hosts f2oLkTLb"]),
    ("job timeleft", &["jobtap job timeleft --human"]),
    ("job urgency", &["jobtap job urgency f2oLkTLb hold", "jobtap job urgency f2oLkTLb default"]),
    ("job wait", &["jobtap job wait f2oLkTLb", "jobtap job wait --all"]),
    ("job wait-event", &["jobtap job wait-event -t 10m f2oLkTLb start"]),
    ("job why", &["jobtap job why f2oLkTLb"]),
    ("job-exec-override finish", &["jobtap job-exec-override finish f2oLkTLb 0"]),
    ("job-exec-override start", &["jobtap job-exec-override start f2oLkTLb"]),
    (
        "jobs",
        &[
            "jobtap jobs",
            "jobtap jobs -a --since -1h -o endreason",
            "jobtap jobs -A -f running -no '{id} {username}'",
        ],
    ),
    ("kvs dir", &["jobtap kvs dir -R job"]),
    ("kvs dump", &["jobtap kvs dump backup.tgz"]),
    ("kvs eventlog get", &["jobtap kvs eventlog get -H resource.eventlog"]),
    ("kvs eventlog wait-event", &["jobtap kvs eventlog wait-event -t 60 resource.eventlog drain"]),
    ("kvs get", &["jobtap kvs get checkpoint.job-manager"]),
    ("kvs ls", &["jobtap kvs ls", "jobtap kvs ls job"]),
    ("kvs restore", &["jobtap kvs restore --state-dir new backup.tgz"]),
    ("licenses", &["jobtap licenses", "jobtap licenses --list"]),
    ("logger", &["jobtap logger -s warning fans of rack 3 are slow"]),
    ("lsattr", &["jobtap lsattr -v"]),
    ("module list", &["jobtap module list"]),
    ("module load", &["jobtap module load perilog"]),
    ("module reload", &["jobtap module reload job-manager"]),
    ("module remove", &["jobtap module remove perilog"]),
    ("module stats", &["jobtap module stats job-manager"]),
    ("new manager", &["jobtap new manager jobtap-site"]),
    ("new plugin", &["jobtap new plugin quota"]),
    ("openapi", &["jobtap openapi > jobtap.json"]),
    (
        "multi-prog",
        &[
            "jobtap run -n4 jobtap multi-prog programs.conf",
            "jobtap multi-prog -n 0-3 programs.conf",
        ],
    ),
    ("pgrep", &["jobtap pgrep -a '^relax'", "jobtap pgrep name:relax"]),
    ("pkill", &["jobtap pkill '^relax'"]),
    ("plugin available", &["jobtap plugin available", "jobtap plugin available ./jobtap-site"]),
    ("plugin call", &["jobtap plugin call fairshare.why 1234"]),
    ("plugin demote", &["jobtap plugin demote quota"]),
    ("plugin list", &["jobtap plugin list"]),
    ("plugin load", &["jobtap plugin load quota limit=100", "jobtap plugin load --shadow quota"]),
    ("plugin promote", &["jobtap plugin promote quota"]),
    ("plugin query", &["jobtap plugin query quota"]),
    ("plugin reload", &["jobtap plugin reload quota limit=200"]),
    ("plugin remove", &["jobtap plugin remove quota"]),
    ("plugin schema", &["jobtap plugin schema fairshare"]),
    ("plugin shadow", &["jobtap plugin shadow quota"]),
    ("plugin stats", &["jobtap plugin stats", "jobtap plugin stats --histogram fairshare"]),
    ("policy diff", &["jobtap policy diff old.toml new.toml --trace month.swf"]),
    ("post-job-event", &["jobtap post-job-event f2oLkTLb checkpointed step=7"]),
    ("proxy", &["jobtap proxy f2oLkTLb jobtap jobs"]),
    ("pstree", &["jobtap pstree", "jobtap pstree -a f2oLkTLb"]),
    ("queue disable", &["jobtap queue disable debug -m maintenance"]),
    ("queue drain", &["jobtap queue drain -t 1h"]),
    ("queue enable", &["jobtap queue enable debug", "jobtap queue enable --all"]),
    ("queue idle", &["jobtap queue idle"]),
    ("queue list", &["jobtap queue list", "jobtap queue list -o nodes"]),
    ("queue start", &["jobtap queue start debug", "jobtap queue start --all"]),
    ("queue status", &["jobtap queue status -v"]),
    ("queue stop", &["jobtap queue stop debug -m 'new file system'"]),
    ("resource R", &["jobtap resource R"]),
    ("resource drain", &["jobtap resource drain", "jobtap resource drain 'node[3-5]' disk fails"]),
    ("resource eventlog", &["jobtap resource eventlog -H"]),
    ("resource info", &["jobtap resource info"]),
    ("resource list", &["jobtap resource list", "jobtap resource list -s free"]),
    (
        "resource maintenance add",
        &[
            "jobtap resource maintenance add 'node[0-7]' --from 'tomorrow 8am' --to 'tomorrow 10am' new firmware",
        ],
    ),
    ("resource maintenance list", &["jobtap resource maintenance list"]),
    ("resource maintenance remove", &["jobtap resource maintenance remove 3"]),
    ("resource offline", &["jobtap resource offline node4"]),
    ("resource online", &["jobtap resource online node4"]),
    ("resource reload", &["jobtap resource reload R.json"]),
    ("resource status", &["jobtap resource status", "jobtap resource status -s drain,offline"]),
    ("resource undrain", &["jobtap resource undrain 'node[3-5]'"]),
    ("run", &["jobtap run -n4 ./app", "jobtap run -N2 -o pty --label-io hostname"]),
    ("sacct", &["jobtap sacct", "jobtap sacct -j 7 -P -o JobID,State,Elapsed"]),
    (
        "sbatch",
        &[
            "jobtap sbatch -N2 -t 60 job.sh",
            "jobtap sbatch --array=0-9 --wrap './app $SLURM_ARRAY_TASK_ID'",
        ],
    ),
    ("scancel", &["jobtap scancel 7_[1-4]", "jobtap scancel -u ada -t PENDING"]),
    (
        "scontrol",
        &[
            "jobtap scontrol show hostnames 'node[1-3]'",
            "jobtap scontrol update NodeName=node3 State=DRAIN Reason='bad disk'",
        ],
    ),
    ("setattr", &["jobtap setattr log-stderr-level 6"]),
    ("shutdown", &["jobtap shutdown", "jobtap shutdown --dump=last.tgz"]),
    ("sinfo", &["jobtap sinfo", "jobtap sinfo -N -h -o '%N %t'"]),
    ("slurm explain", &["jobtap slurm explain job_submit.lua"]),
    ("slurm install", &["jobtap slurm install ~/slurm-commands"]),
    ("slurm try", &["jobtap slurm try job_submit.lua --job '-p debug -t 10 -n 4'"]),
    ("squeue", &["jobtap squeue --me", "jobtap squeue -h -j 7 -o '%i %T'"]),
    ("srun", &["jobtap srun -n4 ./app"]),
    (
        "start",
        &[
            "jobtap start",
            "jobtap start ./workflow.sh",
            "jobtap start --config-path site.toml --state-dir /var/lib/jobtap",
        ],
    ),
    ("startlog", &["jobtap startlog"]),
    (
        "submit",
        &[
            "jobtap submit -n4 -t 10m ./app",
            "jobtap submit --cc=0-9 ./app {cc}",
            "jobtap submit -N2 --dependency=afterok:f2oLkTLb --wait ./app",
        ],
    ),
    ("update", &["jobtap update f2oLkTLb duration=2h"]),
    ("uptime", &["jobtap uptime"]),
    ("uri", &["jobtap uri f2oLkTLb", "jobtap uri --wait f2oLkTLb"]),
    ("version", &["jobtap version"]),
    ("watch", &["jobtap watch --active", "jobtap watch f2oLkTLb"]),
];

/// The command with the examples of its subcommands.
pub(super) fn with_examples(top: Command) -> Command {
    below(top, "")
}

fn below(command: Command, path: &str) -> Command {
    command.mut_subcommands(|sub| {
        let path = match path {
            "" => sub.get_name().to_owned(),
            path => format!("{path} {}", sub.get_name()),
        };
        let known = EXAMPLES.iter().find(|(name, _)| *name == path);
        let sub = match known {
            Some((_, examples)) => {
                let before = sub.get_after_help().map(|help| format!("{help}\n\n"));
                let examples: Vec<String> =
                    examples.iter().map(|example| format!("\n  {example}")).collect();
                let before = before.unwrap_or_default();
                sub.after_help(format!("{before}Examples:{}", examples.concat()))
            }
            None => sub,
        };
        below(sub, &path)
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::ArgMatches;

    use super::*;
    use crate::cli::{optional_values, program};

    /// The words of the last command in a shell's line that begins with `jobtap`.
    fn words(line: &str) -> Vec<OsString> {
        let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
        for c in line.chars().chain([' ']) {
            match (quote, c) {
                (Some(q), c) if q == c => quote = None,
                (Some(_), c) => word.push(c),
                (None, '\'' | '"') => (quote, begun) = (Some(c), true),
                (None, c) if c.is_whitespace() => {
                    if begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                    begun = false;
                }
                (None, c) => word.push(c),
            }
        }
        assert_eq!(quote, None, "{line}");
        let mut parts = words.split(|word| ["|", ">", "<", "&&"].contains(&word.as_str()));
        let own = parts.rfind(|part| part.first().is_some_and(|word| word == "jobtap"));
        own.unwrap_or_else(|| panic!("{line}")).iter().map(OsString::from).collect()
    }

    /// The path of the command that a line names.
    fn path(matches: &ArgMatches) -> String {
        let mut path = Vec::new();
        let mut inner = matches.subcommand();
        while let Some((name, matches)) = inner {
            path.push(name);
            inner = matches.subcommand();
        }
        path.join(" ")
    }

    /// Collects the examples of a command and its subcommands that are not valid command lines.
    fn wrong(command: &Command, name: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = format!("{name} {}", sub.get_name()).trim().to_owned();
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
            // A line of the shell may go on after a backslash.
            let examples = examples.replace("\\\n", " ");
            let lines: Vec<&str> =
                examples.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            if lines.is_empty() && sub.get_subcommands().next().is_none() {
                found.push(format!("{name} has no example"));
            }
            for line in lines {
                let words = optional_values::with_equals(&program(), words(line));
                match program().try_get_matches_from(words) {
                    // The last `jobtap` in a pipe may be a different command.
                    Ok(matches) if path(&matches) == name || line.contains(&name) => {}
                    Ok(matches) => found.push(format!("{name}: {line}: is {}", path(&matches))),
                    Err(error) => found.push(format!("{name}: {line}: {error}")),
                }
            }
            wrong(sub, &name, found);
        }
    }

    #[test]
    fn each_command_has_examples_that_are_command_lines() {
        let mut found = Vec::new();
        wrong(&program(), "", &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn each_row_of_the_table_is_a_command() {
        let program = program();
        for (path, examples) in EXAMPLES {
            let command =
                path.split(' ').try_fold(&program, |command, word| command.find_subcommand(word));
            assert!(command.is_some() && !examples.is_empty(), "{path}");
        }
    }
}
