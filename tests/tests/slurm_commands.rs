//! Slurm's commands by Slurm's names: for people at a terminal, in batch scripts, and in prologs and epilogs.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, Output, jobtap, run, temporary, until};

/// A manager with two queues on four nodes of four cores and two GPUs.
struct Site {
    dir: tempfile::TempDir,
    manager: Manager,
}

impl Site {
    fn start(more: &str) -> Self {
        let dir = temporary();
        let config = format!(
            "[resource]\nnoverify = true\n[[resource.config]]\nhosts = \"n[1-4]\"\ncores = \"0-3\"\ngpus = \"0-1\"\n\
             [[resource.config]]\nhosts = \"n[1-2]\"\nproperties = [\"few\"]\n\
             [queues.batch]\n[queues.short]\nrequires = [\"few\"]\npolicy.limits.duration = \"1h\"\n\
             [policy.jobspec.defaults.system]\nqueue = \"batch\"\n{more}"
        );
        let file = dir.path().join("config.toml");
        fs::write(&file, config).unwrap();
        let config = format!("--config-path={}", file.display());
        let options = ["--test-size=4".as_ref(), "--test-hosts=n[1-4]".as_ref(), config.as_ref()];
        let manager = Manager::start_in(jobtap(), &dir.path().join("state"), &options);
        manager.jobtap("queue start --all --quiet").ok();
        Self { dir, manager }
    }

    fn run(&self, words: &[&str]) -> Output {
        run(self.manager.command(words).current_dir(self.dir.path()))
    }

    /// Submits a command of the shell, and returns its id.
    fn wrap(&self, words: &[&str], command: &str) -> String {
        let fixed = ["sbatch", "--parsable", "-o", "/dev/null"];
        self.run(&[&fixed, words, &["--wrap", command]].concat()).ok()
    }

    /// Runs a command of the shell as a job, and returns its output. It finds Slurm's commands by their names.
    fn output(&self, words: &[&str], command: &str) -> String {
        let commands = self.dir.path().join("commands");
        self.run(&["slurm", "install", commands.to_str().unwrap()]).ok();
        let command = format!("PATH={}:$PATH\n{command}", commands.display());
        let fixed = ["sbatch", "-W", "-o", "out"];
        self.run(&[&fixed, words, &["--wrap", &command]].concat());
        self.read("out")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

#[test]
fn squeue_shows_jobs_in_slurms_columns() {
    let site = Site::start("");
    let running = site.wrap(&["-n1", "-t10", "-J", "first"], "sleep 100");
    let held =
        site.wrap(&["-H", "-n2", "-J", "held", "-p", "short", "-A", "chem", "-t", "5"], "true");
    let array = site.wrap(&["-a", "1-2%1", "-n1"], "sleep 100");
    site.manager.wait(&running, "start");
    let all = site.run(&["squeue", "-o", "%i %P %j %t %D %R"]).ok();
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "JOBID PARTITION NAME ST NODES NODELIST(REASON)");
    assert_eq!(lines.len(), 5, "{all}");
    let waits = format!("{array}_[2] batch wrap PD 1 (JobArrayTaskLimit)");
    assert!(lines.contains(&waits.as_str()), "{all}");
    assert!(lines.contains(&format!("{held} short held PD 1 (JobHeldUser)").as_str()), "{all}");
    // The list itself has the word.
    let why = |id: &str| site.run(&["jobs", "-no", "{why}", id]).ok();
    assert_eq!(
        (why(&held), why(&running), why(&array)),
        ("held".into(), "".into(), "array-limit".into())
    );
    assert!(
        lines.iter().any(|line| line.starts_with(&format!("{running} batch first R 1 n"))),
        "{all}"
    );
    // The columns of Slurm 22.05.8, of which those of ids and names are as wide.
    let table = site.run(&["squeue"]).ok();
    let heading =
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)";
    assert_eq!(table.lines().next().unwrap(), heading);
    // As getopt takes them.
    let short = ["squeue", "--nohead", "--job", &held, "--accounts=chem", "--form=%i"];
    assert_eq!(site.run(&short).ok(), held);
    let named = |words: &[&str]| site.run(&[&["squeue", "-h", "-o", "%i"], words].concat()).ok();
    assert_eq!(named(&["-j", &format!("{array}_1")]), format!("{array}_1"));
    assert_eq!(named(&["-j", &array]).lines().count(), 2);
    assert_eq!(named(&["-t", "PD", "-p", "short"]), held);
    assert_eq!(named(&["-A", "chem"]), held);
    assert_eq!(named(&["-n", "first", "--me"]), running);
    let sorted = |order: &str| site.run(&["squeue", "-h", "-r", "-S", order, "-o", "%i"]).ok();
    let ids: Vec<String> = sorted("i").lines().map(str::to_owned).collect();
    assert_eq!(ids, [&*running, &held, &format!("{array}_1"), &format!("{array}_2")]);
    let down: Vec<String> = sorted("-i").lines().map(str::to_owned).collect();
    assert!(down.iter().eq(ids.iter().rev()), "{down:?}");
    assert_eq!(sorted("-P,-t,i").lines().next().unwrap(), held);
    let refused = site.run(&["squeue", "-S", "nosuch"]);
    assert!(refused.stderr.contains("there is no field 'nosuch' to sort by"), "{refused:?}");
    // One that isn't known is no failure beside one that is.
    assert_eq!(named(&["-j", &format!("999,{held}")]), held);
    let long = site
        .run(&["squeue", "-h", "-j", &held, "-O", "jobid:22,state:9,timelimit:.6,account"])
        .ok();
    assert_eq!(long.trim_end(), format!("{held:<22}PENDING    5:00chem"));
    let unknown = site.run(&["squeue", "-j", "999"]);
    assert_eq!(
        (unknown.code, unknown.stderr.trim()),
        (1, "squeue: error: Invalid job id specified")
    );
    assert!(site.run(&["squeue", "-o", "%q %z"]).stderr.contains("there is no field %z here"));
    let json = site.run(&["squeue", "--json"]);
    assert!(json.code == 2 && json.stderr.contains("Left out: "), "{json:?}");
    let mut variable = site.manager.command(["squeue", "-h", "-j", &held]);
    assert_eq!(run(variable.env("SQUEUE_FORMAT", "%j|%y")).ok(), "held|0");
}

#[test]
fn pending_jobs_of_an_array_are_on_one_line() {
    let site = Site::start("");
    let array = site.wrap(&["-a", "1-6%2", "-n1"], "sleep 100");
    let dependent = site.wrap(&["-d", &format!("afterok:{array}_1"), "-n1"], "true");
    let list = |words: &[&str]| site.run(&[&["squeue", "-h", "-o", "%i %r"], words].concat()).ok();
    until("two run", || list(&["-t", "R"]).lines().count() == 2);
    assert_eq!(list(&["-j", &array, "-t", "PD"]), format!("{array}_[3-6] JobArrayTaskLimit"));
    assert_eq!(list(&["-j", &array, "-t", "PD", "-r"]).lines().count(), 4);
    let waits = site.run(&["squeue", "-h", "-j", &dependent, "-o", "%E"]).ok();
    assert!(waits.starts_with("afterok:") && waits.ends_with("(unfulfilled)"), "{waits}");
    // Those that run can't be held, which is no failure for the whole array.
    site.run(&["scontrol", "hold", &array]).ok();
    site.run(&["scancel", &format!("{array}_[1-5]")]).ok();
    until("five have ended", || list(&["-j", &array]).lines().count() == 1);
    assert_eq!(list(&["-j", &array]), format!("{array}_[6] JobHeldUser"));
    let sparse = site.wrap(&["-H", "-a", "1,3-4,101-199:2"], "true");
    let shown = |length: &str| {
        let mut squeue = site.manager.command(["squeue", "-h", "-o", "%i", "-j", &sparse]);
        run(squeue.env("SLURM_BITSTR_LEN", length)).ok()
    };
    assert_eq!(shown("10"), format!("{sparse}_[1,3-4,...]"));
    assert!(shown("0").ends_with(",197,199]"));
    let account = |words: &[&str]| {
        let words = [&["sacct", "-n", "-P", "-o", "jobid,state"], words].concat();
        site.run(&words).ok().replace(&array, "ARRAY")
    };
    // The third one was canceled before it became a job.
    let wanted = "ARRAY_1|CANCELLED\nARRAY_2|CANCELLED";
    assert_eq!(account(&["-j", &format!("{array}_[1-3]")]), wanted);
    assert_eq!(account(&["-j", &format!("{array}_2")]), "ARRAY_2|CANCELLED");
    assert_eq!(
        account(&["-S", "now-1hour", "-s", "PD", "--name", "wrap"]).lines().next().unwrap(),
        "ARRAY_6|PENDING"
    );
    assert_eq!(account(&["-s", "NODE_FAIL"]), "");
    let refused = site.run(&["sacct", "-q", "normal"]);
    assert!(refused.code == 2 && refused.stderr.contains("Left out: "), "{refused:?}");
}

#[test]
fn scontrol_and_sinfo_show_and_change_nodes() {
    let site = Site::start("");
    let job = site.wrap(&["-N1", "-n4", "-w", "n1"], "sleep 100");
    site.manager.wait(&job, "start");
    site.run(&["scontrol", "update", "nodename=n4", "state=drain", "reason=bad disk"]).ok();
    // Again with another reason, as a health check does.
    site.run(&["scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=worse disk"]).ok();
    let table = site.run(&["sinfo"]).ok();
    let wanted = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
                  batch*       up   infinite      1  drain n4\n\
                  batch*       up   infinite      1  alloc n1\n\
                  batch*       up   infinite      2   idle n[2-3]\n\
                  short        up    1:00:00      1  alloc n1\n\
                  short        up    1:00:00      1   idle n2";
    assert_eq!(table, wanted);
    let of = |words: &[&str]| site.run(&[&["sinfo", "-h"], words].concat()).ok();
    assert_eq!(
        of(&["-N", "-n", "n2", "-o", "%N %P %t %C"]),
        "n2 batch* idle 0/4/0/4\nn2 short idle 0/4/0/4"
    );
    assert_eq!(of(&["-p", "batch", "-o", "%P %F %G"]), "batch* 1/2/1/4 gpu:2");
    assert_eq!(of(&["-R", "-o", "%E %N"]), "worse disk n4");
    assert_eq!(of(&["-R", "-o", "%P %N"]), "batch* n4");
    assert_eq!(of(&["-R", "-p", "batch", "-o", "%N"]), "n4");
    assert_eq!(of(&["-R", "-p", "short"]), "");
    assert_eq!(of(&["-R", "-n", "n[1-3]"]), "");
    assert_eq!(of(&["-t", "drain", "-p", "batch", "-o", "%n"]), "n4");
    // As Slurm 22.05.8: nodes are on a line if the format shows them alike.
    assert_eq!(of(&["-o", "%N"]), "n[1-4]");
    assert_eq!(of(&["-o", "%D %t"]), "1 drain\n1 alloc\n2 idle");
    assert_eq!(of(&["-o", "%P %D"]), "batch* 4\nshort 2");
    assert_eq!(of(&["-o", "%f %N"]), "few n[1-2]\n(null) n[3-4]");
    assert_eq!(of(&["-o", "%C"]), "4/8/4/16");
    assert_eq!(
        of(&["-N", "-o", "%N %t"]),
        "n1 alloc\nn1 alloc\nn2 idle\nn2 idle\nn3 idle\nn4 drain"
    );
    assert_eq!(of(&["-S", "t", "-o", "%t %N"]), "idle n[2-3]\nalloc n1\ndrain n4");
    assert_eq!(of(&["-S", "-P", "-o", "%P"]), "short\nbatch*");
    assert_eq!(of(&["-O", "nodehost:|,statecompact:4"]), "n4|drai\nn1|allo\nn2|idle\nn3|idle");
    assert_eq!(
        of(&["-t", "fail", "-p", "short"]).trim_end(),
        "short        up    1:00:00      0    n/a"
    );
    assert_eq!(of(&["-t", "all", "-o", "%N"]), "n[1-4]");
    assert_eq!(of(&["-t", "ALL,drain", "-o", "%N"]), "n4");
    let bad = site.run(&["sinfo", "-t", "nope"]);
    assert!(bad.code == 1 && bad.stderr.contains("Bad state string: \"nope\""), "{bad:?}");
    let node = site.run(&["scontrol", "-o", "show", "node", "n4"]).ok();
    assert!(node.starts_with("NodeName=n4 "), "{node}");
    assert!(node.contains(" State=IDLE+DRAIN ") && node.contains(" Reason=worse disk ["), "{node}");
    site.run(&["scontrol", "update", "nodename=n4", "state=resume"]).ok();
    assert_eq!(of(&["-p", "batch", "-t", "idle", "-o", "%N"]), "n[2-4]");
    let refused = |words: &[&str]| {
        let output = site.run(&[&["scontrol"], words].concat());
        assert_eq!(output.code, 1, "{output:?}");
        output.stderr
    };
    assert!(
        refused(&["update", "nodename=n4", "state=drain"]).contains("You must specify a reason")
    );
    // Without a state it is a note in Slurm: the node must not be drained.
    assert!(
        refused(&["update", "nodename=n4", "reason=watch the fan"]).contains("needs a State here")
    );
    assert!(refused(&["update", "nodename=n4", "weight=3"]).contains("not supported: weight=3"));
    assert!(refused(&["reconfigure"]).contains("use jobtap config reload"));
    assert!(refused(&["show", "node", "n9"]).contains("Node n9 not found"));
    assert_eq!(site.run(&["scontrol", "show", "hostnames", "a[1-2],b"]).ok(), "a1\na2\nb");
    assert_eq!(site.run(&["scontrol", "show", "hostlist", "a1,a2,a3"]).ok(), "a[1-3]");
    let partition = site.run(&["scontrol", "show", "partition", "short"]).ok();
    assert!(
        partition.contains("MaxTime=01:00:00") && partition.contains("Nodes=n[1-2]"),
        "{partition}"
    );
}

#[test]
fn scontrol_changes_the_state_of_partitions() {
    let site = Site::start("");
    let set = |state: &str| site.run(&["scontrol", "update", "PartitionName=short", state]);
    let avail = || site.run(&["sinfo", "-h", "-p", "short", "-o", "%a"]).ok();
    let submit =
        || site.run(&["sbatch", "-p", "short", "-t1", "-o", "/dev/null", "--wrap", "true"]);
    set("State=DOWN").ok();
    assert_eq!(avail(), "down");
    assert_eq!(submit().code, 0, "jobs are accepted, and wait");
    set("state=drain").ok();
    assert_eq!(avail(), "drain");
    let refused = submit();
    assert!(refused.code == 1 && refused.stderr.contains("the partition is drain"), "{refused:?}");
    until("the waiting job runs", || site.run(&["squeue", "-h"]).ok().is_empty());
    set("state=inactive").ok();
    assert_eq!(avail(), "inact");
    let shown = site.run(&["scontrol", "-o", "show", "partition", "short"]).ok();
    assert!(shown.contains(" State=INACTIVE "), "{shown}");
    site.run(&["scontrol", "update", "partition=short", "state=up"]).ok();
    assert_eq!((avail(), submit().code), ("up".to_owned(), 0));
    for (words, text) in [
        (
            &["partitionname=short", "maxtime=5"][..],
            "not supported: maxtime=5: of a partition only State",
        ),
        (&["partitionname=short"], "No changes specified"),
        (
            &["partitionname=short", "state=nope"],
            "Acceptable State values are UP, DOWN, DRAIN and INACTIVE",
        ),
        (&["partitionname=nosuch", "state=up"], "Invalid partition name specified"),
    ] {
        let refused = site.run(&[&["scontrol", "update"], words].concat());
        assert!(refused.code == 1 && refused.stderr.contains(text), "{refused:?}");
    }
}

#[test]
fn scontrol_shows_and_changes_jobs() {
    let site = Site::start("");
    let job = site.wrap(&["-H", "-n2", "-J", "one", "-t", "10"], "true");
    let show = |id: &str| site.run(&["scontrol", "show", "job", id]).ok();
    let text = show(&job);
    for part in [
        format!("JobId={job} JobName=one\n   UserId="),
        "JobState=PENDING Reason=JobHeldUser Dependency=(null)".to_owned(),
        "TimeLimit=00:10:00 ".to_owned(),
        "Partition=batch\n".to_owned(),
        "NumTasks=2 ".to_owned(),
        "StdOut=/dev/null".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    site.run(&["scontrol", "update", &format!("jobid={job}"), "timelimit=5"]).ok();
    assert!(show(&job).contains("TimeLimit=00:05:00 "));
    site.run(&["scontrol", "update", "job", &job, "timelimit=+2"]).ok();
    assert!(show(&job).contains("TimeLimit=00:07:00 "));
    let script = site.run(&["scontrol", "write", "batch_script", &job, "-"]).ok();
    assert!(script.starts_with("#!/bin/sh") && script.ends_with("true"), "{script}");
    // A pipe gets the bytes of the script.
    let odd = "printf '\u{1b}[1m\r\u{c}'";
    let odd_job = site.wrap(&["-H"], odd);
    let script = site.run(&["scontrol", "write", "batch_script", &odd_job, "-"]).ok();
    assert!(script.ends_with(odd), "{script:?}");
    let missing = site.run(&["scontrol", "write", "batch_script", "999", "-"]);
    assert!(missing.code == 1 && !missing.stderr.contains("no batch script"), "{missing:?}");
    let refused = site.run(&["scontrol", "update", &format!("job={job}"), "foo=3"]);
    assert!(refused.code == 1 && refused.stderr.contains("not supported: foo=3"), "{refused:?}");
    site.run(&["scontrol", "release", &job]).ok();
    site.manager.wait(&job, "clean");
    let accounted = site.run(&["sacct", "-n", "-P", "-j", &job, "-o", "JobID,State,ExitCode"]).ok();
    assert_eq!(accounted, format!("{job}|COMPLETED|0:0"));
    let held = site.wrap(&["-t1", "-H"], "true");
    site.run(&["scontrol", "release", &held]).ok();
    site.manager.wait(&held, "clean");
    assert_eq!(site.run(&["scontrol", "show", "job", "999"]).code, 1);
}

#[test]
fn a_requeued_job_runs_again_under_another_id() {
    let site = Site::start("");
    let file = site.dir.path().join("runs");
    let command = format!("echo $SLURM_JOB_ID >> {}; sleep 100", file.display());
    let job = site.wrap(&["-n1", "-J", "again"], &command);
    let runs = || fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    until("the job runs", || runs() == 1);
    let answer = site.run(&["scontrol", "requeue", &job]);
    until("it runs again", || runs() == 2);
    assert_eq!(site.manager.field(&job, "result"), "CANCELED");
    let second = site.run(&["squeue", "-h", "-n", "again", "-t", "R", "-o", "%i"]).ok();
    assert_ne!(second, job);
    let wanted = format!("scontrol: job {job} runs again as job {second}");
    assert_eq!((answer.code, answer.stderr.trim()), (0, wanted.as_str()));
    assert!(site.run(&["scontrol", "show", "job", &second]).ok().contains(" Restarts=1 "));
    site.run(&["scontrol", "requeuehold", &second]).ok();
    let held = || site.run(&["squeue", "-h", "-n", "again", "-t", "PD", "-o", "%r"]).ok();
    until("the third is held", || held() == "JobHeldUser");
    let pending = site.run(&["squeue", "-h", "-n", "again", "-t", "PD", "-o", "%i"]).ok();
    let refused = site.run(&["scontrol", "requeue", &pending]);
    assert!(refused.code == 1 && refused.stderr.contains("job has not started"), "{refused:?}");
}

#[test]
fn a_refusal_ends_neither_the_command_nor_a_job_without_a_word() {
    let site = Site::start("");
    let job = site.wrap(&["-n1", "-H"], "true");
    let hold = site.run(&["scontrol", "release", "999,998", &job]);
    assert_eq!((hold.code, hold.stderr.lines().count()), (1, 2), "{hold:?}");
    site.manager.wait(&job, "clean");
    let job = site.wrap(&["-n1"], "sleep 100");
    site.manager.wait(&job, "start");
    site.manager.jobtap("queue disable --all -m closed").ok();
    let refused = site.run(&["scontrol", "requeue", &job]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("can't be submitted again: "), "{refused:?}");
    assert!(refused.stderr.trim_end().ends_with(&format!("for job {job}")), "{refused:?}");
    assert_eq!(site.manager.field(&job, "state"), "RUN");
    // It can be tried again.
    site.manager.jobtap("queue enable --all").ok();
    site.run(&["scontrol", "requeue", &job]).ok();
    site.manager.wait(&job, "clean");
}

#[test]
fn the_id_of_an_array_means_all_of_its_jobs() {
    let site = Site::start("");
    let active = || site.run(&["squeue", "-h", "-r", "-o", "%K"]).ok();
    let submit = || site.wrap(&["-a", "0-3", "-n1"], "sleep 100");
    let array = submit();
    let waits = site.wrap(&["-d", &format!("afterany:{array}_1"), "-n1"], "true");
    let first = site.wrap(&["-d", &format!("afterany:{array}_0"), "-n1"], "true");
    let none = site.run(&["sbatch", "-d", &format!("afterok:{array}_9"), "--wrap", "true"]);
    assert!(
        none.code == 1 && none.stderr.contains(&format!("there is no job {array}_9")),
        "{none:?}"
    );
    site.run(&["scancel", &format!("{array}_1")]).ok();
    site.manager.wait(&waits, "clean");
    site.run(&["cancel", &format!("{array}_0")]).ok();
    site.manager.wait(&first, "clean");
    let mut left: Vec<String> = active().lines().map(str::to_owned).collect();
    left.sort();
    assert_eq!(left, ["2", "3"]);
    site.run(&["scancel", &array]).ok();
    until("all are canceled", || active().is_empty());
    let array = submit();
    site.run(&["scancel", &format!("{array}_[0,1-2]")]).ok();
    until("three are canceled", || active() == "3");
    site.run(&["cancel", &array]).ok();
    until("all are canceled", || active().is_empty());
}

#[test]
fn elements_that_have_ended_or_wait_are_told_apart() {
    let site = Site::start("");
    let script = "trap 'exit 3' USR1; test $SLURM_ARRAY_TASK_ID = 0 || while :; do sleep 0.1; done";
    // No more than two at once: the last element waits.
    let array = site.wrap(&["-a", "0-3%2", "-n1"], script);
    let states = |of: &str| site.run(&["squeue", "-h", "-r", "-t", of, "-o", "%K", "-S", "K"]).ok();
    until("the first has ended", || states("running") == "1\n2");
    let update = site.run(&["scontrol", "update", &format!("jobid={array}"), "timelimit=5"]);
    let kept = format!("{array}: the elements 3 aren't jobs yet, and keep the request");
    assert!(update.code == 1 && update.stderr.contains(&kept), "{update:?}");
    let limits = site.run(&["squeue", "-h", "-t", "running", "-o", "%l"]).ok();
    assert_eq!(limits, "5:00\n5:00");
    let one = site.run(&["scontrol", "update", &format!("jobid={array}_1"), "timelimit=6"]);
    assert_eq!((one.code, &*one.stderr), (0, ""));
    let signal = site.run(&["scancel", "-f", "--signal=USR1", &array]);
    assert_eq!((signal.code, &*signal.stderr), (0, ""));
    until("the last runs", || states("running") == "3");
    let signal = site.run(&["scancel", "-f", "--signal=USR1", &format!("{array}_[0-3]")]);
    assert_eq!((signal.code, &*signal.stderr), (0, ""));
    until("all have ended", || states("pending,running").is_empty());
}

#[test]
fn scancel_selects_by_options_and_sends_signals() {
    let site = Site::start("");
    let one = site.wrap(&["-J", "one", "-n1"], "trap 'exit 3' USR1; while :; do sleep 0.1; done");
    let two = site.wrap(&["-J", "two", "-n1", "-H"], "true");
    site.manager.wait(&one, "start");
    site.run(&["scancel", "-f", "-s", "USR1", &one]).ok();
    site.manager.wait(&one, "clean");
    assert_eq!(site.manager.field(&one, "returncode"), "3");
    site.run(&["scancel", "-n", "two", "-t", "RUNNING"]).ok();
    assert_eq!(site.manager.field(&two, "state"), "SCHED");
    site.run(&["scancel", "-n", "two"]).ok();
    site.manager.wait(&two, "clean");
    let none = site.run(&["scancel"]);
    assert_eq!(
        (none.code, none.stderr.trim()),
        (1, "scancel: error: No job identification provided")
    );
    // As in Slurm, a job that has ended is not a failure.
    assert_eq!(site.run(&["scancel", &two]).code, 0);
    let unknown = site.run(&["scancel", "-s", "USR1", "999"]);
    assert!(
        unknown.code == 1 && unknown.stderr.contains("Kill job error on job id 999: "),
        "{unknown:?}"
    );
}

/// As in Slurm 22.05.8: without -f and -b the shell and what it has started itself get no signal.
#[test]
fn a_signal_reaches_the_steps_the_script_or_all() {
    let site = Site::start("");
    let commands = site.dir.path().join("commands");
    site.run(&["slurm", "install", commands.to_str().unwrap()]).ok();
    let waits = |who: &str| {
        format!(
            "sh -c \"trap 'echo {who} got it; exit' USR1; echo {who} is ready; while :; do sleep 0.1; done\""
        )
    };
    let script = format!(
        "PATH={}:$PATH\ntrap 'echo script got it; got=1' USR1\n{} & child=$!\nsrun -n1 {} & step=$!\n\
         while [ -z \"$got\" ] && kill -0 $child && kill -0 $step; do sleep 0.1; done\n\
         sleep 0.5; echo end; kill $child $step; wait",
        commands.display(),
        waits("child"),
        waits("step")
    );
    for (options, wanted) in [
        (&["-s", "USR1"][..], &["step got it"][..]),
        (&["-b", "-s", "USR1"], &["script got it"]),
        (&["-f", "-s", "USR1"], &["child got it", "script got it", "step got it"]),
    ] {
        let out = site.dir.path().join(format!("out{}", options.concat()));
        let file = out.to_str().unwrap();
        let words = ["sbatch", "--parsable", "-n1", "-o", file, "--wrap", &script];
        let job = site.run(&words).ok();
        let text = || fs::read_to_string(&out).unwrap_or_default();
        until("all are ready", || text().matches("is ready").count() == 2);
        site.run(&[&["scancel"], options, &[&job]].concat()).ok();
        site.manager.wait(&job, "clean");
        let text = text();
        let mut got: Vec<&str> = text.lines().filter(|line| line.ends_with("got it")).collect();
        got.sort_unstable();
        assert_eq!(got, wanted, "{options:?}: {text}");
        assert!(text.contains("end\n"), "{options:?}: {text}");
    }
    // As Slurm's srun does, a step passes on what the script sends to it.
    let script = script.replace("got=1", "kill -USR1 $step");
    let out = site.dir.path().join("passed");
    let words = ["sbatch", "--parsable", "-n1", "-o", out.to_str().unwrap(), "--wrap", &script];
    let job = site.run(&words).ok();
    let text = || fs::read_to_string(&out).unwrap_or_default();
    until("all are ready", || text().matches("is ready").count() == 2);
    site.run(&["scancel", "-b", "-s", "USR1", &job]).ok();
    site.manager.wait(&job, "clean");
    let got: Vec<String> =
        text().lines().filter(|l| l.ends_with("got it")).map(str::to_owned).collect();
    assert_eq!(got, ["script got it", "step got it"], "{}", text());
    // Without a signal -b kills the script.
    let job = site.wrap(&["-n1"], "sleep 100");
    site.manager.wait(&job, "start");
    site.run(&["scancel", "-b", &job]).ok();
    site.manager.wait(&job, "clean");
    let state = site.run(&["scontrol", "-o", "show", "job", &job]).ok();
    assert!(state.contains("JobState=FAILED"), "{state}");
}

#[test]
fn a_script_finds_slurms_commands_and_runs_steps() {
    let site = Site::start("");
    let script = "scontrol show hostnames\nsqueue -h -j $SLURM_JOB_ID -o %T\n\
                  srun -l sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME in $SLURM_JOB_ID' | sort\n\
                  srun -n1 sh -c 'exit 7'\necho \"exit code $?\"";
    let output = site.output(&["-N2", "--ntasks-per-node=1", "-w", "n[2-3]", "-t5"], script);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..3], ["n2", "n3", "RUNNING"], "{output}");
    assert!(lines[3].starts_with("0: 0 of 2 on n2 in "), "{output}");
    assert!(lines[4].starts_with("1: 1 of 2 on n3 in "), "{output}");
    assert!(output.ends_with("exit code 7\n"), "{output}");
}

#[test]
fn srun_outside_of_a_job_is_a_job() {
    let site = Site::start("");
    let output = site.run(&[
        "srun",
        "-n2",
        "-J",
        "direct",
        "-l",
        "sh",
        "-c",
        "echo $SLURM_LOCALID $SLURM_JOB_NAME",
    ]);
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!((output.code, lines), (0, vec!["0: 0 direct", "1: 1 direct"]), "{}", output.stderr);
    assert_eq!(site.run(&["srun", "sh", "-c", "exit 5"]).code, 5);
    let refused = site.run(&["srun", "--prolog=x", "true"]);
    assert!(
        refused.stderr.contains("--prolog can't be used: run it before the command"),
        "{refused:?}"
    );
    assert_eq!(site.run(&["srun"]).stderr.trim(), "srun: error: No command given to execute.");
}

/// A command of the shell that says when it gets SIGUSR1, and ends after six seconds.
const CHILD: &str =
    "sh -c 'trap \"echo child got it\" USR1; for i in 1 2 3 4 5 6; do sleep 1; done'";

#[test]
fn a_signal_before_the_end_reaches_steps_or_the_shell() {
    let site = Site::start("");
    let soon = |signal: &str| format!("--signal={signal}@57");
    let child = format!("{CHILD}\necho last line");
    assert_eq!(site.output(&["-n1", "-t1", &soon("USR1")], &child), "last line\n");
    let step = format!("srun {CHILD}\necho last line");
    let output = site.output(&["-n1", "-t1", &soon("USR1")], &step);
    // The shell of the step also says that the signal has ended its sleep.
    assert!(output.ends_with("child got it\nlast line\n"), "{output}");
    let shell = format!("trap 'echo shell got it' USR1\n{CHILD} & wait $!; wait");
    assert_eq!(site.output(&["-n1", "-t1", &soon("B:USR1")], &shell), "shell got it\n");
}

#[test]
fn names_of_files_have_slurms_patterns() {
    let site = Site::start("");
    let user = run(Command::new("id").arg("-un")).ok();
    let patterns = ["log-%u-%x.out", "%s-%t-%n", "%a-%b", "%%u"];
    for (pattern, name) in
        patterns.iter().zip([&*format!("log-{user}-wrap.out"), "batch-0-0", "4294967294-4", "%u"])
    {
        // Whatever the environment says.
        let words = ["sbatch", "-W", "-n1", "-o", pattern, "--wrap", "true"];
        let mut command = site.manager.command(words);
        run(command.current_dir(site.dir.path()).env_remove("USER").env_remove("LOGNAME")).ok();
        assert!(site.dir.path().join(name).exists(), "{pattern}");
    }
    site.run(&["sbatch", "-W", "-n1", "-a", "12", "-o", "%3a.%b", "--wrap", "true"]).ok();
    assert!(site.dir.path().join("012.2").exists());
}

#[test]
fn tasks_per_node_alone_ask_for_that_many_cpus() {
    let site = Site::start("");
    let job = site.wrap(&["--ntasks-per-node=3", "-H"], "true");
    let of = |field: &str| site.manager.field(&job, field);
    assert_eq!((of("ncores"), of("ntasks"), of("nnodes")), ("3".into(), "3".into(), "1".into()));
}

#[test]
fn an_epilog_drains_its_node() {
    let dir = temporary();
    let script = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        make_executable(&path);
        path
    };
    let hosts = dir.path().join("hosts");
    let prolog = script("prolog", &format!("scontrol show hostnames > {}", hosts.display()));
    let epilog = script(
        "epilog",
        "scontrol update nodename=$SLURMD_NODENAME state=drain reason=\"health check failed\"",
    );
    let site = Site::start(&format!(
        "[job-manager]\nplugins = [{{ load = \"prep-script\" }}]\n[plugins.prep-script]\n\
         prolog = \"{}\"\nepilog = \"{}\"\n",
        prolog.display(),
        epilog.display()
    ));
    let job = site.wrap(&["-n1", "-w", "n3"], "true");
    site.manager.wait(&job, "clean");
    assert_eq!(fs::read_to_string(hosts).unwrap(), "n3\n");
    let drained = site.run(&["resource", "drain", "-no", "{nodelist} {reason}"]).ok();
    assert_eq!(drained, "n3 health check failed");
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
