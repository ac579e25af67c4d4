//! Files that were built by Slurm's public headers alone, for plugins that see nothing but requests.

use jobtap_tests::slurm::{Installation, Slurm};

use super::built::job_submit;

/// The newest Slurm, which is there without its source.
fn newest() -> Option<Installation> {
    let slurm = Installation::made("26.05");
    match slurm.missing_for_submissions() {
        Some(missing) => {
            eprintln!("skipped: there is no {missing}");
            None
        }
        None => Some(slurm),
    }
}

const PLUGIN: &str = "JobSubmitPlugins=site";

#[test]
fn requests_are_decided_and_rewritten() {
    let Some(of) = newest() else { return };
    let built = job_submit(&of, &["later", "tenth"]);
    let slurm = Slurm::start_in(&of, PLUGIN, |etc| built.put(etc));
    let submit = |name: &str| slurm.sbatch(&["--hold", "-J", name, "--wrap", "true"]);
    let later = submit("later");
    later.says(0, "sbatch: decided later");
    let id = later.stdout.trim().rsplit(' ').next().unwrap().to_owned();
    let shown = slurm.client("scontrol", &["-o", "show", "job", &id]).ok();
    assert!(shown.contains("Account=later") && shown.contains("Comment=request 1"), "{shown}");
    let codes: Vec<i32> = (0..20).map(|_| submit("job").code).collect();
    assert_eq!(codes.iter().filter(|code| **code != 0).count(), 2, "{codes:?}");
}

#[test]
fn a_plugin_that_needs_jobs_is_not_loaded() {
    let Some(of) = newest() else { return };
    let built = job_submit(&of, &["limits"]);
    let log = Slurm::refuses_to_start(&of, PLUGIN, |etc| built.put(etc));
    let refusal = "error: jobtap: this file was built without Slurm's source, and a plugin in it needs jobs: build it \
                   with SLURM_SOURCE_DIR";
    assert!(log.contains(refusal), "{log}");
}
