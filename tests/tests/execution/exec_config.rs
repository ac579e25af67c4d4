//! `[exec]` says how jobs are killed, and a reload of the configuration changes that.

use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, jobtap, run, temporary, until};

/// A configuration that kills at once, with a signal that jobs can ignore, and gives up soon.
const FUTILE: &str =
    "[exec]\nkill-timeout = 0.001\nkill-signal = \"SIGTERM\"\nmax-kill-count = 2\n";

/// Starts a job that ignores SIGTERM, and returns its id and the process id of its task.
fn stubborn(m: &Manager, file: &Path) -> (String, String) {
    let script =
        format!("trap '' TERM; echo $$ >{}; for i in $(seq 120); do sleep 1; done", file.display());
    let id = m.submit_args(&["--flags=debug", "sh", "-c", &script]);
    let pid = || std::fs::read_to_string(file).unwrap_or_default();
    until("its task runs", || pid().ends_with('\n'));
    m.wait(&id, "start");
    (id, pid().trim().to_owned())
}

fn drained(m: &Manager) -> String {
    m.jobtap_args(&["resource", "drain", "-no", "{ranks} {reason}"]).ok()
}

#[test]
fn an_unkillable_job_drains_its_node_as_configured() {
    let mut m = Manager::start(jobtap());
    let files = temporary();
    m.configure(FUTILE);
    m.jobtap("config reload").ok();
    let (id, pid) = stubborn(&m, &files.path().join("pid"));
    m.jobtap(&format!("cancel {id}")).ok();
    until("its node is drained", || !drained(&m).is_empty());
    let reason = format!("0 unkillable user processes for job {id}");
    assert_eq!(drained(&m), reason);
    assert_eq!(m.field(&id, "state"), "CLEANUP");

    // The shepherd goes on, and the next manager takes the job over.
    m.kill();
    m.start_again();
    assert_eq!(drained(&m), reason);
    run(Command::new("kill").args(["-9", &pid])).ok();
    m.wait(&id, "clean");
    let events = m.events(&id);
    let reattached = "debug.exec-reattach-start debug.exec-reattach-finish";
    assert!(events.contains(reattached), "{events}");

    m.jobtap("resource undrain 0").ok();
    m.configure("[exec]\nkill-timeout = 0.001\n");
    m.jobtap("config reload").ok();
    let (id, _) = stubborn(&m, &files.path().join("next"));
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    assert_eq!(drained(&m), "");
}

#[test]
fn bad_values_are_refused_with_their_keys() {
    let m = Manager::start(jobtap());
    for (key, value) in [
        ("term-signal", "\"SIGNONE\""),
        ("kill-signal", "0"),
        ("kill-timeout", "\"soon\""),
        ("max-kill-count", "0"),
        ("max-kill-timeout", "-1"),
        ("max-start-delay-percent", "\"much\""),
    ] {
        let config = format!("[exec]\n{key} = {value}\n");
        let named = format!("exec.{key}: ");
        m.configure(&config);
        let reload = m.jobtap("config reload");
        assert_ne!(reload.code, 0);
        assert!(reload.stderr.contains(&named), "{}", reload.stderr);
        let directory = temporary();
        let file = directory.path().join("config.toml");
        std::fs::write(&file, config).unwrap();
        let mut start = jobtap_tests::clean(jobtap());
        let start = run(start.args(["start", "--config-path"]).arg(file).arg("true"));
        assert_ne!(start.code, 0);
        assert!(start.stderr.contains(&named), "{}", start.stderr);
    }
}
