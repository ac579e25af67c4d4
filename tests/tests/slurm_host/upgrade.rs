//! Upgrades of a slurmctld with pending jobs: what the guide tells a site to do, and what happens without it.

use std::fs;
use std::path::Path;
use std::process::Command;

use jobtap_tests::run;
use jobtap_tests::slurm::{Installation, Slurm};

use super::built::{Built, job_submit};

const PLUGIN: &str = "JobSubmitPlugins=site";

/// Releases of Slurm, each with its own file of the same plugin, which sets the comment of each request.
struct Site {
    releases: Vec<(Installation, Built)>,
}

impl Site {
    /// Builds for these releases; `None` if one of them isn't there.
    fn build(releases: [Installation; 2]) -> Option<Self> {
        if let Some(missing) = releases.iter().find_map(Installation::missing_for_submissions) {
            eprintln!("skipped: there is no {missing}");
            return None;
        }
        let built = |of: Installation| (job_submit(&of, &["tenth"]), of);
        let releases = releases.into_iter().map(built).map(|(file, of)| (of, file)).collect();
        Some(Self { releases })
    }

    /// Starts the oldest one, with the files of all of them in directories of their own.
    fn start(&self) -> Slurm {
        let (oldest, _) = &self.releases[0];
        Slurm::start_in(oldest, PLUGIN, |etc| {
            for (of, file) in &self.releases {
                let directory = etc.join("../plugins").join(of.version());
                fs::create_dir(&directory).unwrap();
                file.put_into(&directory);
            }
            change_plugin_dir(etc, oldest);
        })
    }
}

/// Names the directory of this release's file in slurm.conf.
fn change_plugin_dir(etc: &Path, of: &Installation) {
    let conf = etc.join("slurm.conf");
    let changed = |line: &str| match line.split_once("/plugins") {
        Some((begin, _)) if line.starts_with("PluginDir=") => {
            format!("{begin}/plugins/{}\n", of.version())
        }
        _ => format!("{line}\n"),
    };
    let text: String = fs::read_to_string(&conf).unwrap().lines().map(changed).collect();
    fs::write(conf, text).unwrap();
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    run(Command::new("cp").arg("-a").arg(from).arg(to)).ok();
}

/// Submits a held job.
#[track_caller]
fn submit(slurm: &Slurm, name: &str) {
    slurm.sbatch(&["--hold", "-J", name, "-t", "30", "-A", name, "--wrap", "true"]).ok();
}

/// The jobs, each with its comment from the plugin.
#[track_caller]
fn pending(slurm: &Slurm) -> Vec<String> {
    let shown = slurm.client("squeue", &["-h", "-S", "i", "-t", "PD", "-o", "%i %j %a %l %k"]);
    shown.ok().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn pending_jobs_and_the_policy_outlast_an_upgrade() {
    let (old, new) = (Installation::made("24.11"), Installation::made("26.05"));
    let Some(site) = Site::build([old.clone(), new.clone()]) else { return };
    let mut slurm = site.start();
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| submit(&slurm, name));
    let before = ["1 one one 30:00 request 1", "2 two two 30:00 request 2"];
    let before = [before.as_slice(), &["3 three three 30:00 request 3"]].concat();
    assert_eq!(pending(&slurm), before);
    let kept = slurm.scripts().join("../state-before");
    slurm.stop_controller();
    copy(&slurm.state(), &kept);

    // The file of the old release isn't loaded by the new one.
    let log = slurm.is_refused_by(&new);
    assert!(log.contains(&format!("version ({})", old.version())), "{log}");
    assert!(log.contains("fatal: failed to initialize job_submit plugin"), "{log}");
    change_plugin_dir(&slurm.scripts(), &new);
    slurm.go_on_with(&new);
    submit(&slurm, "four");
    let after = [before.as_slice(), &["4 four four 30:00 request 1"]].concat();
    assert_eq!(pending(&slurm), after);

    // The way back needs the state from before.
    slurm.stop_controller();
    change_plugin_dir(&slurm.scripts(), &old);
    let log = slurm.is_refused_by(&old);
    assert!(
        log.contains("fatal: Can not recover assoc_usage state, incompatible version"),
        "{log}"
    );
    copy(&kept, &slurm.state());
    slurm.go_on_with(&old);
    submit(&slurm, "other");
    assert_eq!(pending(&slurm), [before.as_slice(), &["4 other other 30:00 request 1"]].concat());
}

#[test]
fn a_state_that_is_older_than_three_releases_is_refused() {
    let (old, new) = (Installation::system(), Installation::made("24.11"));
    let is_22_05 = |of: &Installation| of.missing().is_some() || of.version().starts_with("22.05.");
    if !is_22_05(&old) {
        eprintln!("skipped: the Slurm of this machine isn't 22.05");
        return;
    }
    let Some(site) = Site::build([old.clone(), new.clone()]) else { return };
    let mut slurm = site.start();
    submit(&slurm, "one");
    let kept = slurm.scripts().join("../state-before");
    slurm.stop_controller();
    copy(&slurm.state(), &kept);
    change_plugin_dir(&slurm.scripts(), &new);
    let log = slurm.is_refused_by(&new);
    // 9728 is 22.05, 9984 is 23.02, and 10752 is 24.11.
    let refusal = "fatal: Can not recover assoc_usage state, incompatible version, got 9728 need >= 9984 <= 10752";
    assert!(log.contains(refusal), "{log}");

    // Even a refused start has changed the state.
    change_plugin_dir(&slurm.scripts(), &old);
    let log = slurm.is_refused_by(&old);
    assert!(log.contains("fatal: CLUSTER NAME MISMATCH"), "{log}");
    copy(&kept, &slurm.state());
    slurm.go_on_with(&old);
    submit(&slurm, "two");
    assert_eq!(pending(&slurm), ["1 one one 30:00 request 1", "2 two two 30:00 request 1"]);
}
