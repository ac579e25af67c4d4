//! Plugins are loaded, queried, configured and reloaded while the manager runs and jobs go on. Their data
//! survives a crash, and their processes end with them.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_tests::{Manager, Output, Process, probe_manager, run, spawn, temporary, until};
use serde_json::{Value, json};

/// Starts a manager that loads the plugin `probe` at start.
fn manager(more: &str) -> Manager {
    Manager::start_with(probe_manager(), &format!("{LOADED}{more}"))
}

const LOADED: &str = "[job-manager]\nplugins = [{ load = \"probe\" }]\n";

fn json(output: Output) -> Value {
    serde_json::from_str(&output.ok()).unwrap()
}

/// Asserts that a command failed with one line that ends with `line`.
#[track_caller]
fn refused(output: Output, line: &str) {
    assert!(output.code == 1 && output.stderr.lines().count() == 1, "{output:?}");
    assert_eq!(output.stderr.trim_end(), line);
}

fn call(m: &Manager, service: &str, payload: &Value) -> Output {
    m.jobtap_args(&["plugin", "call", service, &payload.to_string()])
}

fn is_alive(pid: &str) -> bool {
    // A zombie has exited, though its entry is still there.
    let state = run(Command::new("ps").args(["-o", "state=", "-p", pid])).stdout;
    !matches!(state.trim(), "" | "Z")
}

#[test]
fn a_plugin_is_loaded_with_its_configuration() {
    let m = Manager::start_with(probe_manager(), "[plugins.probe]\ngreeting = \"hello\"\n");
    refused(
        m.jobtap("plugin query probe"),
        "probe-manager-plugin: ERROR: probe: plugin not found: it is linked and not loaded",
    );
    refused(
        m.jobtap("plugin load prob"),
        "probe-manager-plugin: ERROR: prob not found; did you mean \"probe\"?",
    );
    refused(
        m.jobtap("plugin load probe greting=x"),
        "probe-manager-plugin: ERROR: [plugins.probe]: unknown key \"greting\"; did you mean \
         \"greeting\"?",
    );
    m.jobtap("plugin load probe longest-update=1h").ok();
    assert_eq!(m.jobtap("plugin list").ok(), "deadline\nprobe");
    assert!(m.jobtap("plugin list -l").ok().ends_with("probe     probe     0.1.0    loaded"));
    let tells = json(m.jobtap("plugin query probe"));
    assert_eq!((&tells["name"], &tells["greeting"]), (&json!("probe"), &json!("hello")));

    m.jobtap("plugin reload probe greeting=again").ok();
    assert_eq!(json(m.jobtap("plugin query probe"))["greeting"], "again");
    let refusal = m.jobtap("plugin reload probe longest-update=soon");
    assert!(refusal.stderr.contains("[plugins.probe]: longest-update: "), "{refusal:?}");
    assert_eq!(json(m.jobtap("plugin query probe"))["greeting"], "again");

    let schema = json(m.jobtap("plugin schema probe"));
    assert_eq!(schema["properties"]["greeting"], json!({"type": "string", "default": ""}));
    let none = m.jobtap("plugin schema .priority-default");
    assert_eq!(none.stderr, ".priority-default takes no configuration of its own\n");
    assert_eq!(none.ok(), "");
}

#[test]
fn a_start_with_a_bad_plugin_configuration_names_the_key() {
    let directory = temporary();
    let config = directory.path().join("config.toml");
    for (text, line) in [
        (
            "[job-manager]\nplugins = [{ load = \"probe\", conf = { greting = \"x\" } }]\n",
            "[job-manager.plugins][0]: load: [plugins.probe]: unknown key \"greting\"; did you mean \
             \"greeting\"?",
        ),
        (
            "[plugins.deadline]\ndefualt = \"1h\"\n",
            "plugin deadline can't be loaded: [plugins.deadline]: unknown key \"defualt\"; did you \
             mean \"default\"?",
        ),
        (
            "[job-manager]\nplugins = [{ laod = \"probe\" }]\n",
            "[job-manager.plugins][0]: unknown key \"laod\": use load, remove, conf",
        ),
        ("[job-manager]\nplugin-time-budget = \"soon\"\n", "job-manager.plugin-time-budget: "),
    ] {
        std::fs::write(&config, text).unwrap();
        let mut start = jobtap_tests::clean(probe_manager());
        let output = run(start.args(["start", "--config-path"]).arg(&config).arg("true"));
        assert_eq!(output.code, 1, "{output:?}");
        let complaint = output.stderr.lines().last().unwrap();
        assert!(complaint.starts_with(&format!("probe-manager-start: {line}")), "{output:?}");
    }
}

#[test]
fn owner_and_guest_can_use_services_and_streams() {
    let m = manager("");
    assert_eq!(call(&m, "probe.add", &json!(5)).ok(), "5");
    refused(
        call(&m, "probe.add", &json!("x")),
        "probe-manager-plugin: ERROR: invalid type: string \"x\", expected i64",
    );
    refused(
        m.jobtap("plugin call probe.nosuch"),
        "probe-manager-plugin: ERROR: Unknown service method 'job-manager.probe.nosuch'; probe has \
         'probe.seen', 'probe.whoami', 'probe.add', 'probe.count', 'probe.ask', 'probe.sh', 'probe.exec'",
    );
    for (wrong, meant) in [("probe.whoam", "probe.whoami"), ("prob.add", "probe.add")] {
        let refused = m.jobtap_args(&["plugin", "call", wrong]);
        let hint = format!("method 'job-manager.{wrong}'; did you mean '{meant}'?\n");
        assert!(refused.stderr.ends_with(&hint), "{refused:?}");
    }
    // The hint doesn't reveal to a guest what only the owner may call.
    let guest = m.as_guest("plugin call probe.ad");
    assert!(guest.stderr.contains("Unknown service") && !guest.stderr.contains("add"), "{guest:?}");
    let wrong = m.jobtap_args(&["plugin", "call", "probe.add", "{"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("the payload is not JSON"), "{wrong:?}");

    assert_eq!(m.as_guest("plugin call probe.whoami").ok(), "77");
    for owners in ["plugin call probe.add 1", "plugin query probe", "plugin stats", "config reload"]
    {
        let refusal = m.as_guest(owners);
        assert_eq!(refusal.code, 1, "{owners}");
        assert!(refusal.stderr.contains("Request requires owner credentials"), "{refusal:?}");
    }

    assert_eq!(m.as_guest("plugin call --stream probe.count 3").ok(), "1\n2\n3");
    // Without --stream a command takes the first response only.
    assert_eq!(m.jobtap("plugin call probe.count 3").ok(), "1");
    // A service without a stream sends one response.
    assert_eq!(m.jobtap("plugin call --stream probe.whoami").code, 0);
}

#[test]
fn a_disconnecting_client_does_not_disturb_a_stream() {
    let m = manager("");
    let mut endless = m.command(["plugin", "call", "--stream", "probe.count", "100000"]);
    endless.stdout(Stdio::piped());
    let mut endless = spawn(&mut endless);
    let mut first = [0; 2];
    std::io::Read::read_exact(endless.stdout.as_mut().unwrap(), &mut first).unwrap();
    endless.kill().unwrap();
    endless.wait().unwrap();
    assert_eq!(m.jobtap("plugin call --stream probe.count 3").ok(), "1\n2\n3");
    m.jobtap("plugin remove probe").ok();
    assert_eq!(m.jobtap("plugin list").ok(), "deadline");
}

#[test]
fn removing_a_plugin_answers_its_waiting_clients() {
    let m = manager("");
    let mut endless = m.command(["plugin", "call", "--stream", "probe.count", "100000"]);
    endless.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut endless = spawn(&mut endless);
    let mut first = [0; 2];
    std::io::Read::read_exact(endless.stdout.as_mut().unwrap(), &mut first).unwrap();
    m.jobtap("plugin remove probe").ok();
    let output = endless.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("plugin probe was removed before it answered"), "{complaint}");
}

#[test]
fn handlers_are_counted_and_a_slow_one_is_logged() {
    let mut m = manager("plugin-time-budget = \"50ms\"\n");
    let id = m.submit("--setattr=probe.slow=500 true");
    m.wait(&id, "clean");
    let table = m.jobtap("plugin stats probe").ok();
    let header = table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(header, "PLUGIN TOPIC HANDLER CALLS ERRORS PANICS P50 P99");
    let stats = json(m.jobtap("plugin stats probe --json"));
    let handlers = stats["plugins"][0]["handlers"].as_array().unwrap();
    let validate = handlers.iter().find(|handler| handler["topic"] == "job.validate").unwrap();
    assert_eq!((&validate["calls"], &validate["handler"]), (&json!(1), &json!("validate")));
    // The bounds are in nanoseconds.
    assert!(validate["p50"].as_u64().unwrap() >= 500_000_000);
    assert_eq!(validate["histogram"], json!([{"below": validate["p50"], "calls": 1}]));
    let timed = m.jobtap("plugin stats probe --histogram").ok();
    assert!(timed.lines().any(|line| line.contains("job.validate") && line.ends_with(" 1")));
    let (status, log) = m.stop();
    assert!(status.success());
    let slow = "probe: job.validate: job ";
    let slow = log.lines().find(|line| line.contains(slow)).unwrap();
    assert!(slow.ends_with("more than its budget of 0.05 s"), "{slow}");
}

#[test]
fn a_plugin_that_keeps_panicking_is_shown_as_faulted() {
    let m = manager("");
    for _ in 0..3 {
        assert_eq!(m.jobtap("submit --setattr=probe.panic=1 true").code, 1);
    }
    assert!(m.jobtap("plugin list -l").ok().ends_with("faulted"));
    m.jobtap("plugin reload probe").ok();
    m.wait(&m.submit("true"), "clean");
}

#[test]
fn a_plugin_decides_about_changes_of_a_jobs_duration() {
    let m = manager("[plugins.probe]\nlongest-update = \"1h\"\n");
    let id = m.submit("-t 10m sleep 600");
    m.wait(&id, "start");
    assert_eq!(
        m.jobtap(&format!("update -n {id} duration=2m name=x")).ok(),
        "{\"attributes.system.duration\": 120.0, \"attributes.system.job.name\": \"x\"}"
    );
    let done = m.jobtap(&format!("update -v {id} duration=+5m"));
    assert_eq!(
        done.stderr,
        "probe-manager-update: INFO: updated attributes.system.duration to 900.0\n"
    );
    done.ok();
    assert!(m.events(&id).ends_with("jobspec-update resource-update"));
    let left = || m.jobtap(&format!("job timeleft {id}")).ok().parse::<f64>().unwrap();
    assert!((600.0..=900.0).contains(&left()), "{}", left());
    let error = |words: &str, text: &str| {
        let line = format!("probe-manager-update: ERROR: {text}");
        refused(m.jobtap(&format!("update {words}")), &line);
    };
    error(&format!("{id} duration=2h"), "probe: 1h is the longest");
    error(&format!("{id} name=x"), "update of attributes.system.job.name not supported");
    error(
        &format!("{id} duration=-1h"),
        &format!("current duration for {id} (15m) cannot be reduced by 1h"),
    );
    error("123 duration=1m", "unknown job id");
    assert_eq!(m.jobtap(&format!("update {id}")).code, 2);
    // A new duration that has passed already ends the job.
    let soon = 900.0 - left() + 3.0;
    m.jobtap(&format!("update {id} duration={soon}s")).ok();
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "TIMEOUT");
}

#[test]
fn a_new_configuration_is_applied_whole_or_not_at_all() {
    let mut m = manager("[site]\ncolor = \"blue\"\n");
    let color = |m: &Manager| json(call(m, "probe.seen", &json!({})))["color"].clone();
    assert_eq!((color(&m), m.jobtap("config get site.color").ok()), (json!("blue"), "blue".into()));

    m.configure("[site]\ncolor = \"red\"\n");
    m.signal("HUP");
    until("the new configuration is in force", || color(&m) == "red");
    m.jobtap("config reload").ok();

    let vetoed = "[site]\ncolor = \"green\"\nveto = \"not on a Friday\"\n";
    m.configure(vetoed);
    let shown = |m: &Manager| json(call(m, "probe.seen", &json!({})))["shown"].clone();
    let before = shown(&m);
    m.signal("HUP");
    until("the plugin has seen the new configuration", || shown(&m) != before);
    refused(
        m.jobtap("config reload"),
        "probe-manager-config: reload: error updating job-manager: not on a Friday",
    );
    assert_eq!(color(&m), "red");
    assert_eq!(m.jobtap("config get site").ok(), "{\"color\":\"red\"}");

    m.configure("[site\n");
    let refusal = m.jobtap("config reload").stderr;
    assert!(refusal.contains("config.toml:"), "{refusal}");
    let (_, log) = m.stop();
    let line = "the new configuration is refused, the old one stays: error updating job-manager: \
                not on a Friday";
    assert!(log.contains(line), "{log}");
}

#[test]
fn a_configuration_is_loaded_from_stdin() {
    let m = manager("");
    let load = |text: &str| {
        let mut command = m.command(["config", "load"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(&mut command);
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(load("[site]\ncolor = \"red\"\n"), (0, String::new()));
    assert_eq!(m.jobtap("config get").ok(), "{\"site\":{\"color\":\"red\"}}");
    assert_eq!(load("{\"site\": {\"color\": \"green\"}}").0, 0);
    assert_eq!(m.jobtap("config get site.color").ok(), "green");
    let veto = load("{\"site\": {\"veto\": \"no\"}}");
    let refusal = "probe-manager-config: load: error updating job-manager: no\n";
    assert_eq!(veto, (1, refusal.to_owned()));
    let wrong = load("[site]\ncolor = red\n");
    let refusal = "probe-manager-config: TOML parse error: stdin:2: ";
    assert!(wrong.0 == 1 && wrong.1.starts_with(refusal), "{wrong:?}");
    assert_eq!(m.jobtap("config get site.color").ok(), "green");
}

#[test]
fn a_prologs_process_decides_whether_the_job_starts() {
    let m = manager("");
    let directory = temporary();
    let file = directory.path().join("made");
    let made = file.display().to_string();
    let prolog = |script: &str, command: &[&str]| {
        let mut args = vec!["submit".to_owned()];
        args.push(format!("--setattr=probe.prolog={}", json!(script)));
        args.extend(command.iter().map(|&word| word.to_owned()));
        run(&mut m.command(args)).ok()
    };
    let good = prolog(&format!("cat > {made}; echo $JOB >> {made}"), &["cat", &made]);
    m.wait(&good, "clean");
    assert_eq!(m.field(&good, "result"), "COMPLETED");
    let output = m.jobtap(&format!("job attach {good}")).ok();
    assert!(output.starts_with("from probe\n"), "{output}");

    let bad = prolog("echo no scratch here >&2; exit 3", &["true"]);
    m.wait(&bad, "clean");
    let note = m.jobtap(&format!("job wait-event {bad} exception")).ok();
    assert!(note.contains("prepare: exit code 3: no scratch here"), "{note}");
    assert!(!m.events(&bad).split(' ').any(|event| event == "start"));

    let pids = directory.path().join("pids");
    let script = format!("sleep 600 & echo $! $$ > {0}.new; mv {0}.new {0}; wait", pids.display());
    let waits = prolog(&script, &["true"]);
    until("the prolog runs", || pids.exists());
    m.jobtap(&format!("cancel {waits}")).ok();
    m.wait(&waits, "clean");
    let pids = std::fs::read_to_string(&pids).unwrap();
    for pid in pids.split_whitespace() {
        until("the prolog's processes have ended", || !is_alive(pid));
    }
}

#[test]
fn processes_report_their_exit_and_bounded_output() {
    let m = manager("");
    let sh = |script: &str| call(&m, "probe.sh", &json!(script)).ok();
    assert_eq!(sh("echo hi; echo err >&2; exit 3"), "\"768 3 err\"");
    assert_eq!(sh("kill -9 $$"), "\"9 0 \"");
    assert_eq!(sh("head -c 3000000 /dev/zero"), "\"0 1048576 \"");
    // A background process that inherited the pipes is not waited for.
    assert_eq!(sh("sleep 20 & echo hi"), "\"0 3 \"");
    refused(
        call(&m, "probe.exec", &json!("/no/such")),
        "probe-manager-plugin: ERROR: /no/such: No such file or directory",
    );
    refused(
        call(&m, "probe.exec", &json!("/etc/passwd")),
        "probe-manager-plugin: ERROR: /etc/passwd: Permission denied",
    );
}

/// Makes the plugin start a long process. Returns the command that waits for it, and the id of the process.
fn long_process(m: &Manager, directory: &Path) -> (Process, String) {
    let file = directory.join("pid");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
    let mut command = m.command(["plugin", "call", "probe.sh", &json!(script).to_string()]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let waits = spawn(&mut command);
    until("the process runs", || file.exists());
    (waits, std::fs::read_to_string(&file).unwrap().trim().to_owned())
}

#[test]
fn processes_end_with_their_plugin_and_with_the_manager() {
    let mut m = manager("");
    let directory = temporary();
    let (mut waits, pid) = long_process(&m, directory.path());
    assert!(is_alive(&pid));
    m.jobtap("plugin remove probe").ok();
    until("the process has ended with the plugin", || !is_alive(&pid));
    assert!(!waits.wait().unwrap().success());

    m.jobtap("plugin load probe").ok();
    let directory = temporary();
    let (mut waits, pid) = long_process(&m, directory.path());
    assert!(m.stop().0.success());
    until("the process has ended with the manager", || !is_alive(&pid));
    assert!(!waits.wait().unwrap().success());
}

#[test]
fn instance_data_of_a_plugin_survives_a_crash() {
    let mut m = manager("");
    for (n, total) in [(5, "5"), (-2, "3")] {
        assert_eq!(call(&m, "probe.add", &json!(n)).ok(), total);
        m.kill();
        m.start_again();
    }
    assert_eq!(call(&m, "probe.add", &json!(0)).ok(), "3");
    m.jobtap("plugin remove probe").ok();
    m.jobtap("plugin load probe").ok();
    assert_eq!(call(&m, "probe.add", &json!(0)).ok(), "3");
}

#[test]
fn a_handler_that_waits_for_its_own_thread_is_refused_by_name() {
    let m = manager("");
    let refused = m.jobtap("submit --setattr=probe.wait=1 true");
    assert_ne!(refused.code, 0, "{refused:?}");
    m.jobtap("run true").ok();
    let log = m.jobtap("dmesg").ok();
    let line = log.lines().find(|line| line.contains("the handler waits for the manager's thread"));
    assert!(line.unwrap().contains("probe: job.validate: job "), "{log}");
}

#[test]
fn a_handler_that_does_not_return_is_named_while_it_runs() {
    let m = manager("");
    let mut submit = m.command(["submit", "--setattr=probe.slow=13000", "true"]);
    let mut stuck = spawn(submit.stdout(Stdio::null()));
    let log = || m.jobtap("dmesg").ok();
    until("the handler is named", || log().contains("the handler has not returned for 10 s"));
    let log = log();
    let line = log.lines().find(|line| line.contains("has not returned")).unwrap();
    assert!(line.contains("probe: job.validate: job "), "{line}");
    assert!(stuck.wait().unwrap().success());
    m.jobtap("run true").ok();
}

#[test]
fn a_handler_that_ends_the_manager_is_named() {
    for (how, reason) in [
        ("overflow", "has overflowed its stack"),
        ("memory", "memory allocation of 9223372036854775807 bytes failed"),
        ("double-panic", "as asked, too"),
    ] {
        let mut m = manager("");
        let id = m.submit("sleep 0.1");
        let _ = m.jobtap(&format!("submit --setattr=probe.crash={how} true"));
        let (status, lines) = m.end_with_stderr();
        assert!(status.signal().is_some(), "{status}");
        let named = lines.lines().find(|line| line.contains("probe: job.validate: job "));
        let named = named.unwrap_or_else(|| panic!("{how}: {lines}"));
        assert!(named.contains("the handler ends the manager by SIG"), "{named}");
        assert!(lines.contains(reason), "{lines}");
        // The next manager takes over the jobs.
        m.start_again();
        m.wait(&id, "clean");
    }
}

#[test]
fn a_future_that_blocks_holds_up_no_other_plugin() {
    let m = manager("");
    let slow = m.jobtap("submit --setattr=probe.block=5000 true").ok();
    until("the prolog has begun", || {
        m.jobtap(&format!("job eventlog {slow}")).ok().contains("prolog-start")
    });
    // Services, of this plugin and of the manager, don't need the blocked thread.
    m.jobtap("plugin call probe.seen {}").ok();
    let log = || m.jobtap("dmesg").ok();
    until("the poll is named", || log().contains("a poll of its future: took 5"));
    assert!(
        log().contains(&format!("probe: job.state.run: job {slow}: a poll of its future: took 5")),
        "{}",
        log()
    );
    m.jobtap(&format!("job status {slow}")).ok();
}

#[test]
fn threads_that_are_given_up_do_not_keep_jobs_from_running() {
    let m = manager("");
    for _ in 0..4 {
        m.jobtap("run --setattr=probe.hang=1 true").ok();
    }
    m.jobtap("run --setattr=probe.prolog=true true").ok();
    until("they are shown", || {
        m.jobtap("plugin list -l").ok().contains("loaded, 4 threads given up")
    });
    until("they are told", || m.jobtap("dmesg").ok().contains("probe: a thread is given up: "));
    assert!(
        m.jobtap("plugin stats probe")
            .ok()
            .contains("GIVEN-UP\nprobe         0        0         4")
    );
    m.jobtap("plugin reload probe").ok();
    m.jobtap("run --setattr=probe.hang=1 true").ok();
    until("those of before still count", || {
        m.jobtap("plugin list -l").ok().contains("5 threads given up")
    });
}
