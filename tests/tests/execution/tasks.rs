//! Jobs run as real processes: they get their directory, environment, input and signals, and users see their
//! output and exit status.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jobtap_tests::leftovers::{parent, shepherds_of};
use jobtap_tests::{Manager, clean, jobtap, run, send, spawn, temporary, until};

#[test]
fn a_job_has_its_users_directory_environment_and_ranks() {
    let m = Manager::start(jobtap());
    let cwd = temporary();
    let mut submit = m.command(["run", "-n", "3", "-l", "--env=TOUR=1"]);
    let script =
        "echo $TOUR $FLUX_TASK_RANK/$FLUX_JOB_SIZE $JOBTAP_TASK_RANK/$JOBTAP_JOB_SIZE; pwd";
    let output = run(submit.current_dir(cwd.path()).args(["sh", "-c", script])).ok();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let here = cwd.path().canonicalize().unwrap();
    let mut wanted: Vec<String> = Vec::new();
    for rank in 0..3 {
        wanted.push(format!("{rank}: {}", here.display()));
        wanted.push(format!("{rank}: 1 {rank}/3 {rank}/3"));
    }
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
}

#[test]
fn run_gives_the_jobs_output_and_exit_code() {
    let m = Manager::start(jobtap());
    let output = m.jobtap_args(&["run", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(output.code, 3);
    assert_eq!(output.stdout, "out\n");
    assert_eq!(output.stderr, "err\njobtap-job: task(s) exited with exit code 3\n");
    assert_eq!(m.jobtap("run no-such-command").code, 127);
    assert_eq!(m.jobtap("run /etc/passwd").code, 126);
    let killed = m.jobtap_args(&["run", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, 137);
}

#[test]
fn attach_shows_output_while_the_job_runs() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let gate = directory.path().join("gate");
    let script =
        format!("echo one; while ! [ -e {} ]; do sleep 0.05; done; echo two", gate.display());
    let id = m.submit_args(&["sh", "-c", &script]);
    let mut attach = m.command(["job", "attach", &id]);
    let mut attach = spawn(attach.stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(attach.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    assert_eq!(m.field(&id, "state"), "RUN");
    std::fs::write(&gate, "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    assert!(lines.next().is_none());
    assert!(attach.wait().unwrap().success());
    // Attaching after the end shows the same output.
    assert_eq!(m.jobtap(&format!("job attach {id}")).ok(), "one\ntwo");
}

#[test]
fn the_finish_event_has_the_wait_status() {
    let m = Manager::start(jobtap());
    for (script, status) in [("exit 0", 0), ("exit 3", 3 << 8), ("kill -15 $$", (128 + 15) << 8)] {
        let id = m.submit_args(&["sh", "-c", script]);
        m.wait(&id, "clean");
        let finish = m.jobtap(&format!("job wait-event {id} finish")).ok();
        assert!(finish.ends_with(&format!("finish status={status}")), "{finish}");
    }
}

#[test]
fn cancel_kills_a_process_group_that_ignores_signals() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let pids = directory.path().join("pids");
    let script = format!(
        "trap '' TERM; sleep 600 & echo $! >> {0}; echo $$ >> {0}; while :; do sleep 1; done",
        pids.display()
    );
    let id = m.submit_args(&["sh", "-c", &script]);
    until("both processes run", || {
        std::fs::read_to_string(&pids).is_ok_and(|text| text.lines().count() == 2)
    });
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "CANCELED");
    for pid in std::fs::read_to_string(&pids).unwrap().lines() {
        let alive = run(Command::new("kill").args(["-0", pid])).code == 0;
        assert!(!alive, "process {pid} of the cancelled job is still there");
    }
}

#[test]
fn ctrl_c_cancels_the_job_of_run_and_a_second_one_detaches() {
    let m = Manager::start(jobtap());
    let interrupt = |pid: u32| run(Command::new("kill").args(["-INT", &pid.to_string()]));
    let start = |script: &str| {
        let mut command = m.command(["run", "sh", "-c", script]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = spawn(quiet);
        let mut id = String::new();
        until("the job runs", || {
            id = m.jobtap("jobs -f run -no {id}").ok();
            !id.is_empty()
        });
        (process, id)
    };

    let (mut once, id) = start("sleep 600");
    m.wait(&id, "start");
    interrupt(once.id());
    assert_eq!(once.wait().unwrap().code(), Some(143));
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "result"), "CANCELED");

    let (mut twice, id) = start("trap '' TERM; while :; do sleep 0.1; done");
    m.wait(&id, "start");
    interrupt(twice.id());
    m.wait(&id, "exception");
    interrupt(twice.id());
    twice.wait().unwrap();
    // The command detached while the job was still in CLEANUP.
    assert_eq!(m.field(&id, "state"), "CLEANUP");
    m.wait(&id, "clean");
}

#[test]
fn a_job_ends_when_its_time_is_up() {
    let m = Manager::start(jobtap());
    let output = m.jobtap("run -t 0.2s sleep 60");
    assert_eq!(output.code, 142);
    assert!(output.stderr.contains("type=timeout severity=0 resource allocation expired"));
}

#[test]
fn simulated_jobs_take_no_process() {
    let m = Manager::start(jobtap());
    let set = "--setattr=system.exec.test.run_duration=0.01s";
    let id = m.submit(&format!("{set} --setattr=system.exec.test.wait_status=256 no-such-command"));
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "returncode"), "1");
}

#[test]
fn output_files_are_named_by_template_and_labeled_per_task() {
    let m = Manager::start(jobtap());
    let here = temporary();
    let at = |words: &[&str]| run(m.command(words).current_dir(here.path())).ok();
    let text = |name: &str| {
        let mut lines: Vec<String> = std::fs::read_to_string(here.path().join(name))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort_unstable();
        lines.join("|")
    };
    let script = "echo out $FLUX_TASK_RANK; echo err >&2";
    let words = [
        "run",
        "-n2",
        "-l",
        "--job-name=nm",
        "--output={{name}}-{{id}}.out",
        "--error=e{{taskid}}",
    ];
    at(&[&words[..], &["sh", "-c", script]].concat());
    let id = m.jobtap("jobs -ano {id.f58}").ok();
    assert_eq!(text(&format!("nm-{id}.out")), "0: out 0|1: out 1");
    assert_eq!((text("e0"), text("e1")), ("0: err".into(), "1: err".into()));
    let append = ["run", "--output=a", "--setopt=output.mode=append", "sh", "-c", "echo more"];
    at(&append);
    at(&append);
    assert_eq!(text("a"), "more|more");
    at(&["run", "--output=a", "-u", "printf", "new"]);
    assert_eq!(text("a"), "new");
}

#[test]
fn input_comes_from_a_file() {
    let m = Manager::start(jobtap());
    let here = temporary();
    std::fs::write(here.path().join("in.txt"), "from file\n").unwrap();
    let words = ["run", "-n2", "--input=in.txt", "cat"];
    assert_eq!(run(m.command(words).current_dir(here.path())).ok(), "from file\nfrom file");
    let id = m.jobtap("jobs -ano {id.f58}").ok();
    let log = m.jobtap(&format!("job eventlog -p input {id}")).ok();
    assert!(log.contains("redirect stream=\"stdin\""), "{log}");
    let missing = run(m.command(["run", "--input=nosuch", "cat"]).current_dir(here.path()));
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("cannot open input file"), "{missing:?}");
}

/// Kills the shepherd and its forker, the parent of this job's task.
fn kill_both(m: &Manager) {
    let both = shepherds_of(&m.statedir);
    assert_eq!(both.len(), 2, "the shepherd and its forker");
    // They are stopped first, so that neither can take the place of the other.
    for signal in ["STOP", "KILL"] {
        both.iter().for_each(|pid| send(signal, *pid));
    }
}

#[test]
fn jobs_whose_shepherd_and_forker_die_are_lost_and_their_nodes_stay_in_use() {
    let directory = temporary();
    let mut m = Manager::start_in(
        jobtap(),
        &directory.path().join("state"),
        &["--test-size=2".as_ref(), "--test-hosts=n[0-1]".as_ref()],
    );
    let started = |m: &Manager| {
        let lost = m.submit("-N1 sleep 600");
        m.wait(&lost, "start");
        let task = m.jobtap(&format!("job hostpids {lost}")).ok();
        (lost, task.rsplit(':').next().unwrap().to_owned())
    };
    let is_lost = |m: &Manager, lost: &str, task: &str| {
        m.wait(lost, "clean");
        let log = m.jobtap(&format!("job eventlog {lost}")).ok();
        assert!(log.contains(r#"type="exec" severity=0 note="job is lost: "#), "{log}");
        until("what is left of it is killed", || !Path::new("/proc").join(task).exists());
        assert_eq!(m.jobtap("resource drain -n -o {nodelist}").ok(), "");
    };

    // While a manager runs.
    let (lost, task) = started(&m);
    let waits = m.submit("-N2 true");
    kill_both(&m);
    is_lost(&m, &lost, &task);
    m.wait(&waits, "clean");
    assert_eq!(m.field(&waits, "result"), "COMPLETED");

    // While no manager runs.
    let (lost, task) = started(&m);
    m.kill();
    kill_both(&m);
    m.start_again();
    is_lost(&m, &lost, &task);
    assert_eq!(m.jobtap("run -N2 true").code, 0);
}

/// Without the forker, a job that killed its parent ended all other jobs.
#[test]
fn a_job_that_kills_its_parent_ends_no_other() {
    let m = Manager::start(jobtap());
    let sleeps = m.submit("sleep 600");
    m.wait(&sleeps, "start");
    let completed = |id: &str| {
        m.wait(id, "clean");
        let log = m.jobtap(&format!("job eventlog {id}")).ok();
        assert_eq!(m.field(id, "result"), "COMPLETED", "{log}");
    };
    // Some of them kill it before it has reported their start, or that of the others.
    for _ in 0..10 {
        let kills = m.submit_args(&["sh", "-c", "kill -9 $PPID"]);
        let others = m.submit_args(&["--cc=1-4", "true"]);
        completed(&kills);
        others.lines().for_each(completed);
    }
    assert_eq!(m.jobtap("run echo fine").ok(), "fine");
    assert_eq!(m.field(&sleeps, "state"), "RUN");
}

#[test]
fn jobs_go_on_when_their_shepherd_is_killed() {
    let m = Manager::start(jobtap());
    let directory = temporary();
    let go = directory.path().join("go");
    run(Command::new("mkfifo").arg(&go)).ok();
    let script = format!("cat {}; exit 3", go.display());
    let id = m.submit_args(&["sh", "-c", &script]);
    m.wait(&id, "start");
    let both = shepherds_of(&m.statedir);
    let shepherd = both.iter().find(|pid| parent(**pid).is_none_or(|pid| !both.contains(&pid)));
    send("KILL", *shepherd.unwrap());
    assert_eq!(m.jobtap("run echo fine").ok(), "fine");
    std::fs::write(go, "told\n").unwrap();
    assert_eq!(m.jobtap(&format!("job attach {id}")).stdout, "told\n");
    assert_eq!(m.field(&id, "returncode"), "3");
    assert_eq!(m.jobtap("resource drain -n -o {nodelist}").ok(), "");
}

#[test]
fn the_taskmap_follows_the_nodes() {
    let directory = temporary();
    let hosts = ["--test-size=2".as_ref(), "--test-hosts=n[0-1]".as_ref()];
    let m = Manager::start_in(jobtap(), &directory.path().join("state"), &hosts);
    let id = m.submit("-N2 -n4 true");
    m.wait(&id, "clean");
    let map = |words: &str| m.jobtap(&format!("job taskmap {words}"));
    assert_eq!(map(&id).ok(), "[[0,2,2,1]]");
    assert_eq!(map(&format!("--to=raw {id}")).ok(), "0-1;2-3");
    assert_eq!(map(&format!("--to=pmi {id}")).ok(), "(vector,(0,2,2))");
    assert_eq!(map(&format!("--hostname=2 {id}")).ok(), "n1");
    let script = "echo $FLUX_TASK_LOCAL_ID";
    let cyclic = m.submit_args(&["-N2", "-n4", "--taskmap=cyclic", "sh", "-c", script]);
    m.wait(&cyclic, "clean");
    assert_eq!(map(&cyclic).ok(), "[[0,2,1,2]]");
    assert_eq!(map(&format!("--hostname=2 {cyclic}")).ok(), "n0");
    let output = m.jobtap(&format!("job attach -l {cyclic}")).ok();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 0", "1: 0", "2: 1", "3: 1"]);
    let bad = m.jobtap("run -N2 -n4 --taskmap=manual:0;1 true");
    let note = "failed to map tasks with manual:0;1: got 2 total tasks, expected 4";
    assert!(bad.code == 1 && bad.stderr.contains(note), "{bad:?}");
    assert_eq!(map("--taskids=1 0,2;1,3").ok(), "1,3");
    assert_eq!(map("--ntasks=1 0,2;1,3").ok(), "2");
    assert_eq!(map("--nodeid=2 0,2;1,3").ok(), "0");
    let fails = |words: &str, text: &str| {
        let output = map(words);
        assert_eq!((output.code, output.stderr), (1, format!("jobtap-job: {text}\n")));
    };
    fails("--nodeid=9 0,2;1,3", "failed to get nodeid for task 9: No such file or directory");
    fails("0;0", "error decoding taskmap: duplicate taskid specified: 0");
    fails("9999999999", "Unable to get job taskmap: no such job");
    // The command waits for a job that has not started; a job that never starts has no taskmap.
    let held = m.submit("--urgency=hold true");
    let mut waits = m.command(["job", "taskmap", &held]);
    let waits = spawn(waits.stdout(Stdio::piped()));
    m.jobtap(&format!("job urgency {held} default")).ok();
    let printed = waits.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&printed.stdout), "[[0,1,1,1]]\n");
    let held = m.submit("--urgency=hold true");
    m.jobtap(&format!("cancel {held}")).ok();
    fails(&held, "No taskmap found for job");
    // A map is kept as it was given.
    let given = "[[0,1,1,1],[0,1,1,1],[1,1,2,1]]";
    let id = m.submit_args(&["-N2", "-n4", &format!("--taskmap=manual:{given}"), "true"]);
    assert_eq!(map(&id).ok(), given);
}

#[test]
fn tools_find_the_tasks_of_a_running_job() {
    let directory = temporary();
    let hosts = ["--test-size=2".as_ref(), "--test-hosts=n[0-1]".as_ref()];
    let m = Manager::start_in(jobtap(), &directory.path().join("state"), &hosts);
    let own = directory.path().join("pid");
    let script = format!("echo $$ >{0}.$FLUX_TASK_RANK; exec sleep 600", own.display());
    let id = m.submit_args(&["-N2", "-n3", "sh", "-c", &script]);
    m.wait(&id, "start");
    let pid = |rank: u32| {
        let file = PathBuf::from(format!("{}.{rank}", own.display()));
        until("the task has told who it is", || {
            std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
        });
        std::fs::read_to_string(&file).unwrap().trim().to_owned()
    };
    let (first, second, third) = (pid(0), pid(1), pid(2));
    let ask = |words: &str| m.jobtap(&format!("job hostpids {words} {id}"));
    assert_eq!(ask("").ok(), format!("n0:{first},n0:{second},n1:{third}"));
    assert_eq!(ask("-d ; -r 1-2 -t 5s").ok(), format!("n0:{second};n1:{third}"));
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    let fails = |words: &str, text: &str| {
        let output = m.jobtap(&format!("job hostpids {words}"));
        assert_eq!((output.code, output.stderr), (1, format!("jobtap-job: {text}\n")));
    };
    fails(&id, &format!("hostpids: job {id} is inactive"));
    fails("9999999999", "9999999999: No such job");
    let held = m.submit("--urgency=hold true");
    fails(&format!("-t 0.1s {held}"), "hostpids: timeout waiting for shell.start event");
}

#[test]
fn jobs_do_not_inherit_ignored_signals() {
    // `nohup`, or a shell that starts a command in the background, leaves signals ignored.
    let start = "trap '' HUP INT QUIT; exec \"$0\" start \"$@\"";
    for signal in ["HUP", "INT", "QUIT"] {
        let job = format!("kill -{signal} $$; echo it is ignored");
        let mut command = clean(Path::new("sh"));
        command.args(["-c", start]).arg(jobtap());
        let output = run(command.arg(jobtap()).args(["run", "sh", "-c", &job]));
        assert!(!output.stdout.contains("ignored"), "{signal}: {output:?}");
        assert_ne!(output.code, 0, "{signal}");
    }
}
