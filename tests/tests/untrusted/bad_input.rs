//! Bad input to a command gives one clear line and the exit code of Flux, and nothing is lost.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, Output, clean, jobtap, run, temporary};

/// Asserts that a command failed with this code and one line that begins with `line`.
#[track_caller]
fn refused(output: Output, code: i32, line: &str) {
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(output.code == code && lines.len() == 1, "{output:?}");
    assert!(lines.iter().all(|l| l.starts_with(line)), "{line:?} in {output:?}");
}

/// Asserts that a command failed with this code, a usage line, and a line that names the mistake.
#[track_caller]
fn misused(output: Output, code: i32, line: &str) {
    assert_eq!(output.code, code, "{output:?}");
    assert_eq!(output.stderr.lines().count(), 2, "{output:?}");
    assert!(output.stderr.lines().any(|l| l.to_lowercase().starts_with("usage: jobtap")));
    assert!(output.stderr.lines().any(|l| l.starts_with(line)), "{line:?} in {output:?}");
}

#[test]
fn commands_refuse_unknown_options_and_arguments() {
    let m = Manager::start(jobtap());
    misused(
        m.jobtap("submit --nosuch true"),
        2,
        "jobtap-submit: error: unrecognized arguments: --nosuch",
    );
    misused(m.jobtap("jobs --nosuch"), 2, "jobtap-jobs: error: unrecognized arguments: --nosuch");
    misused(m.jobtap("job nosuch"), 1, "jobtap-job: Unknown subcommand: nosuch");
    let text = "jobtap-start: unrecognized option '--nosuch'\n\
                Try `jobtap-start --help' for more information.";
    m.jobtap("start --nosuch").says(1, text);
    refused(
        m.jobtap("nosuch"),
        1,
        "jobtap: `nosuch' is not a jobtap command.  See 'jobtap --help'",
    );
    refused(m.jobtap("submit"), 1, "jobtap-submit: ERROR: job command and arguments are missing");
    refused(
        m.jobtap("submit -n x true"),
        1,
        "jobtap-submit: ERROR: --ntasks: invalid int value 'x'",
    );
    refused(
        m.jobtap("submit -n -1 true"),
        1,
        "jobtap-submit: ERROR: task count must be a integer >= 1",
    );
    refused(
        m.jobtap("jobs -o {nosuch}"),
        1,
        "jobtap-jobs: ERROR: Error in user format: Unknown format field: nosuch",
    );
}

#[test]
fn rejected_jobs_leave_nothing_behind() {
    let m = Manager::start(jobtap());
    let refusals = [
        ("--dependency=nosuch:1 true", "[Errno 22] dependency scheme \"nosuch\" not supported"),
        ("--dependency=afterok:77 true", "[Errno 22] dependency: afterok: id 77: job not found"),
        (
            "--dependency=afterok:x true",
            "[Errno 22] dependency: afterok: \"x\" is not a valid jobid",
        ),
        ("--dependency=:x true", "jobtap-submit: ERROR: Invalid dependency URI \":x\""),
        ("--urgency=32 true", "[Errno 22] urgency range is [0:31]"),
        (
            "--setattr=system.duration=x true",
            "[Errno 1] attributes.system.duration must be a number",
        ),
    ];
    for (words, line) in refusals {
        refused(m.jobtap(&format!("submit {words}")), 1, line);
    }
    let directory = temporary();
    let file = directory.path().join("jobspec");
    let name = file.display().to_string();
    for (text, line) in [
        ("{\"version\":1}", "jobtap-job: Missing key (resources)"),
        ("no json", "jobtap-job: jobspec: invalid JSON: "),
        ("", "jobtap-job: required jobspec is empty"),
    ] {
        std::fs::write(&file, text).unwrap();
        refused(m.jobtap_args(&["job", "submit", &name]), 1, line);
    }
    assert_eq!(m.jobtap("jobs -a -no {id}").ok(), "");
}

#[test]
fn unknown_jobs_are_named() {
    let m = Manager::start(jobtap());
    refused(m.jobtap("job eventlog 12345"), 1, "jobtap-job: job 12345 not found");
    refused(m.jobtap("job wait-event 12345 clean"), 1, "jobtap-job: job 12345 not found");
    refused(m.jobtap("job attach 12345"), 1, "jobtap-job: Failed to attach to 12345: No such job");
    refused(m.jobtap("job eventlog xyz!"), 1, "jobtap-job: error parsing jobid: \"xyz!\"");
    refused(m.jobtap("cancel 12345"), 1, "jobtap-cancel: ERROR: f4fr: unknown job id");
    refused(m.jobtap("jobs -n 12345"), 1, "JobID 12345 unknown");
}

#[test]
fn without_a_manager_a_command_says_so() {
    let none = run(clean(jobtap()).arg("jobs"));
    refused(none, 1, "jobtap-jobs: ERROR: no manager here: JOBTAP_URI is not set");
    let gone = run(clean(jobtap()).arg("jobs").env("JOBTAP_URI", "local:///nonexistent/local-0"));
    refused(gone, 1, "jobtap-jobs: ERROR: no manager listens at /nonexistent/local-0");
    let wrong = run(clean(jobtap()).arg("jobs").env("JOBTAP_URI", "http://x"));
    refused(wrong, 1, "jobtap-jobs: ERROR: JOBTAP_URI: the address 'http://x' is not understood");
}

#[test]
fn the_socket_of_another_user_is_refused() {
    let directory = temporary();
    if run(Command::new("id").arg("-u")).ok() != "0" {
        println!("not root: a socket without write permission stands for that of another user");
        let socket = directory.path().join("local-0");
        let _listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, Permissions::from_mode(0o000)).unwrap();
        let uri = format!("local://{}", socket.display());
        let output = run(clean(jobtap()).arg("jobs").env("JOBTAP_URI", uri));
        return refused(output, 1, "jobtap-jobs: ERROR: the manager at ");
    }
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let exe = directory.path().join("jobtap");
    std::fs::copy(jobtap(), &exe).unwrap();
    let m = Manager::start(jobtap());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups"]).arg(&exe).arg("jobs");
    command.env(
        "JOBTAP_URI",
        m.command(["jobs"]).get_envs().find(|e| e.0 == "JOBTAP_URI").unwrap().1.unwrap(),
    );
    let output = run(&mut command);
    refused(output, 1, "jobtap-jobs: ERROR: the manager at ");
}

/// Makes a state directory with one inactive job, and returns the id of the job.
fn with_a_job(directory: &Path) -> String {
    let mut m = Manager::start_in(jobtap(), directory, &[]);
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert!(m.stop().0.success());
    id
}

fn start(directory: &Path) -> Output {
    run(clean(jobtap()).args(["start", "--state-dir"]).arg(directory).arg("true"))
}

#[test]
fn a_state_directory_that_cannot_be_used_is_named() {
    let directory = temporary();
    let m = Manager::start_in(jobtap(), directory.path(), &[]);
    let name = directory.path().display();
    let line = format!(
        "jobtap-start: the state directory {name} is in use by the manager with pid {}",
        m.pid()
    );
    refused(start(directory.path()), 1, &line);
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let line = format!("jobtap-start: the state directory {} is not a directory", file.display());
    refused(start(&file), 1, &line);
}

#[test]
fn a_damaged_store_is_refused_and_left_as_it_is() {
    let directory = temporary();
    with_a_job(directory.path());
    let acked = directory.path().join("store/acked");
    let saved = std::fs::read(&acked).unwrap();
    std::fs::write(&acked, "99999\n").unwrap();
    let name = directory.path().join("store");
    let line = format!("jobtap-start: {} has lost acknowledged data", name.display());
    refused(start(directory.path()), 1, &line);
    std::fs::write(&acked, saved).unwrap();

    let version = directory.path().join("store/db-3/version");
    let saved = std::fs::read(&version).unwrap();
    std::fs::write(&version, "garbage").unwrap();
    let line = format!("jobtap-start: {} is damaged", name.display());
    refused(start(directory.path()), 1, &line);
    std::fs::write(&version, saved).unwrap();

    let m = Manager::start_in(jobtap(), directory.path(), &[]);
    assert_eq!(m.jobtap("jobs -a -no {result}").ok(), "COMPLETED");
}

#[test]
fn unreadable_configuration_is_refused_with_its_place() {
    let directory = temporary();
    let file = directory.path().join("bad.toml");
    std::fs::write(&file, "[job-manager]\na = = 3\n").unwrap();
    let mut command = clean(jobtap());
    let output = run(command.arg("start").arg("-c").arg(&file).arg("true"));
    refused(output, 1, &format!("jobtap-start: {}:2: ", file.display()));
    std::fs::write(&file, "[job-manager]\nplugins = [{ load = \"nosuch.so\" }]\n").unwrap();
    let mut command = clean(jobtap());
    let output = run(command.arg("start").arg("-c").arg(&file).arg("true"));
    refused(
        output,
        1,
        "jobtap-start: [job-manager.plugins][0]: load: nosuch.so: No such plugin found",
    );
}

#[test]
fn a_start_with_a_refused_configuration_starts_nothing() {
    let directory = temporary();
    let (file, state) = (directory.path().join("bad.toml"), directory.path().join("state"));
    for (table, text) in [
        ("[access.roles.admin]\nusers = [\"nosuchuser\"]", "unknown user \"nosuchuser\""),
        ("[audit]\nmax-events = 0", "audit.max-events"),
        ("[log]\nring-size = \"x\"", "log.ring-size"),
        ("[exec]\nkill-signal = \"SIGNONE\"", "exec.kill-signal"),
    ] {
        std::fs::write(&file, table).unwrap();
        let mut command = clean(jobtap());
        command
            .arg("start")
            .arg(format!("-Sstatedir={}", state.display()))
            .arg("-c")
            .arg(&file)
            .arg("true");
        let output = run(&mut command);
        assert!(output.code == 1 && output.stderr.contains(text), "{output:?}");
        assert!(!state.join("store").exists(), "{table}");
    }
}
