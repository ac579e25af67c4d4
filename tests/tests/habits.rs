//! What helps users at work: completions, manual pages, and mistakes in a configuration shown with their lines.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use jobtap_tests::terminal::Terminal;
use jobtap_tests::{Manager, clean, jobtap, run, temporary};

/// A shell that completes lines under a manager with one running job.
struct Shell {
    manager: Manager,
    job: String,
}

impl Shell {
    fn start() -> Self {
        let manager = Manager::start_with(jobtap(), "[queues.batch]\n[queues.debug]\n");
        manager.jobtap("queue start --all --quiet").ok();
        let job = manager.submit("--queue=debug --job-name=long sleep 600");
        Self { manager, job }
    }

    /// The output of a script in which `jobtap` is the program.
    fn says(&self, shell: &str, script: &str) -> String {
        let path = format!("{}:/usr/bin:/bin", jobtap().parent().unwrap().display());
        let mut command = clean(Path::new(shell));
        command.env("PATH", path).env("JOBTAP_URI", self.manager.uri()).args(["-c", script]);
        run(&mut command).ok()
    }

    /// The suggestions of bash for the last word of a line.
    fn bash(&self, line: &str) -> Vec<String> {
        let script = format!(
            "eval \"$(jobtap completion bash)\"\n\
             COMP_WORDS=({line}) COMP_TYPE=9\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _clap_complete_jobtap jobtap \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        self.says("/bin/bash", &script).lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_shell_completes_jobs_plugins_queues_and_keys() {
    let shell = Shell::start();
    let first = |line: &str| shell.bash(line).first().cloned().unwrap_or_default();
    assert_eq!(first("jobtap canc"), "cancel");
    assert_eq!(first("jobtap cancel ''"), shell.job);
    assert_eq!(first("jobtap cancel f"), shell.job);
    let decimal = shell.manager.jobtap(&format!("job id --to=dec {}", shell.job)).ok();
    let begin = decimal.chars().next().unwrap();
    assert_eq!(first(&format!("jobtap cancel {begin}")), decimal.trim());
    assert_eq!(shell.bash("jobtap submit --queue d"), ["debug"]);
    assert_eq!(shell.bash("jobtap jobs --queue batch,d"), ["batch,debug"]);
    assert_eq!(shell.bash("jobtap plugin remove .begin"), [".begin-time"]);
    assert_eq!(shell.bash("jobtap getattr local-u"), ["local-uri"]);
    assert_eq!(shell.bash("jobtap config get resource.nov"), ["resource.noverify"]);
    assert_eq!(shell.bash("jobtap submit --output=/dev/nul"), ["--output=/dev/null"]);
}

#[test]
fn jobs_that_have_ended_are_offered_only_where_they_can_be_meant() {
    let shell = Shell::start();
    let ended = shell.manager.submit("--queue=debug --job-name=short true");
    shell.manager.wait(&ended, "clean");
    assert_eq!(shell.bash("jobtap cancel f"), std::slice::from_ref(&shell.job));
    assert_eq!(shell.bash("jobtap job info f"), [shell.job.clone(), ended]);
}

#[test]
fn a_shell_does_not_wait_for_a_manager_that_hangs() {
    let shell = Shell::start();
    shell.manager.signal("STOP");
    let begun = Instant::now();
    let offered = shell.bash("jobtap cancel f");
    let time = begun.elapsed();
    shell.manager.signal("CONT");
    assert!(
        !offered.contains(&shell.job) && time < Duration::from_secs(20),
        "{offered:?} {time:?}"
    );
}

#[test]
fn a_shell_without_a_manager_still_completes_options() {
    let shell = Shell::start();
    let script = "export JOBTAP_URI=local:///nonexistent JOBTAP_COMPLETE=bash _CLAP_IFS=$'\\n'\n\
                  export _CLAP_COMPLETE_INDEX=2 _CLAP_COMPLETE_TYPE=9\n\
                  jobtap -- jobtap cancel ''";
    let said = shell.says("/bin/bash", script);
    assert!(said.lines().any(|line| line == "--dry-run"), "{said}");
}

#[test]
fn fish_shows_names_and_states_of_jobs() {
    if !Path::new("/usr/bin/fish").exists() {
        eprintln!("skipped: fish is not installed");
        return;
    }
    let shell = Shell::start();
    let said = shell.says(
        "/usr/bin/fish",
        "jobtap completion fish | source; complete --do-complete='jobtap cancel f'",
    );
    assert_eq!(said.trim(), format!("{}\tlong RUN", shell.job));
}

/// A shell in a terminal, as a user has it. The completion code is where Debian's package puts it, or in the shell's
/// own start file.
#[test]
fn the_first_tab_completes() {
    let shell = Shell::start();
    let code = |shell: &str| run(clean(jobtap()).args(["completion", shell])).ok();
    let programs = jobtap().parent().unwrap().display();
    for (name, start, command) in [
        ("bash", "bashrc", "bash --noprofile --rcfile bashrc -i"),
        ("zsh", ".zshrc", "ZDOTDIR=. zsh -d -i"),
        ("fish", "config.fish", "fish --no-config --init-command 'source config.fish'"),
    ] {
        if !Path::new("/usr/bin").join(name).exists() {
            eprintln!("skipped: {name} is not installed");
            continue;
        }
        let directory = temporary();
        let put =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        match name {
            "zsh" => {
                std::fs::create_dir(directory.path().join("functions")).unwrap();
                put("functions/_jobtap", &code(name));
                put(
                    start,
                    "PS1='ready> '\nfpath=(./functions $fpath)\nautoload -Uz compinit\ncompinit -u -d dump\n",
                );
            }
            "fish" => {
                put(start, &format!("function fish_prompt; echo 'ready> '; end\n{}", code(name)))
            }
            _ => put(start, &format!("PS1='ready> '\n{}", code(name))),
        }
        let line = format!(
            "cd {}; export PATH={programs}:$PATH HOME=$PWD; {command}",
            directory.path().display()
        );
        let Some(mut terminal) = Terminal::open(&shell.manager, &line, &[]) else { return };
        terminal.shows("ready>");
        terminal.press("jobtap canc\t");
        terminal.until(|shown| shown.contains("jobtap cancel"));
        // The beginning of the only job's id.
        terminal.press(&format!("{}\t", shell.job.get(..2).unwrap()));
        terminal.until(|shown| shown.contains(&format!("jobtap cancel {}", shell.job)));
        terminal.press("\x15exit\r");
        terminal.end();
    }
}

#[test]
fn each_shells_code_is_accepted_by_the_shell() {
    for shell in ["bash", "zsh", "fish"] {
        if !Path::new("/usr/bin").join(shell).exists() {
            eprintln!("skipped: {shell} is not installed");
            continue;
        }
        let directory = temporary();
        let file = directory.path().join("code");
        let code = run(clean(jobtap()).args(["completion", shell])).ok();
        std::fs::write(&file, code).unwrap();
        run(Command::new(shell).arg("-n").arg(&file)).ok();
    }
    let refused = run(clean(jobtap()).args(["completion", "csh"]));
    assert!(refused.code == 2 && refused.stderr.contains("invalid choice: 'csh'"), "{refused:?}");
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = temporary();
    let pages = directory.path().join("man1");
    let write = || run(clean(jobtap()).arg("man").arg("-o").arg(&pages));
    write().ok();
    for name in ["jobtap.1", "jobtap-submit.1", "jobtap-job-attach.1", "jobtap-plugin-load.1"] {
        assert!(pages.join(name).exists(), "{name}");
    }
    let refused = write();
    assert!(refused.code == 1 && refused.stderr.contains("is not empty"), "{refused:?}");
    let page = run(clean(jobtap()).args(["man", "job", "attach"])).ok();
    assert!(page.contains(".TH jobtap-job-attach 1"), "{page}");
    let refused = run(clean(jobtap()).args(["man", "job", "nosuch"]));
    assert!(refused.code == 1 && refused.stderr.contains("no command \"nosuch\""), "{refused:?}");
}

#[test]
fn mistakes_of_a_configuration_are_shown_at_their_lines() {
    let directory = temporary();
    let at = |name: &str| directory.path().join(name);
    let check = |name: &str| run(clean(jobtap()).args(["config", "check"]).arg(at(name)));
    let text = "[queues.debug]\nrequire = ['a']\n\n[log]\nring-size = 0\n\n[polcy]\nx = 1\n";
    std::fs::write(at("a.toml"), text).unwrap();
    let found = check("a.toml");
    assert_eq!(found.code, 1);
    for (line, said) in [
        ("a.toml:2:1", "left unpacked: require"),
        ("a.toml:5:1", "log.ring-size: 0 is not a number of lines"),
        ("a.toml:7:1", "did you mean policy?"),
        ("3 errors, 0 warnings", "polcy"),
    ] {
        assert!(found.stdout.contains(line) && found.stdout.contains(said), "{}", found.stdout);
    }
    let places: Vec<&str> = found.stdout.matches("a.toml:").collect();
    assert_eq!(places.len(), 3);
    std::fs::write(at("b.toml"), "[queues\n").unwrap();
    let found = check("b.toml");
    assert!(found.code == 1 && found.stdout.contains("b.toml:1:8"), "{}", found.stdout);
    std::fs::write(at("c.json"), "{\"log\": {\"ring-size\": 0}}").unwrap();
    let found = check("c.json");
    assert!(found.code == 1 && found.stdout.contains("at log.ring-size"), "{}", found.stdout);
    std::fs::write(at("d.toml"), "[queues.debug]\n").unwrap();
    assert!(check("d.toml").ok().contains("1 file: 0 errors, 0 warnings"));
    assert_eq!(check("nosuch.toml").code, 1);
    let text = "[slurm]\nrequest-timout = '5s'\n[plugins.throttle]\njobs_per_hour = 3\n";
    std::fs::write(at("jobtap.toml"), text).unwrap();
    let words = ["config", "check", "--host", "slurm"];
    let found = run(clean(jobtap()).args(words).arg(at("jobtap.toml")));
    assert_eq!(found.code, 1);
    for said in ["jobtap.toml:2:1", "did you mean request-timeout?", "jobtap.toml:4:1", "2 errors"]
    {
        assert!(found.stdout.contains(said), "{said}: {}", found.stdout);
    }
}

#[test]
fn what_flux_honours_and_jobtap_does_not_is_told() {
    let directory = temporary();
    let file = directory.path().join("site.toml");
    // As in the guide for Flux's administrators.
    let text = "\
[systemd]
enable = true
[exec]
imp = \"/usr/libexec/flux/flux-imp\"
service = \"sdexec\"
sdexec-constrain-resources = true
[exec.sdexec-properties]
MemoryMax = \"95%\"
[access]
allow-guest-user = true
allow-root-owner = true
[bootstrap]
curve_cert = \"/etc/flux/system/curve.cert\"
hosts = [{ host = \"test[1-16]\" }]
[tbon]
tcp_user_timeout = \"2m\"
[resource]
noverify = true
history = \"30d\"
[[resource.config]]
hosts = \"test[1-15]\"
cores = \"0-7\"
gpus = \"0\"
[kvs]
checkpoint-period = \"30m\"
[ingest.validator]
plugins = [\"jobspec\", \"feasibility\"]
args = [\"--require-version=1\"]
[job-manager]
inactive-age-limit = \"7d\"
[policy.jobspec.defaults.system]
duration = \"1m\"
[policy.limits]
duration = \"2h\"
job-size.max.nnodes = 8
[sched-fluxion-qmanager]
queue-policy = \"easy\"
[sched-fluxion-resource]
match-policy = \"lonodex\"
match-format = \"rv1_nosched\"
";
    std::fs::write(&file, text).unwrap();
    let found = run(clean(jobtap()).args(["config", "check"]).arg(&file)).ok();
    let told: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    let told: Vec<&str> = told.iter().filter_map(|line| line.split(": ").next()).collect();
    let wanted = [
        "[systemd]",
        "exec.service",
        "exec.sdexec-constrain-resources",
        "[exec.sdexec-properties]",
        "[bootstrap]",
        "[tbon]",
        "resource.history",
        "[kvs]",
        "sched-fluxion-resource.match-policy",
    ];
    assert_eq!(told, wanted, "{found}");
}
