//! `/metrics`.

use std::io::Write;
use std::process::{Command, Stdio};

use jobtap_tests::{run, spawn};
use serde_json::json;

use crate::client::Site;

/// The value of a metric, given by its name and labels as they are written.
fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing in:\n{text}")).parse().unwrap()
}

#[test]
fn metrics_count_what_was_done() {
    let site = Site::open("[queues.batch]\n");
    site.m.jobtap("queue start --all").ok();
    let before = site.get("/metrics").text;
    site.m.jobtap("submit --quiet --queue=batch --cc=1-3 --wait true").ok();
    let held = site.m.submit("--queue=batch --urgency=hold true");
    let failed = site.m.submit("--queue=batch false");
    site.m.wait(&failed, "clean");
    let text = site.get("/metrics").text;
    for (name, expected) in [
        ("jobtap_jobs{state=\"sched\"}", 1.0),
        ("jobtap_jobs{state=\"inactive\"}", 4.0),
        ("jobtap_inactive_jobs{result=\"completed\"}", 3.0),
        ("jobtap_inactive_jobs{result=\"failed\"}", 1.0),
        ("jobtap_queue_jobs{queue=\"batch\",state=\"sched\"}", 1.0),
        ("jobtap_log_lines_dropped_total", 0.0),
    ] {
        assert_eq!(value(&text, name), expected, "{name}");
    }
    let grown = |name: &str| value(&text, name) - value(&before, name);
    assert_eq!(grown("jobtap_requests_total{service=\"job-ingest.submit\"}"), 5.0);
    assert!(grown("jobtap_events_total") >= 40.0, "{text}");
    assert!(grown("jobtap_commit_duration_seconds_count") > 4.0, "{text}");
    let sum = value(&text, "jobtap_commit_duration_seconds_sum");
    assert!(sum > 0.0 && sum < 60.0, "{sum}");
    assert!(text.contains("jobtap_build_info{name=\"jobtap\""), "{text}");
    let calls = text.lines().find(|line| {
        line.starts_with("jobtap_callbacks_total{") && line.contains("topic=\"job.validate\"")
    });
    assert!(calls.is_some(), "{text}");
    assert_eq!(site.m.field(&held, "state"), "SCHED");
}

#[test]
fn metrics_are_hidden_with_the_jobs_that_they_count() {
    let site = Site::with_token("[access]\nprivate-mode = true\n");
    site.get("/metrics").refused(403, 1);
    let token = format!("Authorization: Bearer {}", crate::client::TOKEN);
    assert_eq!(site.ask("GET /metrics", &[&token], "").status, 200);
    assert!(site.call("job-list.job-stats", json!({})).ok().is_object());
}

/// Prometheus's own check of names, types and help texts.
#[test]
#[allow(clippy::print_stdout)]
fn promtool_has_nothing_to_say() {
    if !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|dir| dir.join("promtool").exists())
    {
        println!("skipped: promtool is missing (Debian's package prometheus)");
        return;
    }
    let site = Site::open("");
    let id = site.m.submit("true");
    site.m.wait(&id, "clean");
    let reply = site.get("/metrics");
    assert!(reply.header.contains("content-type: text/plain; version=0.0.4"), "{reply:?}");
    let check = |text: &str| {
        let mut check = Command::new("promtool");
        check.args(["check", "metrics"]).stdin(Stdio::piped());
        check.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = spawn(&mut check);
        check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check(&reply.text), (true, String::new()));
    // The tool does object to bad metrics.
    assert!(!check("jobtap_bad 1\njobtap_bad 1\n").0);
    run(Command::new("promtool").arg("--version")).ok();
}
