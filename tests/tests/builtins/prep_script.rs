//! `prep-script` with real processes: scripts that fail, never end, can't be run, print without end, or leave
//! children.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobtap_tests::{Manager, jobtap, send, temporary, until};
use tempfile::TempDir;

/// A directory with the scripts of a test.
struct Scripts(TempDir);

impl Scripts {
    fn new() -> Self {
        Self(temporary())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

fn manager(table: &str) -> Manager {
    let config = "[job-manager]\nplugins = [{ load = \"prep-script\" }]\n[plugins.prep-script]\n";
    Manager::start_with(jobtap(), &format!("{config}{table}\n"))
}

fn key(name: &str, path: &Path) -> String {
    format!("{name} = \"{}\"\n", path.display())
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn note(m: &Manager, id: &str) -> String {
    m.jobtap(&format!("job wait-event -f json {id} exception")).ok()
}

#[test]
fn scripts_see_their_job_and_find_slurms_commands() {
    let scripts = Scripts::new();
    let seen = scripts.path("seen");
    let body = format!("/usr/bin/env > {}.$SLURM_SCRIPT_CONTEXT", seen.display());
    let (prolog, epilog) = (scripts.write("prolog", &body), scripts.write("epilog", &body));
    let (begin, end) = (scripts.write("begin", &body), scripts.write("end", &body));
    let table = key("prolog", &prolog)
        + &key("epilog", &epilog)
        + &key("prolog-slurmctld", &begin)
        + &key("epilog-slurmctld", &end);
    let m = manager(&table);
    let id = m.submit_args(&["sh", "-c", "exit 5"]);
    m.wait(&id, "clean");
    for context in ["prolog_slurmd", "epilog_slurmd", "prolog_slurmctld", "epilog_slurmctld"] {
        let variables = lines(&scripts.path(&format!("seen.{context}")));
        assert!(
            variables.iter().any(|line| line.starts_with("SLURM_JOB_ID=")),
            "{context}: {variables:?}"
        );
        let path = variables.iter().find_map(|line| line.strip_prefix("PATH="));
        let first = path.and_then(|path| path.split(':').next()).unwrap_or_default();
        assert!(Path::new(first).join("scontrol").exists(), "{context}: {variables:?}");
        let has_status = variables.contains(&"SLURM_JOB_EXIT_CODE2=5:0".to_owned());
        assert_eq!(has_status, context.starts_with("epilog"), "{context}: {variables:?}");
    }
}

#[test]
fn the_files_of_a_pattern_run_in_reverse_order() {
    let scripts = Scripts::new();
    let seen = scripts.path("seen");
    for name in ["d/10-a", "d/20-b", "d/30-c"] {
        scripts.write(name, &format!("echo {name} >> {}", seen.display()));
    }
    let m = manager(&key("prolog", &scripts.path("d/*")));
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert_eq!(lines(&seen), ["d/30-c", "d/20-b", "d/10-a"]);
}

/// Starts a job whose prolog fails, and returns the note of its exception.
fn failed(prolog: &Path, more: &str) -> String {
    let m = manager(&(key("prolog", prolog) + more));
    let id = m.submit("true");
    m.wait(&id, "clean");
    let note = note(&m, &id);
    assert!(note.contains("submitted again, held"), "{note}");
    assert!(m.jobtap("resource drain").ok().contains("Prolog error"), "the node is drained");
    assert_eq!(m.jobtap("jobs -n -o {urgency}").ok(), "0");
    assert!(!m.events(&id).contains("start\n"), "no task was started");
    note
}

#[test]
fn a_prolog_that_fails_keeps_the_job_from_starting() {
    let scripts = Scripts::new();
    let prolog = scripts.write("prolog", "echo 'no scratch here' >&2; exit 3");
    assert!(failed(&prolog, "").contains("exit code 3: no scratch here"));
}

#[test]
fn the_job_that_is_submitted_again_is_the_same() {
    let scripts = Scripts::new();
    let (ready, out) = (scripts.path("ready"), scripts.path("out"));
    let prolog = scripts.write("prolog", &format!("test -e {}", ready.display()));
    let m = manager(&key("prolog", &prolog));
    let output = format!("--output={}", out.display());
    let first = m.submit_args(&["--env=MARK=7", "--job-name=once", &output, "printenv", "MARK"]);
    m.wait(&first, "clean");
    let again = m.jobtap("jobs -n -o {id}").ok();
    assert_eq!(m.field(&again, "name"), "once");
    let document = m.jobtap(&format!("job info {again} jobspec")).ok();
    assert!(document.contains(&format!("\"requeue_of\": \"{first}\"")), "{document}");
    fs::write(&ready, "").unwrap();
    m.jobtap("resource undrain 0").ok();
    m.jobtap(&format!("job urgency {again} 16")).ok();
    m.wait(&again, "clean");
    assert_eq!(lines(&out), ["7"]);
}

#[test]
fn a_prolog_that_never_ends_is_killed_with_its_children() {
    let scripts = Scripts::new();
    let pids = scripts.path("pids");
    let prolog =
        scripts.write("prolog", &format!("/bin/sleep 600 & echo $! > {}; wait", pids.display()));
    assert!(failed(&prolog, "timeout = \"1s\"\n").contains("killed: no end after 1 s"));
    let pid = lines(&pids).pop().unwrap();
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    until("the child has ended", || !state().contains(") S "));
}

#[test]
fn a_prolog_that_can_not_be_run_has_failed() {
    let scripts = Scripts::new();
    let prolog = scripts.write("prolog", "exit 0");
    fs::set_permissions(&prolog, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(failed(&prolog, "").contains("exit code 126"));
    assert!(failed(&scripts.path("missing"), "").contains("exit code 127"));
}

#[test]
fn a_prolog_may_print_without_end_and_leave_children() {
    let scripts = Scripts::new();
    let pid = scripts.path("pid");
    let body = format!(
        "/usr/bin/head -c 1000000000 /dev/zero\n/bin/sleep 600 > /dev/null 2>&1 < /dev/null &\necho $! > {}",
        pid.display()
    );
    let prolog = scripts.write("prolog", &body);
    let m = manager(&key("prolog", &prolog));
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert!(m.events(&id).contains("start"));
    send("KILL", lines(&pid).pop().unwrap().parse().unwrap());
}

#[test]
fn a_failed_controller_prolog_kills_a_job_at_a_terminal() {
    let scripts = Scripts::new();
    let begin = scripts.write("begin", "exit 1");
    let m = manager(&key("prolog-slurmctld", &begin));
    let run = m.jobtap("run true");
    assert!(run.code != 0 && run.stderr.contains("job killed"), "{run:?}");
    assert_eq!(m.jobtap("jobs -a -n").ok().lines().count(), 1);
}

#[test]
fn a_failed_epilog_drains_and_the_job_is_done() {
    let scripts = Scripts::new();
    let epilog = scripts.write("epilog", "exit 1");
    let m = manager(&key("epilog", &epilog));
    let id = m.submit("true");
    m.wait(&id, "clean");
    assert!(m.jobtap("resource drain").ok().contains("Epilog error"));
    assert_eq!(m.field(&id, "result"), "COMPLETED");
}
