//! `batch`, `alloc` and `proxy`: managers that run as jobs, with the resources of their job and its end.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_tests::{Manager, Output, jobtap, run, spawn, temporary, until};
use serde_json::Value;

/// Runs a command of the manager in a directory.
fn in_directory(m: &Manager, directory: &Path, args: &[&str]) -> Output {
    run(m.command(args).current_dir(directory))
}

/// Writes a script and returns its path.
fn script(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn jobspec(output: Output) -> Value {
    serde_json::from_str(&output.ok()).unwrap()
}

#[test]
fn a_script_runs_under_a_manager_with_the_resources_of_its_job() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let text = "#!/bin/sh\n# flux: -n2 --job-name=night --conf=exec.kill-timeout='\"7s\"'\n\
                # flux: --dump=state.tgz\necho $0 $*\njobtap resource info\njobtap config get exec.kill-timeout\n\
                jobtap run -n2 sh -c 'echo task $FLUX_TASK_RANK'\n\
                jobtap run -n3 true 2>&1\nexit 3\n";
    let file = script(directory.path(), "job.sh", text);
    let id = in_directory(&m, directory.path(), &["batch", &file, "one", "two"]).ok();
    m.wait(&id, "clean");
    assert_eq!((m.field(&id, "name"), m.field(&id, "returncode")), ("night".into(), "3".into()));
    let output = fs::read_to_string(directory.path().join(format!("flux-{id}.out"))).unwrap();
    let mut lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].ends_with("/script one two"), "{output}");
    assert_eq!(lines[1..3], ["1 Nodes, 2 Cores, 0 GPUs", "7s"]);
    lines[3..5].sort_unstable();
    assert_eq!(lines[3..5], ["task 0", "task 1"]);
    assert!(output.contains("unsatisfiable request"), "three tasks on two cores: {output}");
    // The archive has the jobs of the manager.
    let dump = run(Command::new("tar").args(["tzf"]).arg(directory.path().join("state.tgz")));
    assert!(dump.ok().contains("checkpoint"), "it is an archive of the store");
}

#[test]
fn the_jobspec_is_that_of_flux_but_for_the_program() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let file = script(
        directory.path(),
        "b.sh",
        "#!/bin/sh\n#flux: -n4 -c2 -N2 -g1 -t 5m --setattr=user.a=\"b c\"\n#flux: --conf='''\n\
         #flux: [resource]\n#flux: noverify = true\n#flux: '''\necho\n",
    );
    let words = ["batch", "--dry-run", "--env=-*", "--dump", &file, "arg"];
    let found = jobspec(in_directory(&m, directory.path(), &words));
    let command = found["tasks"][0]["command"].as_array().unwrap();
    assert_eq!(
        command[1..],
        [
            "start",
            "-Scontent.dump=flux-{{jobid}}-dump.tgz",
            "-c{{tmpdir}}/conf.json",
            "{{tmpdir}}/script",
            "arg"
        ]
    );
    let resources = serde_json::json!([{"type": "node", "count": 2, "with": [
        {"type": "slot", "count": 2, "label": "task", "with": [
            {"type": "core", "count": 2}, {"type": "gpu", "count": 1}]}]}]);
    assert_eq!(found["resources"], resources);
    assert_eq!(found["tasks"][0]["count"], serde_json::json!({"per_slot": 1}));
    let attributes = &found["attributes"];
    assert_eq!(attributes["user"]["a"], "b c");
    let system = &attributes["system"];
    assert_eq!((&system["duration"], &system["job"]["name"]), (&300.0.into(), &"b.sh".into()));
    assert_eq!(system["files"]["conf.json"]["data"]["resource"]["noverify"], true);
    assert_eq!(system["files"]["script"]["mode"], 0o100_700);
    let options = &system["shell"]["options"];
    assert_eq!(options["output"]["stdout"]["path"], "flux-{{id}}.out");
    assert_eq!(options["per-resource"]["type"], "node");
}

#[test]
fn output_and_errors_go_where_the_options_say() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let files = ["--output=o.{{id}}", "--error=e"];
    let mut command = m.command(["batch", "-n1", "--wrap"]);
    command.args(files).current_dir(directory.path());
    let mut command = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    command.stdin.take().unwrap().write_all(b"echo out; echo err >&2").unwrap();
    let id = String::from_utf8(command.wait_with_output().unwrap().stdout).unwrap();
    let id = id.trim();
    m.wait(id, "clean");
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!((read(&format!("o.{id}")), read("e")), ("out\n".into(), "err\n".into()));
}

#[test]
fn a_bad_script_is_refused_with_its_line() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let batch = |text: &str| {
        script(directory.path(), "s", text);
        in_directory(&m, directory.path(), &["batch", "s"])
    };
    batch("#!/bin/sh\necho\n")
        .says(1, "jobtap-batch: ERROR: Number of slots to allocate must be specified");
    script(directory.path(), "plain", "echo\n");
    in_directory(&m, directory.path(), &["batch", "-n1", "plain"])
        .says(1, "jobtap-batch: ERROR: plain does not appear to start with '#!'");
    batch("#!/bin/sh\n#flux: -n1\necho\n#flux: -c2\n").says(
        1,
        "jobtap-batch: ERROR: s: line 4: orphan 'flux:' detected: directives disabled after line 2",
    );
    let refused = batch("#!/bin/sh\n#flux: --foo\n");
    let lines: Vec<&str> = refused.stderr.lines().collect();
    assert_eq!(refused.code, 2);
    assert_eq!(lines[0], "jobtap-batch: ERROR: argument parsing failed at s line 2");
    assert!(lines.contains(&"jobtap-batch: error: unrecognized arguments: --foo"), "{refused:?}");
    in_directory(&m, directory.path(), &["batch", "-n1", "nosuch"])
        .says(1, "jobtap-batch: ERROR: No such file or directory: 'nosuch'");
    assert_eq!(m.jobtap("jobs -an").ok(), "", "no job was submitted");
}

#[test]
fn an_allocation_is_reached_by_its_id_until_it_ends() {
    let m = Manager::start(jobtap());
    let program = jobtap().to_str().unwrap();
    let id = m.jobtap("alloc -n2 --bg").ok();
    assert_eq!(m.field(&id, "state"), "RUN");
    let inner = m.jobtap_args(&["proxy", &id, program, "submit", "-n2", "sleep", "600"]).ok();
    m.jobtap_args(&["proxy", &id, program, "job", "wait-event", "-q", &inner, "start"]).ok();
    let listed = m.jobtap("jobs -R").ok();
    assert!(listed.contains(&format!("{id}:")) && listed.contains(&inner), "{listed}");
    let tree = m.jobtap("pstree").ok();
    assert!(tree.contains("sleep"), "{tree}");
    let uri = m.jobtap(&format!("uri {id}")).ok();
    assert!(uri.starts_with("local://"), "{uri}");
    assert_eq!(m.jobtap_args(&["proxy", &id, "sh", "-c", "exit 7"]).code, 7);
    let pids = m.jobtap_args(&["proxy", &id, program, "job", "hostpids", &inner]).ok();
    let pid = pids.rsplit(':').next().unwrap().to_owned();
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    until("its jobs end with it", || !Path::new("/proc").join(&pid).exists());
    let gone = m.jobtap_args(&["proxy", &id, "true"]);
    assert!(gone.code == 1 && gone.stderr.contains("is not running"), "{gone:?}");
}

#[test]
fn a_command_of_an_allocation_has_input_output_and_its_exit_code() {
    let m = Manager::start(jobtap());
    let mut alloc = m.command(["alloc", "-n1", "sh", "-c", "read line; echo got $line; exit 5"]);
    let mut alloc = spawn(alloc.stdin(Stdio::piped()).stdout(Stdio::piped()));
    alloc.stdin.take().unwrap().write_all(b"it\n").unwrap();
    let output = alloc.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "got it\n");
}

#[test]
fn an_allocation_that_cannot_start_is_told() {
    let m = Manager::start(jobtap());
    let refused = m.jobtap("alloc -n99 --bg");
    assert!(refused.code == 1 && refused.stderr.contains("unsatisfiable request"), "{refused:?}");
    assert!(refused.stderr.trim_end().ends_with(": unexpectedly exited"), "{refused:?}");
    let refused = m.jobtap("alloc --bg");
    refused.says(1, "jobtap-alloc: ERROR: Number of slots to allocate must be specified");
}
