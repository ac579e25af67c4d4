//! Flux's smaller commands print what Flux prints: about the manager, its address, resource sets, lists of hosts,
//! modules and trees of jobs.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use jobtap_tests::{Manager, clean, jobtap, run, send, spawn, temporary, until};

/// A manager with three hosts.
fn with_hosts(statedir: &Path) -> Manager {
    let hosts = ["--test-size=3".as_ref(), "--test-hosts=n[0-2]".as_ref()];
    Manager::start_in(jobtap(), statedir, &hosts)
}

#[test]
fn attributes_are_read_added_and_protected() {
    let directory = temporary();
    let config = format!("--config-path={}", directory.path().display());
    let options = ["-s3", "--test-hosts=n[0-2]", "-Stest.site=here", &config];
    let options = options.map(str::as_ref);
    let m = Manager::start_in(jobtap(), &directory.path().join("state"), &options);
    let get = |name: &str| m.jobtap(&format!("getattr {name}"));
    assert_eq!(get("size").ok(), "3");
    assert_eq!(get("test.site").ok(), "here");
    assert_eq!(get("config.path").ok(), directory.path().display().to_string());
    assert_eq!(get("hostlist").ok(), "n[0-2]");
    assert_eq!(get("rank").ok(), "0");
    assert_eq!(get("instance-level").ok(), "0");
    assert_eq!(get("broker.pid").ok(), m.pid().to_string());
    assert_eq!(get("statedir").ok(), m.statedir.display().to_string());
    assert_eq!(get("log-stderr-level").ok(), "4");
    get("nosuch").says(1, "jobtap-getattr: nosuch: No such file or directory");
    // A plugin's process for one rank gets that rank, and a task gets the rank of its node.
    let mut command = m.command(["getattr", "rank"]);
    assert_eq!(run(command.env("JOBTAP_RANK", "2")).ok(), "2");
    let exe = jobtap().display().to_string();
    let ranks =
        m.jobtap_args(&["run", "-N2", "-n4", "-l", "--requires=rank:1-2", &exe, "getattr", "rank"]);
    let mut ranks: Vec<String> = ranks.ok().lines().map(str::to_owned).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, ["0: 1", "1: 1", "2: 2", "3: 2"]);
    // In an instance that a task starts, it is the rank within that instance.
    let inner = format!("{exe} start {exe} getattr rank");
    let words = ["run", "-N1", "--requires=rank:2", "sh", "-c", &inner];
    assert_eq!(m.jobtap_args(&words).ok(), "0");
    m.jobtap("setattr test.color red").ok();
    let text = "jobtap-setattr: size: attribute may not be updated";
    m.jobtap("setattr size 4").says(1, text);
    m.jobtap("setattr color red").says(1, "jobtap-setattr: color: unknown attribute");
    let text = "jobtap-setattr: log-stderr-level: use a number from 0 to 7";
    m.jobtap("setattr log-stderr-level 8").says(1, text);
    let refused = "jobtap-setattr: test.color: Request requires owner credentials";
    m.as_guest("setattr test.color blue").says(1, refused);
    // Attributes survive a restart within the process.
    m.jobtap("module reload job-manager").ok();
    let listed = m.jobtap("lsattr -v").ok();
    assert!(listed.contains(&format!("{:<40}red\n", "test.color")), "{listed}");
    let names = m.jobtap("lsattr").ok();
    assert!(names.lines().is_sorted() && names.contains("\nlocal-uri\n"), "{names}");
}

#[test]
fn a_command_is_run_for_each_node_and_recorded() {
    let directory = temporary();
    let m = with_hosts(&directory.path().join("state"));
    let script = format!("echo $HOSTNAME $JOBTAP_RANK $({} getattr rank)", jobtap().display());
    let lines = |command: &mut std::process::Command| {
        let printed = run(command).ok();
        let mut lines: Vec<_> = printed.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let words = ["exec", "-l", "--", "sh", "-c", &script];
    let each = lines(&mut m.command(words));
    assert_eq!(each, ["0: n0 0 0", "1: n1 1 1", "2: n2 2 2"]);
    let audit = m.jobtap("audit").ok();
    assert!(audit.contains("ranks=\"0-2\" command=\"sh -c echo"), "{audit}");
    let refused = [0, 1].map(|rank| {
        format!("jobtap-exec: Error: rank {rank}: id: Request requires owner credentials")
    });
    m.as_guest("exec -r 0-1 id").says(126, &refused.join("\n"));
    // The number of commands at once is bounded by the number of files that `exec` may open.
    let mut sh = clean(Path::new("/bin/sh"));
    sh.env("JOBTAP_URI", m.uri()).args(["-c", "ulimit -n 40; exec \"$0\" exec true"]).arg(jobtap());
    let text = "jobtap-exec: 3 commands at once need more open files than the limit of 40: raise it with \
                `ulimit -n`, or choose fewer with --rank";
    run(&mut sh).says(1, text);
}

#[test]
fn commands_of_nodes_get_the_signals_of_exec() {
    let directory = temporary();
    let m = with_hosts(&directory.path().join("state"));
    for (signal, code, how) in [("INT", 5, "Exit 5"), ("TERM", 143, "Terminated")] {
        let up = directory.path().join(signal);
        std::fs::create_dir(&up).unwrap();
        let script = format!(
            "trap 'exit 5' INT; : > {}/$JOBTAP_RANK; while :; do sleep 0.1; done",
            up.display()
        );
        let mut command = m.command(["exec", "-r", "0,2", "sh", "-c", &script]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("both run", || std::fs::read_dir(&up).unwrap().count() == 2);
        send(signal, child.id());
        let ended = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), &*told), (Some(code), &*format!("[0,2]: {how}\n")));
    }
}

#[test]
fn an_attribute_that_flux_does_not_know_is_refused_at_the_start() {
    let start = |attribute: &str| {
        run(clean(jobtap()).args(["start", "-s1", "--setattr", attribute, "true"]))
    };
    start("colour=red").says(1, "jobtap-start: colour: unknown attribute");
    let text = "jobtap-start: rank: attribute may not be set on the command line";
    start("rank=1").says(1, text);
    let tuned = start("tbon.fanout=2");
    assert_eq!(tuned.code, 0);
    assert!(tuned.stderr.contains("tbon.fanout is not supported and ignored"), "{tuned:?}");
}

#[test]
fn a_job_that_is_named_twice_gets_both_requests_and_an_error() {
    let m = Manager::start(jobtap());
    let job = m.submit_args(&["sleep", "600"]);
    m.wait(&job, "start");
    let twice = m.jobtap(&format!("job raise -s7 -t noted {job} {job} 1"));
    twice.says(1, "jobtap-job: flux_job_raise: File exists");
    let log = m.jobtap(&format!("job eventlog {job}")).ok();
    assert_eq!(log.matches("type=\"noted\"").count(), 2, "{log}");
    // No signal is sent if one of the words is not an id.
    m.jobtap(&format!("job kill -s KILL {job} nosuch"))
        .says(1, "jobtap-job: invalid jobid: nosuch");
    m.jobtap("queue idle --timeout=0").says(1, "jobtap-queue: ERROR: idle: timeout");
    assert_eq!(m.jobtap(&format!("jobs -no {{state}} {job}")).ok(), "RUN");
    m.jobtap(&format!("cancel {job}")).ok();
    m.wait(&job, "clean");
    m.jobtap("queue idle --timeout=0").says(1, "jobtap-queue: ERROR: idle: timeout");
}

#[test]
fn version_and_env_work_with_and_without_a_manager() {
    let m = Manager::start(jobtap());
    let version = m.jobtap("version").ok();
    let number = m.jobtap("getattr version").ok();
    let wanted = format!("commands:    \t\t{number}\nlibjobtap-core:\t\t");
    assert!(version.starts_with(&wanted), "{version}");
    let uri = m.jobtap("getattr local-uri").ok();
    let wanted = format!("\nbroker:  \t\t{number}\nFLUX_URI:\t\t{uri}");
    assert!(version.ends_with(&wanted), "{version}");
    let alone = run(clean(jobtap()).arg("version")).ok();
    assert!(alone.starts_with("commands:") && !alone.contains("broker"), "{alone}");

    let env = m.jobtap("env").ok();
    assert!(env.contains(&format!("export FLUX_URI=\"{uri}\"")), "{env}");
    let command = m.jobtap_args(&["env", "sh", "-c", "jobtap getattr size; exit 3"]);
    assert_eq!((command.code, command.stdout.as_str()), (3, "1\n"));
    m.jobtap("env /no/such").says(127, "jobtap-env: /no/such: No such file or directory");
}

#[test]
fn shutdown_ends_the_manager_after_its_archive_is_written() {
    let directory = temporary();
    let archive = directory.path().join("end.tar");
    let mut m = Manager::start(jobtap());
    m.as_guest("shutdown").says(1, "jobtap-shutdown: Request requires owner credentials");
    let text =
        "jobtap-shutdown: --dump=auto: the store needs no garbage collection: name an archive";
    m.jobtap("shutdown --dump=auto").says(1, text);
    let pid = m.pid();
    m.jobtap(&format!("shutdown --quiet --dump={}", archive.display())).ok();
    assert!(archive.exists());
    assert!(!Path::new(&format!("/proc/{pid}/exe")).exists(), "the manager has exited");
    assert!(m.end().success());
}

#[test]
fn shutdown_hangs_up_the_initial_program() {
    let mut start = clean(jobtap());
    start.args(["start", "sh", "-c", "jobtap shutdown --background; sleep 600"]);
    assert_eq!(run(&mut start).code, 129);
}

#[test]
fn uri_finds_managers_by_job_by_process_and_by_level() {
    let m = Manager::start(jobtap());
    let own = m.jobtap("getattr local-uri").ok();
    assert_eq!(m.jobtap("uri /").ok(), own);
    assert_eq!(m.jobtap("uri ..").ok(), own);
    assert_eq!(m.jobtap(&format!("uri {own}")).ok(), own);
    let inner = m.submit_args(&["-n1", jobtap().to_str().unwrap(), "start", "sleep", "600"]);
    let uri = m.jobtap(&format!("uri --wait {inner}")).ok();
    assert_eq!(uri, m.field(&inner, "user.uri"));
    let inside =
        |words: &str| run(clean(jobtap()).env("JOBTAP_URI", &uri).args(words.split_whitespace()));
    assert_eq!(inside("getattr instance-level").ok(), "1");
    assert_eq!(inside("getattr jobid").ok(), inner);
    assert_eq!(inside("uri ..").ok(), own);
    assert_eq!(inside("uri /").ok(), own);
    assert_eq!(inside(&format!("uri /{inner}/../{inner}")).ok(), uri);
    assert!(inside("uptime").ok().contains(",  depth 1,  "));
    let pid = inside("getattr broker.pid").ok();
    assert_eq!(m.jobtap(&format!("uri pid:{pid}")).ok(), uri);
    let held = m.submit("--urgency=hold true");
    let fails = |words: &str, text: &str| {
        m.jobtap(&format!("uri {words}")).says(1, &format!("jobtap-uri: ERROR: {text}"));
    };
    fails(&held, &format!("jobid {held} is not running"));
    fails("9999", "jobid 9999 not found");
    fails("x!", "x! is not a valid Flux jobid");
    fails("slurm:1", "No plugin for URI scheme slurm: use jobid, pid or local");
    fails("pid:x", "x is not a process id");
    let text = "--remote: a manager is reached only on its own host, by its local:// address";
    fails(&format!("--remote {inner}"), text);
    // The tree shows the inner manager with its jobs.
    inside("submit --job-name=deep sleep 600").ok();
    until("the inner job runs", || m.jobtap("pstree").ok() == ".\n└── jobtap\n    └── deep");
    m.jobtap(&format!("shutdown {inner}")).ok();
    m.wait(&inner, "clean");
}

#[test]
fn pstree_combines_jobs_and_shows_details() {
    let m = Manager::start(jobtap());
    let ids: Vec<String> = (0..2).map(|_| m.submit("--job-name=twin sleep 600")).collect();
    let done = m.submit("--job-name=done true");
    m.wait(&done, "clean");
    ids.iter().for_each(|id| m.wait(id, "start"));
    assert_eq!(m.jobtap("pstree").ok(), ".\n└── 2*[twin]");
    assert_eq!(m.jobtap("pstree --ascii -X").ok(), ".\n|-- twin\n`-- twin");
    let all = m.jobtap("pstree -a --skip-root=no").ok();
    assert!(all.contains("── 2*[twin:R]") && all.contains("── done:CD"), "{all}");
    let details = m.jobtap(&format!("pstree -x {}", ids[0])).ok();
    let lines: Vec<&str> = details.lines().collect();
    assert_eq!(lines.len(), 2, "{details}");
    assert!(lines[0].trim_start().starts_with("JOBID USER"), "{details}");
    assert!(lines[1].contains(&ids[0]) && lines[1].ends_with(" twin"), "{details}");
    assert_eq!(m.jobtap("pstree -n -d progress").ok().lines().count(), 2);
    let text = "jobtap-pstree: ERROR: Unknown format field: nosuch";
    m.jobtap("pstree -o {nosuch}").says(1, text);
}

#[test]
fn hostlist_knows_the_hosts_of_the_manager_and_of_jobs() {
    let directory = temporary();
    let m = with_hosts(&directory.path().join("state"));
    let job = m.submit("-N2 sleep 600");
    m.wait(&job, "alloc");
    let hosts = |words: &str| m.jobtap(&format!("hostlist {words}"));
    assert_eq!(hosts("instance").ok(), "n[0-2]");
    assert_eq!(hosts("-l").ok(), "n[0-2]");
    assert_eq!(hosts(&job).ok(), m.field(&job, "nodelist"));
    assert_eq!(hosts(&format!("-c --minus instance {job}")).ok(), "1");
    m.jobtap("resource drain 1 broken").ok();
    assert_eq!(hosts("avail").ok(), "n[0,2]");
    assert_eq!(hosts("-q -i n0 n1").code, 1);
    hosts("f99").says(1, "jobtap-hostlist: ERROR: job f99 not found");
    assert_eq!(hosts("--fallback f1 f2").ok(), "f[1-2]");
    let mut command = clean(jobtap());
    let mut sorted = command.args(["hostlist", "-u"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = sorted.spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"b2\na1,b1\n").unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a1,b[1-2]\n");
    sorted = command.stdin(Stdio::null());
    assert_eq!(run(sorted).code, 0);
}

#[test]
fn r_reads_the_resources_of_the_manager() {
    let directory = temporary();
    let m = with_hosts(&directory.path().join("state"));
    let script = "jobtap resource R | jobtap R decode --nodelist --ranks; \
                  jobtap R encode -r 0-1 -H a,b | jobtap R set-property x:1 | jobtap R decode -rp x; \
                  echo 1 | jobtap R decode";
    let output = m.jobtap_args(&["env", "sh", "-c", script]);
    assert_eq!(output.stdout, "n[0-2]\n0-2\n1\n");
    assert!(output.stderr.starts_with("jobtap-R: R object 1 on stdin: "), "{output:?}");
    assert_eq!(output.code, 1);
}

#[test]
fn plugins_are_loaded_and_removed_as_modules() {
    let m = Manager::start(jobtap());
    let has = |name: &str| {
        let listed = m.jobtap("module list").ok();
        listed.lines().any(|line| line.split_whitespace().next() == Some(name))
    };
    assert!(has("job-manager") && has("sched-simple") && has(".priority-default"));
    assert!(!has("submit-hold"));
    m.jobtap("module load submit-hold").ok();
    assert!(has("submit-hold"));
    m.jobtap("module reload submit-hold").ok();
    m.jobtap("module remove submit-hold").ok();
    assert!(!has("submit-hold"));
    m.jobtap("module unload -f submit-hold").ok();
    m.jobtap("module reload -f submit-hold").ok();
    assert!(has("submit-hold"));
    let says = |words: &str, text: &str| {
        m.jobtap(&format!("module {words}")).says(1, &format!("jobtap-module: {text}"));
    };
    says("load kvs", "load kvs: it is a part of the manager and is always loaded");
    says("remove kvs", "remove kvs: it is a part of the manager, which can't run without it");
    says("remove nosuch", "remove nosuch: nosuch not found");
    says("load submit-hol", "load submit-hol: submit-hol not found; did you mean \"submit-hold\"?");
    says(
        "reload kvs a=1",
        "reload kvs: parts of the manager have no arguments: use the configuration",
    );
    assert!(m.jobtap("module list -l").ok().contains(" jobtap-builtins "));
}

#[test]
fn a_watched_key_prints_each_new_value() {
    let m = Manager::start(jobtap());
    let job = m.submit("--urgency=hold true");
    m.wait(&job, "priority");
    let key = format!("{}.eventlog", m.jobtap(&format!("job id --to=kvs {job}")).ok());
    let mut command = m.command(["kvs", "get", "--watch", "--append", "--count=2", &key]);
    let mut watch = spawn(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    while !next().contains(r#""name":"priority""#) {}
    m.jobtap(&format!("job memo {job} a=1")).ok();
    // As in Flux, each value is followed by a newline, even if it ends with one.
    assert_eq!(next(), "");
    assert!(next().contains(r#""name":"memo""#));
    assert!(watch.wait().unwrap().success());

    let key = key.replace("eventlog", "R");
    let mut created = spawn(m.command(["kvs", "get", "--waitcreate", &key]).stdout(Stdio::piped()));
    m.jobtap(&format!("job urgency {job} default")).ok();
    m.wait(&job, "alloc");
    assert!(created.wait().unwrap().success());
    let missing = format!("jobtap-kvs: {key}x: No such file or directory");
    m.jobtap(&format!("kvs get --watch {key}x")).says(1, &missing);
    let text = "jobtap-kvs: --watch and --waitcreate are for one key only";
    m.jobtap("kvs get --watch a b").says(1, text);
    let refused = m.as_guest("kvs get --watch checkpoint.job-manager");
    assert!(refused.code == 1 && refused.stderr.contains("owner"), "{refused:?}");
}

#[test]
fn a_progress_bar_needs_a_terminal() {
    let m = Manager::start(jobtap());
    let text = "WARNING: stdout is not a tty. Ignoring --progress option";
    let plain = m.jobtap("submit --progress --jps --wait --quiet true");
    plain.says(0, &format!("jobtap-submit: {text}"));
    m.jobtap("watch --progress -a").says(0, "jobtap-watch: INFO: No matching jobs");
    // script(1) gives the command a terminal.
    let command = format!(
        "stty rows 24 cols 60; {} bulksubmit --progress --wait --quiet {{}} ::: true false",
        jobtap().display()
    );
    let output =
        run(m.command(["env", "script", "-qec"]).arg(&command).arg("/dev/null").env("LC_ALL", "C"));
    if output.code == 127 {
        return;
    }
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stdout.contains("PD:0   R:0   CD:1   F:1   |"), "{output:?}");
    assert!(output.stdout.contains("| 100.0% 0:00:0"), "{output:?}");
}

#[test]
fn plugins_of_the_command_line_are_listed() {
    let listed = run(clean(jobtap()).args(["submit", "--list-plugins"])).ok();
    assert!(listed.starts_with("Options provided by plugins:\n  none"), "{listed}");
}

#[test]
fn emoji_are_job_ids() {
    let m = Manager::start(jobtap());
    let id = m.submit("--urgency=hold true");
    let emoji = m.jobtap(&format!("job id --to=emoji {id}")).ok();
    assert_eq!(m.field(&emoji, "id.emoji"), emoji);
    assert_eq!(m.jobtap(&format!("job id --to=f58plain {emoji}")).ok(), id);
    m.jobtap("job id 😀").says(1, "jobtap-job: 😀: malformed input");
}
