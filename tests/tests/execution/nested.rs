//! A manager that is itself a job of another manager has the resources of that job, ends with it, and leaves
//! no process behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use jobtap_tests::leftovers::processes_with;
use jobtap_tests::{Manager, Output, clean, jobtap, run, send, temporary, until};
use serde_json::Value;

/// Runs `jobtap start` with the environment of a job's task.
fn start_as_job(uri: &str, options: &[&str]) -> Output {
    let mut command = clean(jobtap());
    command.envs([("JOBTAP_URI", uri), ("JOBTAP_JOB_ID", "f3"), ("JOBTAP_JOB_SIZE", "1")]);
    run(command.arg("start").args(options).arg("true"))
}

/// Submits a manager as a job with these options; it runs until it is ended.
fn submit_manager(m: &Manager, options: &[&str], statedir: &Path) -> String {
    let statedir = format!("--state-dir={}", statedir.display());
    let start = ["-n1", jobtap().to_str().unwrap(), "start", &statedir];
    let id = m.submit_args(&[options, &start].concat());
    m.wait(&id, "memo");
    id
}

/// Returns a function that runs commands against the manager that is this job.
fn inside(m: &Manager, id: &str) -> impl Fn(&str) -> Output {
    let uri = m.field(id, "user.uri");
    move |words| run(clean(jobtap()).env("JOBTAP_URI", &uri).args(words.split_whitespace()))
}

fn resources(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["execution"].take()
}

#[test]
fn an_unanswered_resource_request_fails_the_start() {
    let dead = "local:///nonexistent/jobtap";
    let refused = start_as_job(dead, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let text = "jobtap-start: job f3: its resources can't be learned: no manager listens";
    assert!(refused.stderr.starts_with(text), "{refused:?}");
    // With configured resources the manager needs no answer from the outer one.
    start_as_job(dead, &["--test-size=1"]).ok();
}

#[test]
fn a_job_of_several_tasks_is_one_instance() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let script = directory.path().join("script");
    let lines = directory.path().join("lines");
    let text = format!("jobtap resource info >>{}; jobtap run -n2 true; exit 3", lines.display());
    std::fs::write(&script, text).unwrap();
    let program = jobtap().to_str().unwrap();
    let id = m.submit_args(&["-n3", program, "start", "sh", script.to_str().unwrap()]);
    m.wait(&id, "clean");
    assert_eq!(std::fs::read_to_string(lines).unwrap(), "1 Nodes, 3 Cores, 0 GPUs\n");
    assert_eq!(m.field(&id, "returncode"), "3");
}

#[test]
fn a_nested_manager_whose_job_started_late_ends_later() {
    // With a percentage of 0 every start counts as late.
    let m = Manager::start_with(jobtap(), "[exec]\nmax-start-delay-percent = 0\n");
    let directory = temporary();
    let id = submit_manager(&m, &["-t10m"], &directory.path().join("inner"));
    let inner = inside(&m, &id);
    let job = inner("submit sleep 600").ok();
    inner(&format!("job wait-event -q -t 60s {job} alloc")).ok();
    let theirs = resources(&inner(&format!("job info {job} R")).ok());
    let ours = resources(&m.jobtap(&format!("job info {id} R")).ok());
    let log = m.jobtap(&format!("job eventlog -f json {id}")).ok();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let start = events.into_iter().find(|event| event["name"] == "start").unwrap();
    let time = |value: &Value| value.as_f64().unwrap();
    let end = time(&start["timestamp"]) + 600.0;
    assert!((time(&theirs["expiration"]) - end).abs() < 0.001, "{theirs} {start}");
    assert!(time(&ours["expiration"]) < end, "what was planned is shown");
}

#[test]
fn listings_and_times_tell_of_a_nested_manager() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let id = submit_manager(&m, &["-t10m"], &directory.path().join("inner"));
    let inner = inside(&m, &id);
    let job = inner("submit sleep 600").ok();
    inner(&format!("job wait-event -q -t 60s {job} start")).ok();
    inner("submit true").ok();
    let fields = "{instance.stats.total} {instance.progress!P} {instance.utilization!P} \
                  {instance.resources.free.ncores}|{instance.gpu_utilization}";
    let listed = m.jobtap_args(&["jobs", "-no", fields, &id]).ok();
    assert_eq!(listed, "2 0% 100% 0|");
    assert_eq!(m.jobtap_args(&["jobs", "-no", "{instance.stats}", &id]).ok(), "PD:1 R:1 CD:0 F:0");
    // Both the instance and its job have a time limit.
    for left in [inner("job timeleft"), inner(&format!("job timeleft {job}"))] {
        let left: u32 = left.ok().parse().unwrap();
        assert!((1..=600).contains(&left), "{left}");
    }
    let left = m.jobtap("job timeleft -H");
    assert_eq!(left.ok(), "infinity");
    let held = m.submit("--urgency=hold true");
    let text = format!("jobtap-job: job {held} has not started");
    m.jobtap(&format!("job timeleft {held}")).says(1, &text);
    m.jobtap(&format!("cancel {held}")).ok();
    m.wait(&held, "clean");
    assert_eq!(m.jobtap(&format!("job timeleft {held}")).ok(), "0");
}

/// A script finds its place in the hierarchy by these variables and attributes, as in Flux.
#[test]
fn jobs_of_a_nested_manager_know_which_jobs_enclose_them() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    assert_eq!(m.jobtap("getattr jobid-path").ok(), "/");
    let shown = "echo $FLUX_JOB_ID $FLUX_JOB_ID_PATH $FLUX_KVS_NAMESPACE $FLUX_ENCLOSING_ID";
    let number = |id: &str| m.jobtap(&format!("job id --to=dec {id}")).ok();
    let first = m.jobtap_args(&["run", "sh", "-c", shown]).ok();
    let id = m.jobtap("job last").ok();
    assert_eq!(first, format!("{id} /{id} job-{}", number(&id)));
    let id = submit_manager(&m, &[], &directory.path().join("inner"));
    let inner = inside(&m, &id);
    assert_eq!(inner("getattr jobid-path").ok(), format!("/{id}"));
    assert_eq!(inner("getattr parent-kvs-namespace").ok(), format!("job-{}", number(&id)));
    let script = directory.path().join("script");
    std::fs::write(&script, shown).unwrap();
    // What the submitter inherited belongs to another job, and must not be passed on.
    let words =
        format!("run --env=FLUX_JOB_ID_PATH=/x --env=FLUX_KVS_NAMESPACE=x sh {}", script.display());
    let below = inner(&words).ok();
    let job = inner("job last").ok();
    assert_eq!(below, format!("{job} /{id}/{job} job-{}", number(&job)));
    let program = [jobtap().to_str().unwrap(), "start", "sh", "-c", shown];
    let told = m.jobtap_args(&[&["run"], &program[..]].concat()).ok();
    let id = m.jobtap("job last").ok();
    assert_eq!(told, id, "only of the job as which its manager runs");
}

#[test]
fn a_nested_manager_follows_the_end_time_of_its_job() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let id = submit_manager(&m, &["-t10m"], &directory.path().join("inner"));
    let inner = inside(&m, &id);
    let refused = inner("run -t1h true");
    assert!(refused.stderr.contains("exceeds remaining instance lifetime"), "{refused:?}");
    m.jobtap(&format!("update {id} duration=2h")).ok();
    inner("resource eventlog -t 60s -w resource-define -m method=reload").ok();
    inner("run -t1h true").ok();
    inner("module reload job-manager").ok();
    inner("run -t1h true").ok();
}

#[test]
fn a_nested_manager_shuts_down_at_its_time_limit() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let dump = directory.path().join("dump.tar");
    let dump = format!("-Scontent.dump={}", dump.display());
    let line = [jobtap().to_str().unwrap(), "start", &dump, "sh", "-c", "jobtap run sleep 600"];
    let id = m.submit_args(&line);
    m.wait(&id, "memo");
    m.jobtap(&format!("job kill -s ALRM {id}")).ok();
    m.wait(&id, "clean");
    assert!(directory.path().join("dump.tar").exists());
}

#[test]
fn a_canceled_nested_manager_ends_before_it_is_killed() {
    let m = Manager::start(jobtap());
    // SIGTERM reaches the inner manager and its command in either order.
    for _ in 0..8 {
        let command = "jobtap submit --wait-event=start sleep 600; exec sleep 600";
        let id = m.submit_args(&[jobtap().to_str().unwrap(), "start", "sh", "-c", command]);
        m.wait(&id, "memo");
        let inner = inside(&m, &id);
        until("the inner job runs", || inner("jobs -no {name} -f running").stdout == "sleep\n");
        m.jobtap(&format!("cancel {id}")).ok();
        m.wait(&id, "clean");
        assert_eq!(m.field(&id, "returncode"), "143");
    }
}

#[test]
fn leftovers_of_a_nested_manager_end_with_its_job() {
    let m = Manager::start_with(jobtap(), "[exec]\nkill-timeout = 0.001\n");
    let directory = temporary();
    let other = m.submit("sleep 600");
    m.wait(&other, "start");
    let id = submit_manager(&m, &[], &directory.path().join("inner"));
    let inner = inside(&m, &id);
    let pid = directory.path().join("pid");
    let script = directory.path().join("stubborn");
    let text = format!(
        "trap '' TERM; echo $$ > {0}.new; mv {0}.new {0}; sleep 600; sleep 600",
        pid.display()
    );
    std::fs::write(&script, text).unwrap();
    inner(&format!("submit sh {}", script.display())).ok();
    until("the inner job's process", || pid.exists());
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    let pid = std::fs::read_to_string(pid).unwrap();
    until("its end", || run(Command::new("kill").args(["-0", pid.trim()])).code != 0);
    assert_eq!(m.field(&other, "state"), "RUN");
}

/// The innermost job: processes that left its process group, whose parents have exited, or that ignore SIGTERM.
const STUBBORN: &str = "sleep 600 & setsid sleep 600 & setsid sh -c 'sleep 600 & sleep 600 &'
(trap '' TERM; touch $TMPDIR/ready; sleep 600; sleep 600) &
wait
";

/// Starts three nested instances, each with a shepherd of its own, and waits until the job of the innermost
/// runs. `last` is the end of the outermost instance's initial program. All have `directory` as `TMPDIR`.
fn three_levels(directory: &Path, last: &str) -> Child {
    let script = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    script("job", STUBBORN);
    script("third", "jobtap submit sh $TMPDIR/job; sleep 600\n");
    script("second", "jobtap run jobtap start sh $TMPDIR/third\n");
    script(
        "first",
        &format!(
            "jobtap submit -n1 jobtap start sh $TMPDIR/second\n\
             while [ ! -e $TMPDIR/ready ]; do sleep 0.05; done\n{last}\n"
        ),
    );
    let mut command = clean(jobtap());
    command.env("TMPDIR", directory).args(["start", "--conf=exec.kill-timeout=0.2", "sh"]);
    command.arg(directory.join("first")).stdout(Stdio::null()).stderr(Stdio::null());
    let outermost = command.spawn().unwrap();
    until("the innermost job runs", || directory.join("ready").exists());
    outermost
}

/// Returns the state directories of instances that are left.
fn instances(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with("jobtap-"))
        .collect()
}

#[test]
fn nested_instances_end_with_the_outermost() {
    for _ in 0..8 {
        let directory = temporary();
        let mut outermost = three_levels(directory.path(), "exit 3");
        until("the outermost ends", || outermost.try_wait().unwrap().is_some());
        assert_eq!(outermost.wait().unwrap().code(), Some(3));
        // The manager's own process may take a moment to exit.
        until("no process is left", || processes_with(directory.path()).is_empty());
    }
}

#[test]
fn nested_instances_end_when_the_outermost_is_killed() {
    let directory = temporary();
    let last = "while jobtap uptime; do sleep 0.1; done";
    let mut outermost = three_levels(directory.path(), last);
    outermost.kill().unwrap();
    outermost.wait().unwrap();
    until("no process is left", || processes_with(directory.path()).is_empty());
}

#[test]
fn jobs_of_a_killed_nested_manager_end() {
    let m = Manager::start_with(jobtap(), "[exec]\nkill-timeout = 0.2\n");
    let directory = temporary();
    let script =
        |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    script("inner", "echo $$ >$TMPDIR/job; exec sleep 600\n");
    script("command", "echo $PPID >$TMPDIR/manager; jobtap submit sh $TMPDIR/inner; sleep 600\n");
    // The outer job outlives the inner manager.
    script("outer", "$0 start sh $TMPDIR/command; sleep 600\n");
    let here = format!("TMPDIR={}", directory.path().display());
    let line = ["env", &here, "sh", "-c", ". $TMPDIR/outer", jobtap().to_str().unwrap()];
    let id = m.submit_args(&line);
    let pid = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    until("the inner job runs", || pid("job").ends_with('\n'));
    send("KILL", pid("manager").trim().parse().unwrap());
    let job = Path::new("/proc").join(pid("job").trim());
    until("the inner job ends", || !job.exists());
    until("the inner instance's directory is gone", || instances(directory.path()).is_empty());
    assert_eq!(m.field(&id, "state"), "RUN", "the outer job is not concerned");
}
