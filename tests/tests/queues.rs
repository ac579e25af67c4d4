//! Named queues are enabled, started and listed from the shell; their state survives a restart.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use jobtap_tests::{Manager, Output, jobtap, run, spawn, temporary};

const LONG: &str = "--setattr=system.exec.test.run_duration=600s";

/// A configuration with a queue, its virtual queue, and another queue.
const QUEUES: &str = r#"
[policy.jobspec.defaults.system]
queue = "day"
[queues.day.policy]
limits.duration = "1d"
jobspec.defaults.system.duration = "1h"
[queues.night]
parent = "day"
[queues.debug.policy.limits.job-size.max]
ncores = 2
"#;

/// Runs `config load` with this text on standard input.
fn load(m: &Manager, text: &str) -> Output {
    let mut command = m.command(["config", "load"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn queues_are_enabled_and_started_singly_or_together() {
    let m = Manager::start_with(jobtap(), QUEUES);
    let ok = |words: &str| m.jobtap(&format!("queue {words}")).ok();
    assert_eq!(ok("start debug"), "debug: Scheduling is started");
    assert_eq!(ok("start -v night").lines().nth(1), Some("debug: Scheduling is started"));
    let held = "night: Job submission is enabled\n\
                night: Scheduling is stopped: parent queue 'day' is stopped";
    assert_eq!(ok("status night"), held);
    assert_eq!(ok("disable -m full -q night"), "night: Job submission is disabled: full");
    assert_eq!(ok("enable --quiet --all"), "");
    let started =
        "day: Scheduling is started\ndebug: Scheduling is started\nnight: Scheduling is started";
    assert_eq!(ok("start --all"), started);
    let fails = |words: &str, text: &str| {
        m.jobtap(&format!("queue {words}")).says(1, &format!("jobtap-queue: ERROR: {text}"));
    };
    fails("start", "Named queues are defined. Specify queues or use --all.");
    fails("disable", "enable: Use --all to apply this command to all queues");
    fails("stop x", "start: 'x' is not a valid queue");
    fails("status x", "status: 'x' is not a valid queue");
    fails("status day -q debug", "Conflicting queues specified as --queue=debug and day");
    fails("list -q day,x", "No such queue: x");
    let guest = m.as_guest("queue stop --all");
    assert_eq!(guest.code, 1);
    assert!(guest.stderr.starts_with("jobtap-queue: ERROR: start: "), "{guest:?}");
}

#[test]
fn queue_list_shows_state_limits_and_resources() {
    let m = Manager::start_with(jobtap(), QUEUES);
    let list = |format: &str| m.jobtap_args(&["queue", "list", "-n", "-o", format]).ok();
    let state = "{queuem} p={parent} {scheduling} {started.ascii} {defaults.timelimit!F} \
                 {limits.timelimit!F} {limits.range.ncores} {limits.range.effective.ncores}";
    m.jobtap("queue start night").ok();
    // In the order of the configuration.
    let expected = "day* p= stopped n 1h 1d 0-inf 0-4\n\
                    night p=day stopped (parent) p 1h 1d 0-inf 0-4\n\
                    debug p= stopped n inf inf 0-2 0-2";
    assert_eq!(list(state), expected);
    m.jobtap("queue start --all").ok();
    let id = m.submit(&format!("{LONG} -n3 true"));
    m.wait(&id, "start");
    let cores = "{queue} {resources.all.ncores} {resources.up.ncores} {resources.down.ncores} \
                 {resources.allocated.ncores} {resources.free.ncores}";
    assert_eq!(list(cores), "day 4 4 0 3 1\nnight 4 4 0 3 1\ndebug 4 4 0 3 1");
    assert_eq!(m.jobtap("jobs -n -q day -o {queue}").ok(), "day");
    assert_eq!(m.jobtap("jobs -n -q debug,night -o {queue}").ok(), "");
}

#[test]
fn the_state_of_queues_survives_a_restart() {
    let mut m = Manager::start_with(jobtap(), QUEUES);
    m.jobtap("queue start debug").ok();
    m.jobtap("queue stop -m repair day").ok();
    m.jobtap("queue disable -m full night").ok();
    m.kill();
    m.start_again();
    let expected = "day: Job submission is enabled\n\
                    day: Scheduling is stopped: repair\n\
                    debug: Job submission is enabled\n\
                    debug: Scheduling is started\n\
                    night: Job submission is disabled: full\n\
                    night: Scheduling is stopped";
    assert_eq!(m.jobtap("queue status").ok(), expected);
}

#[test]
fn a_configuration_with_a_mistake_is_refused_as_a_whole() {
    let m = Manager::start_with(jobtap(), QUEUES);
    let refused = load(&m, "[queues.one]\n[queues.two]\nparent = \"x\"\n");
    let text = "error parsing [queues.two] config table: parent queue 'x' is not configured";
    refused.says(1, &format!("jobtap-config: load: error updating job-manager: {text}"));
    assert_eq!(m.jobtap("queue list -n -o {queue}").ok(), "day\nnight\ndebug");
    assert_eq!(load(&m, "[queues.one]\n").code, 0);
    assert_eq!(m.jobtap("queue list -n -o {queue}").ok(), "one");
    m.jobtap("submit true").says(1, "[Errno 1] no queue specified");
}

#[test]
fn queues_use_only_nodes_with_their_properties() {
    let temporary = temporary();
    let file = temporary.path().join("config.toml");
    let config = r#"
        [queues.batch]
        requires = ["big"]
        [queues.debug]
        requires = ["small"]
        [resource]
        noverify = true
        [[resource.config]]
        hosts = "h[0-3]"
        cores = "0-3"
        [[resource.config]]
        hosts = "h[0-2]"
        properties = ["big"]
        [[resource.config]]
        hosts = "h3"
        properties = ["small"]
    "#;
    std::fs::write(&file, config).unwrap();
    let options = ["--test-size=4".as_ref(), "--config-path".as_ref(), file.as_os_str()];
    let m = Manager::start_in(jobtap(), &temporary.path().join("state"), &options);
    m.jobtap("queue start --quiet --all").ok();
    let wide = m.submit(&format!("{LONG} -q batch -N2 -n2 true"));
    m.wait(&wide, "start");
    let blocked = m.submit(&format!("{LONG} -q batch -N3 -n3 -x true"));
    m.wait(&blocked, "priority");
    let other = m.submit(&format!("{LONG} -q debug -n2 true"));
    m.wait(&other, "start");
    assert_eq!(m.field(&other, "nodelist"), "h3");
    assert_eq!(m.field(&blocked, "state"), "SCHED");
    m.jobtap("resource drain 0,3").ok();
    let cores = "{queue} {resources.all.ncores} {resources.up.ncores} {resources.down.ncores} \
                 {resources.allocated.ncores} {resources.free.ncores}";
    let list = m.jobtap_args(&["queue", "list", "-n", "-o", cores]).ok();
    assert_eq!(list, "batch 12 8 4 2 7\ndebug 4 0 4 2 0");
}

/// The user and the group `daemon` exist on every system.
#[test]
fn a_queue_is_for_the_groups_of_its_access_list() {
    let config = "[queues.open]\n[queues.few.policy.access]\nallow-group = [\"daemon\"]\n";
    let m = Manager::start_with(jobtap(), config);
    let submit = |user: &str, queue: &str| {
        let mut command = m.command(["submit", "--urgency=0", "-q", queue, "true"]);
        run(command.env("FLUX_HANDLE_USERID", user).env("FLUX_HANDLE_ROLEMASK", "0x2"))
    };
    let passwd = run(Command::new("getent").args(["passwd", "daemon"])).ok();
    let daemon = passwd.split(':').nth(2).unwrap();
    submit(daemon, "few").ok();
    submit("4000000", "open").ok();
    let refused = submit("4000000", "few");
    assert_eq!(refused.code, 1, "{refused:?}");
    let text = "user 4000000 is not allowed to submit jobs to queue few";
    assert!(refused.stderr.contains(text), "{refused:?}");
    m.jobtap("submit --urgency=0 -q few true").ok();
}
