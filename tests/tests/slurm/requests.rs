//! Requests that plugins see in Slurm's terms, in a real manager: the messages that users get, and what the plugins'
//! changes do to jobs.

use jobtap_tests::{Manager, probe_manager};

const PROG: &str = "probe-manager";

fn manager() -> Manager {
    let config = "[job-manager]\nplugins = [{ load = \"slurm-probe\" }, { load = \"throttle\" }]\n\
                  [plugins.throttle]\njobs_per_user_per_hour = 7\n";
    Manager::start_with(probe_manager(), config)
}

#[test]
fn messages_of_plugins_reach_the_user() {
    let m = manager();
    let greeted = m.jobtap("submit --job-name=greet true");
    assert_eq!(greeted.stderr, format!("{PROG}-submit: hello\n{PROG}-submit: and welcome\n"));
    let id = greeted.ok();
    m.wait(&id, "clean");

    let refused = m.jobtap("submit --job-name=refuse true");
    let told = format!("{PROG}-submit: ask for access\n[Errno 22] Access/permission denied\n");
    assert_eq!((refused.code, refused.stderr), (1, told));

    let run = m.jobtap("run --job-name=greet printenv SUBMITTED_BY");
    assert_eq!(run.stderr, format!("{PROG}-run: hello\n{PROG}-run: and welcome\n"));
    let own = own_uid();
    assert_eq!(run.ok(), own);
}

/// The id of the user who runs this test.
fn own_uid() -> String {
    jobtap_tests::run(std::process::Command::new("id").arg("-u")).ok()
}

#[test]
fn changes_of_jobs_are_answered_with_messages_too() {
    let m = manager();
    let id = m.submit("--urgency=hold true");
    let urgency = m.jobtap(&format!("job urgency {id} 10"));
    assert_eq!((urgency.code, urgency.stderr), (0, format!("{PROG}-job: asked: true\n")));
    let id = m.submit("--urgency=hold true");
    let update = m.jobtap(&format!("update {id} duration=1h"));
    assert_eq!((update.code, update.stderr), (0, format!("{PROG}-update: asked: true\n")));
    assert_eq!(m.field(&id, "duration"), "3600.0");
}

#[test]
fn a_job_that_no_host_can_run_after_a_change_is_refused() {
    let dir = jobtap_tests::temporary();
    let script = "function slurm_job_submit(job)\n\
                  if job.name == 'long' then job.environment.SITE = string.rep('x', 200000) end\n\
                  return slurm.SUCCESS\nend\n\
                  function slurm_job_modify() return slurm.SUCCESS end\n";
    let file = dir.path().join("job_submit.lua");
    std::fs::write(&file, script).unwrap();
    let config = format!(
        "[job-manager]\nplugins = [{{ load = \"lua\" }}]\n[plugins.lua]\nscript = \"{}\"\n",
        file.display()
    );
    let m = Manager::start_with(jobtap_tests::jobtap(), &config);
    let refused = m.jobtap("submit --job-name=long true");
    let reason = "variable SITE has 200005 bytes, and Linux allows 131071";
    assert!(refused.code == 1 && refused.stderr.contains(reason), "{refused:?}");
    assert_eq!(m.jobtap("jobs -a -no {id}").ok(), "");
    m.submit("--job-name=short true");
}

#[test]
fn a_user_who_submits_too_much_is_told_why() {
    let m = manager();
    let bulk = m.jobtap("bulksubmit true ::: 1 2 3 4 5 6 7 8");
    let said = |text: &str| bulk.stderr.matches(text).count();
    assert_eq!((bulk.code, said("bulksubmit: Reached jobs per hour limit")), (1, 1), "{bulk:?}");
    assert_eq!(said("[Errno 22]"), 1, "{bulk:?}");
    assert_eq!(bulk.stdout.lines().count(), 7);
}
