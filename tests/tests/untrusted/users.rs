//! A manager that root runs starts each job as its submitter, whatever the job and its user attempt.
//!
//! Two users of the system submit jobs. They are in no file of this host: the manager looks them up with getent(1), as
//! in a site's name service.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use jobtap_tests::leftovers::parent;
use jobtap_tests::{Manager, Output, clean, jobtap, run, spawn, temporary, until};
use tempfile::TempDir;

/// Users of this test, who have groups of their own with the same numbers.
const ADA: u32 = 61_001;
const EVE: u32 = 61_002;
/// A user for whom the name service is slow.
const SLOW: u32 = 61_003;
/// A user that every system has.
const NOBODY: u32 = 65_534;

/// A script in place of getent(1).
const GETENT: &str = "#!/bin/sh
case \"$*\" in
'passwd -- 61001' | 'passwd -- ada') echo 'ada:x:61001:61001::/:/bin/sh' ;;
'passwd -- 61002' | 'passwd -- eve') echo 'eve:x:61002:61002::/:/bin/sh' ;;
'initgroups -- ada') echo 'ada 61009' ;;
'initgroups -- eve') echo 'eve' ;;
'group -- ops') echo 'ops:x:61009:ada' ;;
'passwd -- 61003') sleep 4; echo 'slow:x:61003:61003::/:/bin/sh' ;;
'initgroups -- slow') echo 'slow' ;;
*) exec /usr/bin/getent \"$@\" ;;
esac
";

/// Whether this test can act as other users. Prints that it is skipped if not.
#[allow(clippy::print_stdout)]
fn has_users() -> bool {
    let root = run(Command::new("id").arg("-u")).ok() == "0";
    let able = root && run(Command::new("setpriv").arg("--version")).code == 0;
    if !able {
        println!("skipped: only root can act as two other users, by setpriv");
    }
    able
}

/// A directory that all users can enter, with the program, and homes that only their users can enter.
struct Site {
    directory: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { directory: temporary() };
        fs::set_permissions(site.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // The checkout may be in a directory that only root can enter.
        fs::copy(jobtap(), site.path("jobtap")).unwrap();
        fs::create_dir(site.path("bin")).unwrap();
        site.script("bin/getent", GETENT);
        for (home, user) in [("ada", ADA), ("eve", EVE), ("slow", SLOW), ("nobody", NOBODY)] {
            fs::create_dir(site.path(home)).unwrap();
            chown(site.path(home), Some(user), Some(user)).unwrap();
            fs::set_permissions(site.path(home), fs::Permissions::from_mode(0o700)).unwrap();
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts a manager with this configuration, as the user to which the command `prefix` changes.
    fn manager(&self, prefix: &str, statedir: &str, access: &str) -> Manager {
        let (bin, exe) = (self.path("bin").display().to_string(), self.path("jobtap"));
        let text = format!(
            "#!/bin/sh\nexport PATH={bin}:$PATH SECRET_OF_THE_DAEMON=1\nexec {prefix} {} \"$@\"\n",
            exe.display()
        );
        let name = format!("{}-manager", statedir.replace('/', "-"));
        self.script(&name, &text);
        let host = run(Command::new("uname").arg("-n")).ok();
        let cores = "[resource]\nnoverify = true\n[[resource.config]]\ncores = \"0-3\"\n";
        let conf = format!("--conf={cores}hosts = \"{host}\"\n[access]\n{access}");
        Manager::start_in(&self.path(&name), &self.path(statedir), &[conf.as_ref()])
    }

    /// Starts a manager as root.
    fn of_root(&self, access: &str) -> Manager {
        self.manager("", "state", access)
    }

    /// Starts a manager as a user without privileges.
    fn of_nobody(&self, access: &str) -> Manager {
        let prefix = format!(
            "env TMPDIR={} setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups",
            self.path("nobody").display()
        );
        self.manager(&prefix, "nobody/state", access)
    }

    /// Runs a command of jobtap as a user, in the user's home.
    fn jobtap(&self, m: &Manager, user: u32, args: &[&str]) -> Output {
        let socket = format!("local://{}", m.statedir.join("local-0").display());
        let home = match user {
            ADA => "ada",
            SLOW => "slow",
            _ => "eve",
        };
        let mut command = clean(Path::new("setpriv"));
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        command.args(ids).arg("--clear-groups").arg(self.path("jobtap")).args(args);
        command.env("JOBTAP_URI", socket).env("TMPDIR", self.path(home));
        run(command.current_dir(self.path(home)))
    }

    /// Runs a job of a user, and returns its output.
    fn run(&self, m: &Manager, user: u32, args: &[&str]) -> Output {
        self.jobtap(m, user, &[&["run"], args].concat())
    }
}

#[test]
fn a_job_runs_as_its_submitter_with_its_groups_and_nothing_of_the_daemon() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let show = "id -u; id -ru; id -g; id -G; pwd; ls /proc/self/fd | wc -l; ulimit -n; \
                grep -E 'Cap(Prm|Eff|Inh|Amb)|Groups|Uid|Gid' /proc/self/status; env";
    for (user, home, groups, status) in [
        (ADA, "ada", "61001 61009", "Groups:\t61001 61009 "),
        (EVE, "eve", "61002", "Groups:\t61002 "),
    ] {
        let text = site.run(&m, user, &["--rlimit=nofile=99", "sh", "-c", show]).ok();
        let lines: Vec<&str> = text.lines().collect();
        let id = user.to_string();
        assert_eq!(lines[..4], [&id, &id, &id, groups], "{text}");
        assert_eq!(lines[4], site.path(home).display().to_string());
        // The three standard streams, the socket of PMI, and the directory that `ls` reads.
        assert_eq!(lines[5..7], ["5", "99"], "{text}");
        let ids = |name: &str| format!("{name}:\t{user}\t{user}\t{user}\t{user}");
        for line in [&ids("Uid"), &ids("Gid"), status] {
            assert!(lines.contains(&line), "{line} in {text}");
        }
        for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert!(text.contains(&format!("{set}:\t0000000000000000")), "{text}");
        }
        assert!(!text.contains("SECRET_OF_THE_DAEMON"), "{text}");
    }
}

#[test]
fn files_of_a_job_are_opened_as_its_submitter() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let adas = |name: &str| site.path("ada").join(name).display().to_string();
    fs::write(adas("in"), "input\n").unwrap();
    fs::write(adas("tool"), "#!/bin/sh\necho tool\n").unwrap();
    for (name, mode) in [("in", 0o600), ("tool", 0o700)] {
        chown(adas(name), Some(ADA), Some(ADA)).unwrap();
        fs::set_permissions(adas(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // Ada may use her files; the output belongs to her.
    let (out, input) = (format!("--output={}", adas("out")), format!("--input={}", adas("in")));
    site.run(&m, ADA, &[&out, &input, "cat"]).ok();
    assert_eq!(fs::read_to_string(adas("out")).unwrap(), "input\n");
    let made = fs::metadata(adas("out")).unwrap();
    assert_eq!((made.uid(), made.gid()), (ADA, ADA));
    let per_task = format!("--output={}", adas("out.{{taskid}}"));
    site.run(&m, ADA, &[&per_task, "-n2", &adas("tool")]).ok();
    assert_eq!(fs::read_to_string(adas("out.1")).unwrap(), "tool\n");
    // Eve may not, and the message names what she may not do.
    for (args, words) in [
        (vec![out.as_str(), "true"], "cannot open output file"),
        (vec![&per_task, "-n2", "true"], "cannot open output file"),
        (vec![&input, "cat"], "cannot open input file"),
        (vec![&format!("--taskmap=hostfile:{}", adas("in")), "true"], "failed to map tasks"),
        (vec![&adas("tool")], "start failed"),
    ] {
        let output = site.run(&m, EVE, &args);
        assert!(output.code != 0 && output.stderr.contains(words), "{args:?}: {output:?}");
        assert!(output.stderr.contains("Permission denied"), "{args:?}: {output:?}");
    }
    // Her job doesn't run in a directory that she may not enter, but in one that all may.
    let cwd = format!("--cwd={}", site.path("ada").display());
    let output = site.run(&m, EVE, &[&cwd, "pwd"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "/tmp\n"), "{output:?}");
    let said = format!("Could not change dir to {}: Permission denied", site.path("ada").display());
    assert!(output.stderr.contains(&said), "{output:?}");
    assert_eq!(fs::read_to_string(adas("out")).unwrap(), "input\n");
    // A file that only root can write to is out of reach through a link, too.
    fs::write(site.path("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(site.path("precious"), site.path("eve").join("link")).unwrap();
    let output = site.run(&m, EVE, &["--output=link", "echo", "x"]);
    assert!(output.stderr.contains("cannot open output file"), "{output:?}");
    assert_eq!(fs::read_to_string(site.path("precious")).unwrap(), "precious");
}

#[test]
fn a_jobs_directory_belongs_to_its_submitter_and_is_closed_to_others() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    fs::write(site.path("note"), "note").unwrap();
    let file = format!("--add-file={}", site.path("note").display());
    let show = "cat $JOBTAP_JOB_TMPDIR/note; stat -c ' %u %g %a' $JOBTAP_JOB_TMPDIR $JOBTAP_JOB_TMPDIR/note";
    let text = site.run(&m, ADA, &[&file, "sh", "-c", show]).ok();
    assert!(text.starts_with("note 61001 61001 700\n 61001 61001 "), "{text}");
    let id = site.jobtap(&m, ADA, &["submit", "sh", "-c", "pwd >$JOBTAP_JOB_TMPDIR/f; sleep 600"]);
    let id = id.ok();
    m.wait(&id, "start");
    let of_ada = m.statedir.join("tmp").join(m.field(&id, "id.dothex"));
    let list = format!("ls {0}; cat {0}/f; ls {1}", of_ada.display(), m.statedir.display());
    let output = site.run(&m, EVE, &["sh", "-c", &list]);
    assert_eq!(output.stdout, "", "{output:?}");
    assert_eq!(output.stderr.matches("Permission denied").count(), 3, "{output:?}");
    // Nor may Eve do anything to the job.
    let refused = site.jobtap(&m, EVE, &["cancel", &id]);
    let words = "guests can only raise exceptions on their own jobs";
    assert!(refused.code == 1 && refused.stderr.contains(words), "{refused:?}");
    site.jobtap(&m, ADA, &["cancel", &id]).ok();
    m.wait(&id, "clean");
}

#[test]
fn a_signal_of_a_submitter_reaches_only_that_users_processes() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let id = site.jobtap(&m, ADA, &["submit", "sleep", "600"]).ok();
    m.wait(&id, "start");
    let host_and_pid = m.jobtap(&format!("job hostpids {id}")).ok();
    let pid = host_and_pid.rsplit(':').next().unwrap().to_owned();
    let forker = parent(pid.parse().unwrap()).unwrap();
    let (forker, shepherd) = (forker.to_string(), parent(forker).unwrap().to_string());
    // A job can't signal the forker, the shepherd, the manager, or the job of another user.
    for target in [&forker, &shepherd, &m.pid().to_string()] {
        let output = site.run(&m, ADA, &["kill", "-9", target]);
        assert!(output.stderr.contains("not permitted"), "{output:?}");
    }
    assert!(site.run(&m, EVE, &["kill", "-9", &pid]).stderr.contains("not permitted"));
    // Linux lets a process send SIGCONT to all processes of its own session, whoever runs them.
    for target in [&pid, &forker, &shepherd] {
        let output = site.run(&m, EVE, &["kill", "-CONT", target]);
        assert!(output.stderr.contains("not permitted"), "{output:?}");
    }
    assert_eq!(m.field(&id, "state"), "RUN");
    site.run(&m, ADA, &["kill", "-9", &pid]).ok();
    m.wait(&id, "clean");
    assert_eq!(m.field(&id, "returncode"), "137");
}

#[test]
fn a_program_that_is_not_executed_delays_no_other_user() {
    if !has_users() || run(Command::new("perl").arg("-v")).code != 0 {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let program = site.path("ada").join("program").display().to_string();
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // The system executes no file that a process has leased for writing, until the lease is broken (45 s).
    let lease = "$SIG{IO} = 'IGNORE'; open(F, '<', $ARGV[0]) or die; fcntl(F, 1024, 1) or die $!; \
                 open(O, '>', \"$ARGV[0].leased\"); sleep 600";
    let mut holder = spawn(Command::new("perl").args(["-e", lease, &program]));
    until("the program is leased", || Path::new(&format!("{program}.leased")).exists());
    let begin = Instant::now();
    let id = site.jobtap(&m, ADA, &["submit", "-n2", &program]).ok();
    assert_eq!(site.run(&m, EVE, &["id", "-u"]).ok(), EVE.to_string());
    assert!(begin.elapsed().as_secs_f64() < 30.0, "{:?}", begin.elapsed());
    site.jobtap(&m, ADA, &["cancel", &id]).ok();
    m.wait(&id, "clean");
    assert!(begin.elapsed().as_secs_f64() < 40.0, "{:?}", begin.elapsed());
    holder.kill().unwrap();
}

#[test]
fn a_slow_name_service_delays_only_the_jobs_of_its_user() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let begin = Instant::now();
    let [runs, canceled] = [["submit", "id", "-u"], ["submit", "sleep", "600"]]
        .map(|words| site.jobtap(&m, SLOW, &words).ok());
    site.jobtap(&m, SLOW, &["cancel", &canceled]).ok();
    assert_eq!(m.jobtap("run id -u").ok(), "0");
    assert_eq!(site.run(&m, ADA, &["id", "-u"]).ok(), ADA.to_string());
    assert!(begin.elapsed().as_secs_f64() < 4.0, "{:?}", begin.elapsed());
    assert_eq!(m.jobtap(&format!("job attach {runs}")).ok(), SLOW.to_string());
    m.wait(&canceled, "clean");
    assert_eq!(m.field(&canceled, "result"), "CANCELED");
}

#[test]
fn a_guest_has_managers_of_their_own_inside_their_jobs() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let program = site.path("jobtap").display().to_string();
    let script = format!("{program} resource info; id -u; {program} run -n2 id -u");
    let output = site.jobtap(&m, ADA, &["alloc", "-n2", "sh", "-c", &script]).ok();
    let id = ADA.to_string();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines, ["1 Nodes, 2 Cores, 0 GPUs", &id, &id, &id]);
    let id = site.jobtap(&m, ADA, &["alloc", "-n1", "--bg"]).ok();
    let owner = site.jobtap(&m, ADA, &["proxy", &id, &program, "run", "id", "-u"]).ok();
    assert_eq!(owner, ADA.to_string());
    let refused = site.jobtap(&m, EVE, &["proxy", &id, &program, "jobs"]);
    assert!(refused.code == 1 && refused.stderr.contains("belongs to another user"), "{refused:?}");
    site.jobtap(&m, ADA, &["cancel", &id]).ok();
    m.wait(&id, "clean");
}

#[test]
fn a_terminal_belongs_to_the_user_of_its_job() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let show = "stat -c %u $(tty)";
    let output = site.run(&m, ADA, &["-o", "pty", "sh", "-c", show]).ok();
    assert_eq!(output.trim(), ADA.to_string());
}

#[test]
fn guests_are_refused_in_words_where_they_cannot_be_served() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    // By default, only the owner has access.
    let m = site.of_root("");
    let refused = site.jobtap(&m, ADA, &["submit", "true"]);
    assert!(refused.stderr.contains("belongs to another user"), "{refused:?}");
    // Where the modes of files let guests through, the manager itself refuses them.
    fs::set_permissions(&m.statedir, fs::Permissions::from_mode(0o755)).unwrap();
    let socket = m.statedir.join("local-0");
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = site.jobtap(&m, ADA, &["submit", "true"]);
    let words = "only its owner, user 0, may use it: access.allow-guest-user is not set";
    assert!(refused.code == 1 && refused.stderr.contains(words), "{refused:?}");
    // A manager without privileges may be looked at, and runs no jobs of others.
    let m = site.of_nobody("allow-guest-user = true");
    fs::set_permissions(site.path("nobody"), fs::Permissions::from_mode(0o711)).unwrap();
    assert_eq!(site.jobtap(&m, ADA, &["jobs", "-n"]).ok(), "");
    let refused = site.jobtap(&m, ADA, &["submit", "true"]);
    let words = "this manager runs as user 65534 and can't run jobs of user 61001: only a manager that root runs can";
    assert!(refused.code == 1 && refused.stderr.contains(words), "{refused:?}");
    // Root is a guest, too.
    let refused = run(clean(&site.path("jobtap"))
        .env("JOBTAP_URI", format!("local://{}", m.statedir.join("local-0").display()))
        .args(["queue", "disable", "--message=x"]));
    assert!(refused.stderr.contains("Request requires owner credentials"), "{refused:?}");
}

#[test]
fn root_may_be_made_an_owner() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_nobody("allow-root-owner = true");
    let as_root = |words: &str| {
        let uri = format!("local://{}", m.statedir.join("local-0").display());
        run(clean(&site.path("jobtap")).env("JOBTAP_URI", uri).args(words.split_whitespace()))
    };
    as_root("queue disable --message=maintenance").ok();
    assert_eq!(
        as_root("queue status").ok().lines().next(),
        Some("Job submission is disabled: maintenance")
    );
}

#[test]
fn private_mode_shows_jobs_to_their_users_and_to_a_group() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root(
        "allow-guest-user = true\nprivate-mode = true\n[access.roles.admin]\ngroups = [\"ops\"]\n",
    );
    let of_eve = site.jobtap(&m, EVE, &["submit", "--urgency=hold", "true"]).ok();
    let of_ada = site.jobtap(&m, ADA, &["submit", "--urgency=hold", "true"]).ok();
    let seen = |user| {
        let text = site.jobtap(&m, user, &["jobs", "-Ano", "{id.f58}"]).ok();
        let mut ids: Vec<String> = text.lines().map(str::to_owned).collect();
        ids.sort();
        ids
    };
    let mut both = vec![of_ada, of_eve.clone()];
    both.sort();
    assert_eq!(seen(ADA), both, "Ada is in the group");
    assert_eq!(seen(EVE), [of_eve]);
}

#[test]
fn what_a_submitter_reads_of_proc_self_is_of_the_task() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    let read = |file: &str| site.run(&m, EVE, &[&format!("--input=/proc/self/{file}"), "cat"]);
    let program = jobtap().file_name().unwrap().to_str().unwrap().to_owned();
    for file in ["maps", "smaps", "cmdline", "status"] {
        // The memory from before the task executed its program is gone by then, so some of these files are empty.
        let shown = read(file);
        assert_eq!(shown.code, 0, "{file}: {shown:?}");
        assert!(!shown.stdout.contains(&format!("/{program}\n")), "{file}: {shown:?}");
        assert!(!shown.stdout.contains("__shepherd"), "{file}: {shown:?}");
    }
    assert!(read("status").ok().contains(&format!("Uid:\t{EVE}\t")));
    assert!(read("cmdline").ok().starts_with("cat"));
    // The file is opened as the user, who may not read the files of root's processes.
    let refused = site.run(&m, EVE, &["--input=/proc/1/maps", "cat"]);
    assert!(refused.code != 0 && refused.stdout.is_empty(), "{refused:?}");
}

#[test]
fn the_output_that_is_kept_of_a_job_is_limited() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true\n[exec]\noutput-limit = \"1k\"\n");
    let id = site.jobtap(&m, EVE, &["submit", "seq", "1000"]).ok();
    let output = site.jobtap(&m, EVE, &["job", "attach", &id]);
    assert!((1000..=1024).contains(&output.stdout.len()), "{output:?}");
    for words in ["stdout will be truncated, 1k limit exceeded", "of 3893 bytes truncated"] {
        assert!(output.stderr.contains(words), "{output:?}");
    }
    let whole = site.run(&m, EVE, &["-o", "output.limit=4k", "seq", "1000"]).ok();
    assert_eq!(whole.lines().count(), 1000);
    let refused = site.run(&m, EVE, &["-o", "output.limit=2G", "true"]);
    let words = "output.limit: \"2G\" is no size from 1 to 1G";
    assert!(refused.code != 0 && refused.stderr.contains(words), "{refused:?}");
}

#[test]
fn a_user_cannot_open_the_files_of_others_by_their_numbers() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true");
    // The shepherd has this file open. Its mode lets all users write to it, but only Ada can enter its directory.
    let labeled = format!("--output={}", site.path("ada/labeled").display());
    let script = "chmod 666 labeled; echo ready >$FIFO; sleep 600";
    let fifo = site.path("ada/fifo");
    run(Command::new("mkfifo").arg(&fifo)).ok();
    chown(&fifo, Some(ADA), Some(ADA)).unwrap();
    let env = format!("--env=FIFO={}", fifo.display());
    let id =
        site.jobtap(&m, ADA, &["submit", "--label-io", &labeled, &env, "sh", "-c", script]).ok();
    assert_eq!(run(Command::new("timeout").args(["30", "cat"]).arg(&fifo)).ok(), "ready");
    let pid = m.jobtap(&format!("job hostpids {id}")).ok();
    let forker = parent(pid.rsplit(':').next().unwrap().parse().unwrap());
    let shepherd = forker.and_then(parent).unwrap();
    let mut tried = 0;
    for entry in fs::read_dir(format!("/proc/{shepherd}/fd")).unwrap().flatten() {
        if fs::read_link(entry.path()).is_ok_and(|target| target == site.path("ada/labeled")) {
            let number = entry.file_name().into_string().unwrap();
            let output = format!("--output=/proc/self/fd/{number}");
            let refused = site.run(&m, EVE, &[&output, "echo", "written by Eve"]);
            assert!(refused.stderr.contains("cannot open output file"), "{refused:?}");
            tried += 1;
        }
    }
    assert!(tried > 0, "the shepherd has the file open");
    assert_eq!(fs::read_to_string(site.path("ada/labeled")).unwrap(), "");
    site.jobtap(&m, ADA, &["cancel", &id]).ok();
    m.wait(&id, "clean");
}

#[test]
fn a_guest_that_floods_the_manager_is_slowed_down() {
    if !has_users() {
        return;
    }
    let site = Site::new();
    let m = site.of_root("allow-guest-user = true\nguest-request-rate = 4\n");
    let begin = Instant::now();
    let ids = site.jobtap(&m, EVE, &["submit", "--urgency=hold", "--cc=1-20", "true"]).ok();
    assert_eq!(ids.lines().count(), 20, "slowed, not refused");
    // Five requests are served at once, and the others at four a second.
    assert!(begin.elapsed().as_secs_f64() > 3.0, "{:?}", begin.elapsed());
    let begin = Instant::now();
    let ids = m.jobtap("submit --urgency=hold --cc=1-20 true").ok();
    assert_eq!(ids.lines().count(), 20);
    assert!(begin.elapsed().as_secs_f64() < 3.0, "the owner has no limit: {:?}", begin.elapsed());
}
