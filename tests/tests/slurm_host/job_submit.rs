//! Plugins that run in slurmctld as a job_submit plugin.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{Output, run, until};

use super::built::job_submit;

const PLUGIN: &str = "JobSubmitPlugins=site";

/// Submits a job of this name, held, so that its record stays as it was made.
fn submit(slurm: &Slurm, name: &str, options: &[&str]) -> Output {
    let mut words = vec!["--hold", "-J", name];
    words.extend(options);
    words.extend(["--wrap", "true"]);
    slurm.sbatch(&words)
}

/// Whether this is the oldest release, which calls plugins otherwise than the newer ones.
fn is_22_05(of: &Installation) -> bool {
    of.version().starts_with("22.05.")
}

/// The id in `Submitted batch job 5`.
#[track_caller]
fn id(output: Output) -> String {
    output.ok().rsplit(' ').next().unwrap().to_owned()
}

/// A field of `scontrol show job`.
fn field(slurm: &Slurm, id: &str, name: &str) -> String {
    let shown = slurm.client("scontrol", &["-o", "show", "job", id]).ok();
    let begin = shown.find(&format!("{name}=")).unwrap_or_else(|| panic!("{name}: {shown}"));
    let rest = &shown[begin + name.len() + 1..];
    // Values have no `=`, and the next name is the last word before one.
    let end = rest.find('=').map_or(rest.len(), |next| rest[..next].rfind(' ').unwrap_or(next));
    rest[..end].trim().to_owned()
}

fn requests_are_accepted_refused_rewritten(of: &Installation) {
    let built = job_submit(of, &["limits", "second", "later", "checks"]);
    let slurm = Slurm::start_in(of, PLUGIN, |etc| {
        built.put(etc);
        fs::write(etc.join("jobtap.toml"), "[slurm]\nrequest-timeout = \"1500ms\"\n").unwrap();
    });
    let plain = submit(&slurm, "plain", &["-t", "5"]);
    plain.says(0, "");
    assert_eq!(field(&slurm, &id(plain), "TimeLimit"), "00:05:00");

    submit(&slurm, "plain", &["-t", "9999"]).says(
        1,
        "sbatch: error: at most 1440 minutes\nsbatch: error: Batch job submission failed: Requested \
         time limit is invalid (missing or exceeds some limit)",
    );

    let ten = id(submit(&slurm, "ten", &["-t", "5"]));
    let shown = |name| field(&slurm, &ten, name);
    assert_eq!(shown("Account"), "gold");
    assert_eq!(shown("Comment"), "second saw 7");
    assert_eq!(shown("CPUs/Task"), "3");
    assert_eq!(shown("MailType"), "END");
    assert_eq!(shown("MailUser"), "admin@example.org");
    assert_eq!(shown("JobName"), "rewritten");
    assert_eq!(shown("Nice"), "17");
    assert_eq!(shown("Partition"), "debug");
    assert_eq!(shown("Requeue"), "0");
    assert_eq!(shown("StdOut"), "/dev/null");
    assert_eq!(shown("TimeLimit"), "00:07:00");

    submit(&slurm, "partitions", &[]).says(
        0,
        &format!(
            "sbatch: batch debug\nsbatch: {} Some(1000)",
            run(Command::new("id").arg("-un")).ok()
        ),
    );

    let later = submit(&slurm, "later", &[]);
    later.says(0, "sbatch: decided later");
    assert_eq!(field(&slurm, &id(later), "Account"), "later");

    submit(&slurm, "invalid", &["-p", "debug", "-t", "3"]).says(
        1,
        "sbatch: error: debug 180\nsbatch: error: Batch job submission failed: Unspecified error",
    );

    // Neither a plugin that never decides nor one that hangs delays slurmctld for longer.
    let late = "sbatch: error: no answer of the site's plugins within 1.5s; please report it\n\
                sbatch: error: Batch job submission failed: Unspecified error";
    submit(&slurm, "late", &[]).says(1, late);
    submit(&slurm, "hang", &[]).says(1, late);
    submit(&slurm, "plain", &[]).says(1, late);
    until("the handler has returned", || submit(&slurm, "plain", &[]).code == 0);
}

fn a_script_and_a_file_follow_each_other(of: &Installation) {
    let built = job_submit(of, &["limits", "second"]);
    let script = "function slurm_job_submit(desc, parts, uid)\n\
                  slurm.log_user('from lua')\n desc.name = 'ten'\n return slurm.SUCCESS\nend\n\
                  function slurm_job_modify() return slurm.SUCCESS end\n";
    let slurm = Slurm::start_in(of, "JobSubmitPlugins=lua,site", |etc| {
        built.put(etc);
        fs::write(etc.join("job_submit.lua"), script).unwrap();
    });
    let submitted = submit(&slurm, "plain", &["-t", "5"]);
    submitted.says(0, "sbatch: from lua");
    assert_eq!(field(&slurm, &id(submitted), "Comment"), "second saw 7");
    submit(&slurm, "plain", &["-t", "9999"]).says(
        1,
        "sbatch: error: from lua\nsbatch: error: at most 1440 minutes\nsbatch: error: Batch job \
         submission failed: Requested time limit is invalid (missing or exceeds some limit)",
    );
}

fn the_environment_reaches_the_job(of: &Installation) {
    let built = job_submit(of, &["limits"]);
    let mut slurm = Slurm::start_in(of, PLUGIN, |etc| built.put(etc));
    slurm.start_node();
    let out = slurm.scripts().join("out");
    let script = format!("echo \"$FROM_JOBTAP/$HOME\" > {}", out.display());
    slurm.sbatch(&["-J", "ten", "--wait", "--wrap", &script]).ok();
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(fs::read_to_string(out).unwrap(), format!("a value/{home}\n"));
}

fn changes_of_a_job_are_decided_with_its_record(of: &Installation) {
    let built = job_submit(of, &["limits"]);
    let slurm = Slurm::start_in(of, PLUGIN, |etc| built.put(etc));
    let job = id(submit(&slurm, "plain", &["-t", "5", "-c", "2", "-D", "/tmp"]));
    let update =
        |change: &str| slurm.client("scontrol", &["update", &format!("jobid={job}"), change]);
    update("TimeLimit=9").ok();
    assert_eq!(field(&slurm, &job, "TimeLimit"), "00:09:00");
    assert_eq!(field(&slurm, &job, "Comment"), "plain /tmp 2 Some(5)");
    let refused = update("TimeLimit=9999");
    assert_eq!(refused.code, 1);
    let text = "Requested time limit is invalid (missing or exceeds some limit)";
    assert!(refused.stderr.contains(text), "{refused:?}");
    // Slurm 22.05 can't pass on the message: it is in the log.
    let is_told = refused.stderr.contains("scontrol: error: at most 1440 minutes\n");
    assert_eq!(is_told, !is_22_05(of), "{refused:?}");
    let line = format!("jobtap: job {job}: change by user 0: at most 1440 minutes");
    assert_eq!(slurm.log("slurmctld.log").contains(&line), is_22_05(of));
    assert_eq!(field(&slurm, &job, "TimeLimit"), "00:09:00");
}

fn the_configuration_is_beside_slurm_conf(of: &Installation) {
    let built = job_submit(of, &["limits"]);
    let conf = |text: &'static str| {
        let built = &built;
        move |etc: &Path| {
            built.put(etc);
            fs::write(etc.join("jobtap.toml"), text).unwrap();
        }
    };
    let log = Slurm::refuses_to_start(of, PLUGIN, conf("[plugins.limits]\nminuts = 5\n"));
    let refusal = "error: jobtap: plugin limits can't be loaded: [plugins.limits]: unknown key \
                   \"minuts\"; did you mean \"minutes\"?";
    assert!(log.contains(refusal), "{log}");
    assert!(log.contains("fatal: failed to initialize job_submit plugin"), "{log}");

    let mut slurm = Slurm::start_daemon(of, PLUGIN, conf("[plugins.limits]\nminutes = 5\n"));
    let pid = slurm.controller();
    let most = |slurm: &Slurm| submit(slurm, "plain", &["-t", "9999"]).stderr;
    assert!(most(&slurm).contains("at most 5 minutes"));
    let rewrite = |slurm: &Slurm, text: &str| {
        fs::write(slurm.scripts().join("jobtap.toml"), text).unwrap();
        // slurmctld has the time of its last reconfiguration in seconds.
        std::thread::sleep(Duration::from_millis(1100));
        slurm.client("scontrol", &["reconfigure"]).code
    };
    assert_eq!(rewrite(&slurm, "[plugins.limits]\nminutes = 6\n"), 0);
    assert!(most(&slurm).contains("at most 6 minutes"));
    // From 23.11 on that is another process, in which the plugins have started anew.
    assert_eq!(slurm.controller() == pid, is_22_05(of));
    let code = rewrite(&slurm, "[plugins.limits]\nminutes = 0\n");
    assert_eq!(code == 0, is_22_05(of));
    assert!(most(&slurm).contains("at most 6 minutes"));
    let log = slurm.log("slurmctld.log");
    let kept = match is_22_05(of) {
        true => "minutes: must not be 0; the configuration stays as it was",
        false => "Resuming operation, reconfigure failed",
    };
    assert!(log.contains("minutes: must not be 0") && log.contains(kept), "{log}");
    assert_eq!(rewrite(&slurm, "[plugins.limits]\nminutes = 7\n"), 0);
    slurm.restart_controller();
    assert!(most(&slurm).contains("at most 7 minutes"));
}

fn a_field_that_this_slurm_lacks_is_refused_by_name(of: &Installation) {
    let built = job_submit(of, &["limits"]);
    let slurm = Slurm::start_in(of, PLUGIN, |etc| built.put(etc));
    let output = submit(&slurm, "segments", &[]);
    let refusal = "sbatch: error: a plugin's change can't be made: segment_size: Slurm 22.05 has no such field, only \
                   those since 24.05";
    assert_eq!(output.code == 0, !is_22_05(of), "{output:?}");
    assert_eq!(output.stderr.contains(refusal), is_22_05(of), "{output:?}");
}

fn requests_at_once_are_all_decided(of: &Installation) {
    let built = job_submit(of, &["tenth"]);
    let slurm = Slurm::start_in(of, PLUGIN, |etc| built.put(etc));
    let some = || (0..25).map(|_| submit(&slurm, "job", &[])).collect::<Vec<_>>();
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(some)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let accepted = outputs.iter().filter(|output| output.code == 0).count();
    assert_eq!((outputs.len(), accepted), (200, 180));
    // The plugin has counted them: no call saw the data of another.
    let shown = slurm.client("scontrol", &["-o", "show", "job"]).ok();
    for request in (1..=200).filter(|request| request % 10 != 0) {
        let comment = format!("Comment=request {request} ");
        assert_eq!(shown.matches(&comment).count(), 1, "{comment}");
    }
}

fn from_23_02_on_a_request_does_not_wait_for_another(of: &Installation) {
    if is_22_05(of) {
        return;
    }
    let built = job_submit(of, &["together"]);
    let slurm = Slurm::start_in(of, PLUGIN, |etc| built.put(etc));
    let submit = || submit(&slurm, "job", &[]).stderr;
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(submit);
        (submit(), one.join().unwrap())
    });
    assert_eq!((one.trim(), other.trim()), ("sbatch: together", "sbatch: together"));
}

/// The resident memory of a process, in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn slurmctld_outlives_a_plugin_that_panics(of: &Installation) {
    let built = job_submit(of, &["tenth", "second"]);
    let slurm = Slurm::start_in(of, PLUGIN, |etc| built.put(etc));
    // Slurm refuses these requests after the plugin has seen them, and stores nothing of them, so any growth is the plugin's. The plugin replaces script and
    // environment; if it kept them, that would be many times the limit.
    let script = slurm.scripts().join("job.sh");
    fs::write(&script, format!("#!/bin/sh\n{}", "# a long script\n".repeat(6000))).unwrap();
    let script = script.display().to_string();
    let export = format!("--export=ALL,LONG={}", "x".repeat(100_000));
    let try_out = || slurm.client("sbatch", &["-p", "nowhere", &export, &script]);
    (0..100).for_each(|_| drop(try_out()));
    let before = memory(slurm.controller());
    (0..300).for_each(|_| drop(try_out()));
    let after = memory(slurm.controller());
    // The allocator keeps some memory for each thread that has served a request. What the plugin could keep is 57 MiB.
    assert!(after < before + 16 * 1024, "{before} KiB before, {after} KiB after");
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..100 {
        let output = submit(&slurm, "job", &[]);
        match output.code {
            0 => accepted += 1,
            _ => {
                refused += 1;
                output.says(
                    1,
                    "sbatch: error: plugin tenth failed; the request is refused, please report it\n\
                     sbatch: error: Batch job submission failed: Unspecified error",
                );
            }
        }
    }
    assert_eq!((accepted, refused), (90, 10));
    let log = slurm.log("slurmctld.log");
    assert_eq!(log.matches("tenth: slurm.job_submit: panicked: the tenth request").count(), 50);
    assert!(log.contains("error: jobtap: panic at "), "the place of the panic is in the log");
    assert_eq!(slurm.client("scontrol", &["ping"]).code, 0);
}

in_each_slurm! {
    a_field_that_this_slurm_lacks_is_refused_by_name
    requests_at_once_are_all_decided
    from_23_02_on_a_request_does_not_wait_for_another
    requests_are_accepted_refused_rewritten
    a_script_and_a_file_follow_each_other
    the_environment_reaches_the_job
    changes_of_a_job_are_decided_with_its_record
    the_configuration_is_beside_slurm_conf
    slurmctld_outlives_a_plugin_that_panics
}
