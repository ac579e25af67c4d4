//! The launch of jobs: events, environment, exit statuses, jobs that can't be started.

use super::*;

#[test]
fn a_job_runs_from_start_to_release() {
    let site = Site::new();
    let manager = site.manager();
    let events = manager.run(site.job(1, 2, "echo task $FLUX_TASK_RANK; echo err >&2"));
    let expected = "init starting START shell.init shell.start shell.task-exit shell-exit \
                    complete|FINISH 0|done RELEASE";
    assert_eq!(events.join(" "), expected.replace('|', " "));
    for rank in 0..2 {
        assert_eq!(site.output(1, "stdout", rank), format!("task {rank}\n"));
        assert_eq!(site.output(1, "stderr", rank), "err\n");
    }
    let log = site.log(1);
    assert_eq!(log[0]["name"], "header");
    assert_eq!(log[0]["context"]["count"], json!({"stdout": 2, "stderr": 2}));
    assert_eq!(log.iter().filter(|entry| entry["context"]["eof"] == true).count(), 4);
    manager.end();
}

#[test]
fn log_entries_have_the_contexts_of_rfc_50() {
    let site = Site::new();
    let manager = site.manager();
    manager.executor.start(site.job(1, 3, "exit 2"));
    let mut entries = Vec::new();
    loop {
        match manager.next() {
            ExecEvent::Log { entry, .. } => entries.push(entry),
            ExecEvent::Released { .. } => break,
            _ => {}
        }
    }
    let context = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        assert!(entry.timestamp.as_secs() > 0.0);
        entry.context.clone().map_or(Value::Null, Value::from)
    };
    assert_eq!(context("init"), Value::Null);
    let service = format!("{}-shell-ƒ2", rustix::process::geteuid().as_raw());
    assert_eq!(context("shell.init"), json!({"service": service, "leader-rank": 0, "size": 1}));
    let taskmap = json!({"version": 1, "map": [[0, 1, 3, 1]]});
    assert_eq!(context("shell.start"), json!({"taskmap": taskmap}));
    let exit = context("shell.task-exit");
    assert!(exit["pid"].as_i64().unwrap() > 0);
    assert_eq!((&exit["state"], &exit["exitcode"]), (&json!("Exited"), &json!(2)));
    assert_eq!((&exit["wait_status"], &exit["signaled"]), (&json!(512), &json!(0)));
    assert_eq!(context("shell-exit"), json!({"rank": 0, "wait_status": 512}));
    assert_eq!(context("complete"), json!({"status": 512}));
    manager.ack(1);
    manager.end();
}

#[test]
fn tasks_have_the_environment_of_the_job_and_their_own() {
    let site = Site::new();
    let manager = site.manager();
    let mut job = site.job(2, 1, "env");
    job.env.push(("FLUX_F58_FORCE_ASCII".to_owned(), "1".to_owned()));
    job.env.push(("FLUX_TASK_RANK".to_owned(), "inherited".to_owned()));
    job.env.push(("MINE".to_owned(), "a b".to_owned()));
    manager.run(job);
    let output = site.output(2, "stdout", 0);
    let mut names: Vec<&str> =
        output.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    // The shell adds PWD, and some shells add more.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    let expected = "FLUX_F58_FORCE_ASCII FLUX_JOB_ID FLUX_JOB_NNODES FLUX_JOB_SIZE FLUX_JOB_TMPDIR \
                    FLUX_PMI_LIBRARY_PATH FLUX_TASK_LOCAL_ID FLUX_TASK_RANK JOBTAP_JOB_ID \
                    JOBTAP_JOB_NNODES JOBTAP_JOB_SIZE JOBTAP_JOB_TMPDIR JOBTAP_JOB_TOKEN \
                    JOBTAP_RANK JOBTAP_TASK_LOCAL_ID JOBTAP_TASK_RANK MINE \
                    OMPI_MCA_btl_vader_backing_directory PATH PMI_FD PMI_RANK PMI_SIZE";
    assert_eq!(names.join(" "), expected);
    for line in ["MINE=a b", "FLUX_JOB_ID=f3", "FLUX_TASK_RANK=0", "JOBTAP_JOB_SIZE=1"] {
        assert!(output.lines().any(|found| found == line), "{line} in {output}");
    }
    manager.end();
}

#[test]
fn the_status_of_a_job_is_the_highest_of_its_tasks() {
    let site = Site::new();
    let manager = site.manager();
    let cases = [
        ("exit 3", 3 << 8),
        ("exit $FLUX_TASK_RANK", 1 << 8),
        ("test $FLUX_TASK_RANK = 0 || kill -9 $$", 137 << 8),
    ];
    for (id, (script, expected)) in (1..).zip(cases) {
        assert_eq!(manager.status(site.job(id, 2, script)), expected, "{script}");
    }
    manager.end();
}

#[test]
fn a_command_that_cannot_be_run_fails_as_in_a_shell() {
    let site = Site::new();
    let manager = site.manager();
    fs::write(site.path("data"), "text").unwrap();
    let cases = [
        (1, "nosuch", 127, "nosuch: No such file or directory"),
        (2, "./data", 126, "./data: Permission denied"),
        (3, "./state", 126, "./state: Permission denied"),
    ];
    for (id, command, code, message) in cases {
        let job = StartJob { command: vec![command.to_owned()], ..site.job(id, 2, "") };
        let events = manager.run(job);
        assert_eq!(events[..4], ["init", "starting", "START", "shell.init"]);
        let note = format!("start failed: {message}");
        assert!(events[4].starts_with("EXCEPTION 0 task 0 (host "), "{events:?}");
        assert!(events[4].ends_with(&note), "{events:?}");
        assert!(events.contains(&format!("FINISH {}", code << 8)), "{events:?}");
        // The output contains the note, too.
        let log = site.log(id);
        let said = &log.iter().find(|entry| entry["name"] == "log").unwrap()["context"];
        assert_eq!(said["level"], 0);
        assert!(said["message"].as_str().unwrap().ends_with(&note), "{said}");
    }
    manager.end();
}

#[test]
fn tasks_run_in_the_working_directory_of_the_job() {
    let site = Site::new();
    let manager = site.manager();
    let directory = site.dir.path().canonicalize().unwrap();
    assert_eq!(manager.status(site.job(1, 1, "pwd -P")), 0);
    assert_eq!(site.output(1, "stdout", 0), format!("{}\n", directory.display()));
    manager.end();
}

#[test]
fn a_script_without_interpreter_is_run_by_the_shell() {
    let site = Site::new();
    let manager = site.manager();
    fs::write(site.path("script"), "echo $0 $1\n").unwrap();
    let path = site.path("script").into_os_string().into_string().unwrap();
    assert!(Command::new("chmod").args(["+x", &path]).status().unwrap().success());
    let command = vec![path.clone(), "one".to_owned()];
    assert_eq!(manager.status(StartJob { command, ..site.job(1, 1, "") }), 0);
    assert_eq!(site.output(1, "stdout", 0), format!("{path} one\n"));
    manager.end();
}

#[test]
fn a_job_whose_working_directory_is_missing_runs_in_another_one() {
    let site = Site::new();
    let manager = site.manager();
    let job = StartJob { cwd: "/nosuch".into(), ..site.job(1, 1, "pwd; exit 3") };
    assert_eq!(manager.status(job), 3 << 8);
    assert_eq!(site.output(1, "stdout", 0), "/tmp\n");
    let log = site.log(1);
    let told = log.iter().find(|entry| entry["name"] == "log").map(|entry| &entry["context"]);
    let told = told.map(|context| (context["level"].as_i64(), context["message"].as_str()));
    let Some((Some(3), Some(message))) = told else { panic!("{log:?}") };
    let said = "Could not change dir to /nosuch: No such file or directory. Going to /tmp instead";
    assert!(message.starts_with("host ") && message.ends_with(said), "{message}");
    manager.end();
}

#[test]
fn the_host_and_its_directory_for_temporary_files_are_those_of_the_job() {
    let site = Site::new();
    let manager = site.manager();
    let run = |id, tmpdir: &str| {
        let mut job = site.job(id, 1, "echo $HOSTNAME $TMPDIR");
        job.env.push(("HOSTNAME".to_owned(), "login".to_owned()));
        job.env.push(("TMPDIR".to_owned(), tmpdir.to_owned()));
        assert_eq!(manager.status(job), 0);
        let warned = site.log(id).iter().any(|entry| entry["context"]["component"] == "tmpdir");
        (site.output(id, "stdout", 0).trim().to_owned(), warned)
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let new = site.path("new").display().to_string();
    assert_eq!(run(1, &new), (format!("{host} {new}"), false));
    assert!(Path::new(&new).is_dir(), "it is made");
    assert_eq!(run(2, "/nosuch/directory"), (format!("{host} /tmp"), true));
    manager.end();
}

#[test]
fn a_file_that_depends_on_the_process_is_opened_by_the_task() {
    let site = Site::new();
    let manager = site.manager();
    let input = json!({"input": {"stdin": {"type": "file", "path": "/proc/self/cmdline"}}});
    let job =
        StartJob { shell_options: input, command: vec!["cat".to_owned()], ..site.job(1, 1, "") };
    assert_eq!(manager.status(job), 0);
    assert_eq!(site.output(1, "stdout", 0), "cat\0");
    let output = json!({"output": {"stdout": {"path": "/proc/self/comm"}}});
    let script = "printf named; cat /proc/$$/comm >named";
    assert_eq!(manager.status(StartJob { shell_options: output, ..site.job(2, 1, script) }), 0);
    assert_eq!(site.text("named"), "named\n");
    // The shepherd would write to its own file.
    let labeled = json!({"output": {"stdout": {"path": "/proc/self/comm", "label": true}}});
    let events = manager.run(StartJob { shell_options: labeled, ..site.job(3, 1, "echo x") });
    let lost = "EXCEPTION 2 task 0: stdout lost: permission denied";
    assert!(events.iter().any(|event| event.to_lowercase() == lost.to_lowercase()), "{events:?}");
    manager.end();
}

#[test]
fn a_missing_file_is_named() {
    let site = Site::new();
    let manager = site.manager();
    let job = |id| site.job(id, 1, "true");
    let options = json!({"output": {"stdout": {"path": "nosuch/o"}}});
    let cases = [
        (StartJob { userid: 4_000_000, ..job(2) }, "cannot run a job of user 4000000"),
        (StartJob { shell_options: options, ..job(3) }, "cannot open output file "),
    ];
    for (job, note) in cases {
        let events = manager.run(job);
        assert!(events[2].starts_with(&format!("EXCEPTION 0 {note}")), "{events:?}");
        assert_eq!(events[3..], ["done", "RELEASE"]);
    }
    manager.end();
}

#[test]
fn tasks_have_the_limits_of_the_job() {
    let site = Site::new();
    let manager = site.manager();
    let script = "echo $(ulimit -n) $(ulimit -Hn) $(ulimit -f)";
    let limits = |limits: Value| StartJob {
        shell_options: json!({"rlimit": limits}),
        ..site.job(1, 2, script)
    };
    let run = |id, limits| {
        assert_eq!(manager.status(StartJob { id: JobId::new(id), ..limits }), 0);
        let output = [0, 1].map(|rank| site.output(id, "stdout", rank));
        assert_eq!(output[0], output[1]);
        output[0].trim().split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let before = run(1, limits(json!({})));
    let hard = &*before[1];
    // `ulimit -f` counts in blocks of 512 bytes.
    let lower = run(2, limits(json!({"nofile": 77, "fsize": 5120})));
    assert_eq!(lower, ["77", hard, "10"]);
    assert_eq!(run(3, limits(json!({"nofile": -1}))), [hard, hard, &*before[2]]);
    // The shepherd's own limits are as they were.
    assert_eq!(run(4, limits(json!({}))), before);
    let warnings = |id| site.log(id).into_iter().filter(|entry| entry["name"] == "log").count();
    assert_eq!([1, 2, 3, 4].map(warnings), [0, 0, usize::from(hard != "unlimited"), 0]);

    // A limit holds from the program's first action: this one may have no file open but the standard
    // streams, so it can't even load its libraries.
    let job = StartJob { command: vec!["/bin/ls".to_owned()], ..limits(json!({"nofile": 3})) };
    assert_eq!(manager.status(StartJob { id: JobId::new(5), ..job }), 127 << 8);
    let events = manager.run(StartJob { id: JobId::new(6), ..limits(json!({"nosuch": 1})) });
    assert_eq!(events[2], "EXCEPTION 0 rlimit.nosuch: no such resource limit");
    manager.end();
}

#[test]
fn a_warning_about_limits_is_in_the_file_for_standard_error() {
    let site = Site::new();
    let manager = site.manager();
    let options = json!({"rlimit": {"nofile": 1_u64 << 40}, "output": {"stderr": {"path": "e"}}});
    let job = StartJob { shell_options: options, ..site.job(1, 1, "echo own >&2") };
    assert_eq!(manager.status(job), 0);
    let text = fs::read_to_string(site.path("e")).unwrap();
    let warning = "rlimit: nofile exceeds the hard limit, which is set instead";
    assert_eq!(text, format!("jobtap-shell[0]:  WARN: {warning}\nown\n"));
    manager.end();
}

#[test]
fn tags_are_expanded_in_names_of_files() {
    let site = Site::new();
    let manager = site.manager();
    let script = "echo {{taskid}} $WHERE; cat {{tmpdir}}/f; test -d $FLUX_JOB_TMPDIR && echo there";
    let mut job = site.job(1, 2, script);
    job.shell_options = json!({"env-expand": {"WHERE": "{{size}} tasks"}});
    job.files = json!({"f": {"mode": 0o100600, "encoding": "utf-8", "data": "text\n"}});
    assert_eq!(manager.status(job), 0);
    assert_eq!(site.output(1, "stdout", 1), "1 2 tasks\ntext\nthere\n");
    // The directory is moved aside at once; its content, which may be large, is removed in the background.
    let all = site.path("state").join("tmp");
    assert!(!all.join("0000.0000.0000.0001").exists());
    let left = || fs::read_dir(all.join("removing")).unwrap().count();
    wait_for("what was in the job's directory is removed", || left() == 0);
    manager.end();
}

#[test]
fn a_program_that_is_not_executed_delays_no_other_job() {
    let site = Site { kill: IMPATIENT, ..Site::new() };
    let manager = site.manager();
    // The system executes no file that a process has leased for writing, until the lease is broken (45 s).
    fs::write(site.path("program"), "#!/bin/sh\n").unwrap();
    let program = site.path("program").into_os_string().into_string().unwrap();
    assert!(Command::new("chmod").args(["+x", &program]).status().unwrap().success());
    let Some(_holder) = leased(&program) else { return };
    for (id, end) in [(1, Signal::TERM), (3, Signal::KILL)] {
        let shell_options = json!({"rlimit": {"nofile": 99}});
        let command = vec![program.clone()];
        manager.executor.start(StartJob { command, shell_options, ..site.job(id, 2, "") });
        assert_eq!(manager.status(site.job(id + 1, 1, "true")), 0, "another job runs");
        manager.cancel(id, end);
        let events = manager.to_end(id);
        let note = "EXCEPTION 0 canceled before all of its tasks were started";
        assert!(events.contains(&note.to_owned()), "{events:?}");
        manager.ack(id);
    }
    manager.end();
}

/// A process that has leased a file; `None` if this host has no Perl.
fn leased(file: &str) -> Option<Killed> {
    let script = "$SIG{IO} = 'IGNORE'; open(F, '<', $ARGV[0]) or die; fcntl(F, 1024, 1) or die $!; \
                  $| = 1; print 'leased'; sleep 600";
    let mut perl = Command::new("perl");
    perl.args(["-e", script, file]).stdout(std::process::Stdio::piped());
    let mut holder = perl.spawn().ok()?;
    let killed = Killed(pid(&holder.id().to_string()));
    let mut said = [0; 6];
    std::io::Read::read_exact(&mut holder.stdout.take().unwrap(), &mut said).unwrap();
    Some(killed)
}
