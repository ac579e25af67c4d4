//! Batch scripts of Slurm run under a manager: once, with Slurm's variables, files and exit codes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_tests::{Manager, Output, Process, jobtap, run, spawn, temporary, until};

/// Runs `sbatch` in a directory.
fn sbatch(m: &Manager, dir: &Path, words: &[&str]) -> Output {
    run(in_dir(&mut m.command(["sbatch"]), dir).args(words))
}

fn in_dir<'c>(command: &'c mut Command, dir: &Path) -> &'c mut Command {
    command.current_dir(dir).env_remove("SBATCH_PARTITION")
}

fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).unwrap();
}

#[test]
fn a_script_runs_once_with_the_variables_of_slurm() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let script = "#!/bin/sh\n#SBATCH -J trial\n#SBATCH --ntasks=3 -t 5\n\
                  echo \"$SLURM_JOB_NAME $SLURM_NTASKS $SLURM_JOB_ID $1 $0\"\n\
                  echo \"$SLURM_SUBMIT_DIR $SLURM_JOB_NUM_NODES $SLURM_JOB_NODELIST $SLURM_CPUS_PER_TASK\" >&2\n";
    write(dir.path(), "job.sh", script);
    let said = sbatch(&m, dir.path(), &["-W", "-c", "1", "job.sh", "word"]).ok();
    let id = said.strip_prefix("Submitted batch job ").unwrap().to_owned();
    let output = fs::read_to_string(dir.path().join(format!("slurm-{id}.out"))).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert!(lines[0].starts_with(&format!("trial 3 {id} word ")), "{output}");
    let cwd = fs::canonicalize(dir.path()).unwrap();
    assert!(lines[1].starts_with(&format!("{} 1 ", cwd.display())), "{output}");
    assert!(lines[1].ends_with(" 1"), "{output}");
    assert_eq!(m.field(&id, "name"), "trial");
    assert_eq!((m.field(&id, "ntasks"), m.field(&id, "duration")), ("3".into(), "300.0".into()));
}

#[test]
fn wait_exits_with_the_exit_code_of_the_script() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    write(dir.path(), "fails.sh", "#!/bin/sh\nexit 7\n");
    let failed = sbatch(&m, dir.path(), &["--wait", "-o", "/dev/null", "fails.sh"]);
    assert_eq!(failed.code, 7, "{failed:?}");
}

/// Wraps a command so that SIGINT has its usual effect. A shell that runs the tests in the background makes them and
/// all their processes ignore it.
fn interruptible(command: &Command) -> Command {
    let mut wrapped = Command::new("env");
    wrapped.arg("--default-signal=INT").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// Interrupts a process as Ctrl-C does, and returns the signal that has ended it, or its exit code.
fn interrupt(mut process: Process) -> (Option<i32>, Option<i32>) {
    run(Command::new("kill").args(["-INT", &process.id().to_string()])).ok();
    let status = process.wait().unwrap();
    (status.signal(), status.code())
}

#[test]
fn the_job_goes_on_when_wait_is_interrupted() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let file = dir.path().join("said");
    let mut command = m.command(["sbatch", "--parsable", "--wait", "-o", "out", "--wrap"]);
    let mut command = interruptible(in_dir(&mut command, dir.path()).arg("sleep 2; echo done"));
    let waiting = spawn(command.stdout(fs::File::create(&file).unwrap()));
    until("the job is submitted", || fs::read_to_string(&file).unwrap().ends_with('\n'));
    let id = fs::read_to_string(&file).unwrap().trim().to_owned();
    m.wait(&id, "start");
    assert_eq!(interrupt(waiting), (Some(2), None));
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "COMPLETED");
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), "done\n");
}

#[test]
fn commands_of_a_script_end_when_its_trial_is_interrupted() {
    let dir = temporary();
    let script = "function slurm_job_submit(job)\n\
                  io.popen('echo $$ > started.new; mv started.new started; sleep 600'):read('*a')\n\
                  end\nfunction slurm_job_modify() end\n";
    write(dir.path(), "job_submit.lua", script);
    let mut command = Command::new(jobtap());
    command.args(["slurm", "try", "job_submit.lua", "--job", "name=x"]).current_dir(dir.path());
    let trial = spawn(&mut command);
    let started = dir.path().join("started");
    until("the command runs", || started.exists());
    assert_eq!(interrupt(trial), (None, Some(130)));
    let shell = fs::read_to_string(&started).unwrap();
    let directory = format!("/proc/{}", shell.trim());
    until("the command is gone", || !Path::new(&directory).exists());
}

#[test]
fn the_command_line_comes_first_and_a_wrapped_command_runs() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let mut command = m.command(["sbatch", "--parsable", "-W", "-J", "line", "-o", "%x-%j.txt"]);
    command.env("SBATCH_JOB_NAME", "variable").env("SBATCH_COMMENT", "of the environment");
    let id = run(in_dir(&mut command, dir.path()).args(["--wrap", "echo here; pwd"])).ok();
    let output = fs::read_to_string(dir.path().join(format!("line-{id}.txt"))).unwrap();
    let cwd = fs::canonicalize(dir.path()).unwrap();
    assert_eq!(output, format!("here\n{}\n", cwd.display()));
    let jobspec = m.jobtap(&format!("job info {id} jobspec")).ok();
    assert!(jobspec.contains("\"comment\": \"of the environment\""), "{jobspec}");
}

#[test]
fn an_array_is_a_job_for_each_index() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    write(
        dir.path(),
        "a.sh",
        "#!/bin/sh\necho $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\n",
    );
    let id = sbatch(&m, dir.path(), &["--parsable", "--wait", "-a", "1-5:2%1", "a.sh"]).ok();
    for index in [1, 3, 5] {
        let output =
            fs::read_to_string(dir.path().join(format!("slurm-{id}_{index}.out"))).unwrap();
        assert_eq!(output, format!("{id} {index} of 3\n"));
    }
    let ids = m.jobtap("jobs -a --sort=id -no {id.dec}").ok();
    assert_eq!((ids.lines().count(), ids.contains(&id)), (3, false), "the array is no job: {ids}");
    let events = m.jobtap(&format!("job eventlog {id}")).ok();
    assert!(events.contains("submit") && events.contains("completed=\"5\""), "{events}");
    // The highest exit code of all elements.
    let code = ["--wait", "-a", "0-3", "-o", "/dev/null", "--wrap", "exit $SLURM_ARRAY_TASK_ID"];
    let waited = sbatch(&m, dir.path(), &code);
    assert_eq!(waited.code, 3, "{waited:?}");
    assert!(waited.stderr.contains("3 elements failed: 1-3"), "{waited:?}");
}

#[test]
fn a_dependency_on_an_array_waits_for_all_of_its_elements() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let submit = |words: &[&str]| {
        let words = [&["--parsable", "-o", "/dev/null"], words].concat();
        sbatch(&m, dir.path(), &words).ok()
    };
    let array = submit(&["--hold", "-a", "1-3", "--wrap", "true"]);
    let whole = submit(&["-d", &format!("afterok:{array}"), "--wrap", "true"]);
    let starred = submit(&["-d", &format!("afterany:{array}_*"), "--wrap", "true"]);
    assert_eq!(m.field(&whole, "dependencies"), format!("after-success={array}"));
    m.jobtap(&format!("cancel {array}[2]")).ok();
    m.wait(&whole, "clean");
    assert_eq!(m.field(&whole, "result"), "FAILED");
    assert_eq!(m.field(&starred, "state"), "DEPEND");
    m.jobtap(&format!("job urgency {array} 16")).ok();
    m.wait(&starred, "clean");
    assert_eq!(m.field(&starred, "result"), "COMPLETED");
}

#[test]
fn dependencies_and_holds_are_those_of_the_manager() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let wrap = |words: &[&str]| {
        sbatch(&m, dir.path(), &[words, &["--parsable", "--wrap", "true"]].concat()).ok()
    };
    let held = wrap(&["--hold"]);
    assert_eq!(m.field(&held, "urgency"), "0");
    let either = wrap(&["-d", &format!("after:{held}+600?afterok:{held}")]);
    let delayed = wrap(&["-d", &format!("after:{held}+600")]);
    let mixed = format!("afterok:{held},afterok:{held}?afterok:{held}");
    let mixed = sbatch(&m, dir.path(), &["-d", &mixed, "--wrap", "true"]);
    assert!(mixed.code == 1 && mixed.stderr.contains("both , and ?"), "{mixed:?}");
    let after = wrap(&["-d", &format!("afterok:{held}")]);
    assert_eq!(m.field(&after, "state"), "DEPEND");
    m.jobtap(&format!("job urgency {held} default")).ok();
    m.wait(&after, "clean");
    assert_eq!(m.field(&after, "result"), "COMPLETED");
    m.wait(&either, "clean");
    assert_eq!(m.field(&either, "result"), "COMPLETED");
    assert_eq!(m.field(&delayed, "state"), "DEPEND");
    let later = wrap(&["--begin=now+1hour"]);
    assert_eq!(m.field(&later, "state"), "DEPEND");
}

#[test]
fn a_script_learns_what_its_nodes_have() {
    let dir = temporary();
    let config = "[resource]\nnoverify = true\n[[resource.config]]\nhosts = \"n[0-2]\"\ncores = \"0-7\"\n\
                  gpus = \"0-3\"\n[queues.short]\n[policy.jobspec.defaults.system]\nqueue = \"short\"\n";
    let file = dir.path().join("config.toml");
    fs::write(&file, config).unwrap();
    let config = format!("--config-path={}", file.display());
    let options = ["--test-size=3".as_ref(), "--test-hosts=n[0-2]".as_ref(), config.as_ref()];
    let m = Manager::start_in(jobtap(), &dir.path().join("state"), &options);
    m.jobtap("queue start --all").ok();
    let shown = |options: &[&str], names: &str| {
        let show = format!("for name in {names}; do printenv $name || echo unset; done");
        let words = [&["-W", "-t5", "-o", "out"], options, &["--wrap", &show]].concat();
        sbatch(&m, dir.path(), &words).ok();
        fs::read_to_string(dir.path().join("out")).unwrap().replace('\n', " ")
    };
    let nodes = "SLURM_TASKS_PER_NODE SLURM_JOB_CPUS_PER_NODE SLURM_CPUS_ON_NODE SLURM_GPUS_ON_NODE \
                 SLURM_JOB_GPUS SLURM_JOB_PARTITION ENVIRONMENT SLURM_GTIDS";
    let asked = ["-N2", "--ntasks-per-node=2", "-c2", "--gpus-per-node=2"];
    assert_eq!(shown(&asked, nodes), "2(x2) 4(x2) 4 2 0,1 short BATCH 0 ");
    let least = shown(&["-n1"], nodes);
    assert_eq!(least, "1 1 1 unset unset short BATCH 0 ");
    let ids = shown(&["-n1"], "SLURM_JOB_UID SLURM_JOB_GID");
    let own = |letter: &str| run(Command::new("id").arg(letter)).ok();
    assert_eq!(ids, format!("{} {} ", own("-u"), own("-g")));
    let times = shown(&["-n1"], "SLURM_JOB_START_TIME SLURM_JOB_END_TIME");
    let times: Vec<u64> = times.split_whitespace().map(|time| time.parse().unwrap()).collect();
    assert_eq!(times[1] - times[0], 300);
    let pid =
        shown(&["-n1"], "SLURM_TASK_PID; do echo $((SLURM_TASK_PID == $$)); done; for name in _x");
    assert_eq!(pid, "1 unset ");
    // These variables would tell a launcher of MPI that this is a task of Flux.
    let flux =
        "FLUX_JOB_ID FLUX_TASK_RANK FLUX_JOB_SIZE FLUX_PMI_LIBRARY_PATH PMI_FD PMI_RANK PMI_SIZE";
    assert_eq!(shown(&["-n1"], flux), "unset ".repeat(7));
    // A manager that the script starts hides that it runs in a script of Slurm.
    let exe = jobtap().display();
    let inner =
        format!("SLURM_JOB_ID; do {exe} start printenv $name || echo hidden; done; for name in _x");
    assert_eq!(shown(&["-n1"], &inner), "hidden unset ");
}

/// Prints the soft limits of open files and of core files, and the hard limit of open files.
const LIMITS: &str = "echo $(ulimit -n) $(ulimit -c) $(ulimit -Hn)";

/// Makes the shell lower limits before it becomes the command.
fn under(limits: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limits} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[test]
fn tasks_have_the_resource_limits_of_the_caller() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let limits = |caller: &str, options: &[&str]| {
        let mut words = vec!["sbatch", "-W", "-o", "limits"];
        words.extend(options);
        let mut command = under(caller, &m.command([&words[..], &["--wrap", LIMITS]].concat()));
        run(in_dir(&mut command, dir.path())).ok();
        let text = fs::read_to_string(dir.path().join("limits")).unwrap();
        text.trim().split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let lower = "ulimit -S -n 200 && ulimit -S -c 8";
    let own = run(Command::new("sh").args(["-c", LIMITS])).ok();
    let own: Vec<&str> = own.split(' ').collect();
    assert_eq!(limits(lower, &[]), ["200", "8", own[2]]);
    assert_eq!(limits(lower, &["--propagate=NONE"]), own);
    assert_eq!(limits(lower, &["--propagate=NOFILE"]), ["200", own[1], own[2]]);

    // The user is warned about a limit that the manager's hard limit doesn't allow.
    let m_run = |words: &[&str]| run(m.command(["run"]).args(words));
    let output = m_run(&["--rlimit=nofile=999999999", "sh", "-c", "ulimit -n"]);
    assert_eq!((output.code, output.stdout.trim()), (0, own[2]), "{output:?}");
    let warning = "rlimit: nofile exceeds the hard limit, which is set instead\n";
    assert!(output.stderr.contains(&format!("s: jobtap-shell[0]:  WARN: {warning}")), "{output:?}");
    let refused = m_run(&["-o", "rlimit.nosuch=1", "true"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("rlimit.nosuch: no such resource limit"), "{refused:?}");
}

#[test]
fn a_script_is_read_from_standard_input() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let mut command = m.command(["sbatch", "--parsable", "-W", "-o", "out"]);
    let command = in_dir(&mut command, dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(command);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"#!/bin/sh\necho from stdin\n")
        .unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), "from stdin\n");
}

#[test]
fn export_chooses_the_environment_of_the_script() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    let of = |export: &str| {
        let mut command = m.command(["sbatch", "-W", "-o", "out", "--wrap", "echo $FOO-$BAR"]);
        command.env("FOO", "foo").env("SBATCH_EXPORT", export);
        run(in_dir(&mut command, dir.path())).ok();
        fs::read_to_string(dir.path().join("out")).unwrap()
    };
    assert_eq!(of("ALL,BAR=bar"), "foo-bar\n");
    assert_eq!(of("NONE"), "-\n");
}

#[test]
fn wrong_requests_are_refused_and_nothing_is_submitted() {
    let m = Manager::start(jobtap());
    let dir = temporary();
    write(dir.path(), "bad.sh", "#!/bin/sh\n#SBATCH --tiem=5\n");
    write(dir.path(), "text", "echo\n");
    let says = |words: &[&str], code: i32, text: &str| {
        sbatch(&m, dir.path(), words).says(code, &format!("sbatch: error: {text}"));
    };
    says(&["bad.sh"], 1, "bad.sh:2: unknown option --tiem: did you mean --time?");
    says(&["--tiem=5", "bad.sh"], 2, "unknown option --tiem: did you mean --time?");
    says(
        &["text"],
        1,
        "text: the first line of a script must be #! and the path of an interpreter",
    );
    let limit = "-t: invalid time '5m': use minutes, HH:MM:SS, D-HH:MM:SS or UNLIMITED";
    says(&["-t", "5m", "--wrap", "true"], 1, limit);
    let odd = ["--hint=multithread", "--profile=all", "--wrap", "true"];
    let warned = sbatch(&m, dir.path(), &[&["--test-only"], &odd[..]].concat());
    let line = "sbatch: warning: --hint, --profile have no effect here\n";
    assert_eq!((warned.code, warned.stderr.as_str()), (0, line));
    let quiet = sbatch(&m, dir.path(), &[&["-Q", "--test-only"], &odd[..]].concat());
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    let refused = sbatch(&m, dir.path(), &["-p", "nowhere", "--wrap", "true"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("nowhere"), "{refused:?}");
    let test = sbatch(&m, dir.path(), &["--test-only", "-N1", "--wrap", "true"]).ok();
    assert!(test.starts_with('{') && test.contains("\"version\":1"), "{test}");
    let help = sbatch(&m, dir.path(), &["--help"]).ok();
    assert!(help.contains("--ntasks-per-node=N"), "{help}");
    assert_eq!(m.jobtap("jobs -a -no {id}").ok(), "");
}
