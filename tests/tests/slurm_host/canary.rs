//! A file that was built from a source that isn't that of the daemons, though it says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{run, temporary};

use super::built::{job_submit, prep};

/// Where releases declare records of jobs.
const RECORDS: [&str; 2] = ["src/common/job_record.h", "src/slurmctld/slurmctld.h"];

/// Makes links to a source whose records of jobs have one more member before the id, as a site's patch could add.
fn patch(source: &Path, into: &Path) {
    run(Command::new("cp").arg("-as").arg(source.join(".")).arg(into)).ok();
    for name in RECORDS {
        let text = fs::read_to_string(into.join(name)).unwrap_or_default();
        let patched =
            text.replace("\nstruct job_record {", "\nstruct job_record {\n\tuint64_t patched;");
        if patched != text {
            fs::remove_file(into.join(name)).unwrap();
            fs::write(into.join(name), patched).unwrap();
        }
    }
}

#[test]
fn records_that_are_laid_out_otherwise_are_not_read() {
    // One Slurm is enough, since its file is compiled only for this.
    let all = [Installation::made("24.11"), Installation::system()];
    let Some(of) = all.iter().find(|of| of.missing_for_plugins().is_none()) else {
        eprintln!("skipped: there is no Slurm with its source");
        return;
    };
    let patched = temporary();
    patch(of.source().unwrap(), patched.path());
    let other = of.with_source(patched.path());
    let (submit, prep) = (job_submit(&other, &["limits"]), prep(&other, &["stages"]));
    let lines = "JobSubmitPlugins=site\nPrEpPlugins=site\nPrologFlags=Alloc";
    let mut slurm = Slurm::start_in(of, lines, |etc| {
        submit.put(etc);
        prep.put(etc);
    });
    slurm.start_node();
    // Requests don't depend on it.
    let held = slurm.sbatch(&["--hold", "-t", "5", "--wrap", "true"]).ok();
    let id = held.trim().rsplit(' ').next().unwrap();
    let refused = slurm.client("scontrol", &["update", &format!("jobid={id}"), "TimeLimit=9"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    slurm.sbatch(&["-W", "-o", "/dev/null", "--wrap", "true"]);
    let log = slurm.log("slurmctld.log");
    for call in ["request of user 0", "Prolog"] {
        let line = format!("error: jobtap: {call}: the daemon's job_record_t isn't laid out as in");
        assert!(log.contains(&line), "{log}");
    }
    assert_eq!(slurm.client("scontrol", &["ping"]).code, 0);
}
