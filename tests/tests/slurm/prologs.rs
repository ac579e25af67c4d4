//! The environment of prologs and epilogs: each variable that a real Slurm sets, with its value.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{Manager, jobtap, run, temporary, until};

const CONTEXTS: [&str; 4] =
    ["prolog_slurmctld", "prolog_slurmd", "epilog_slurmd", "epilog_slurmctld"];

/// Variables with ids of jobs, whose values differ.
const IDS: [&str; 3] = ["SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID"];

/// Variables that only a newer Slurm sets.
const NEWER: [&str; 7] = [
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_QOS",
    "SLURM_JOB_EXTRA",
    "SLURM_JOB_OVERSUBSCRIBE",
    "SLURM_JOB_LICENSES",
    "SLURM_JOB_NODELIST",
];

/// Submits an array of three jobs, one after the other.
const WORDS: &[&str] = &[
    "-o",
    "/dev/null",
    "--gres=gpu:2",
    "-n2",
    "-t30",
    "-J",
    "name",
    "-A",
    "physics",
    "--qos=normal",
    "--comment=a comment",
    "-L",
    "matlab:1",
    "--array=1-5:2%1",
    "--wrap",
    "exit 5",
];

type Variables = BTreeMap<String, String>;

/// A script that writes its variables to a file for each context and job.
fn script(directory: &Path) -> PathBuf {
    let (script, out) = (directory.join("script"), directory.join("out"));
    fs::create_dir_all(&out).unwrap();
    let file = format!("{}/$SLURM_SCRIPT_CONTEXT.$SLURM_JOB_ID", out.display());
    // The file is renamed once it is complete.
    fs::write(
        &script,
        format!("#!/bin/sh\n/usr/bin/env > {file}.new\n/bin/mv {file}.new {file}\n"),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// The variables of the first job of the array, for each context.
fn of_first_job(directory: &Path) -> Vec<Variables> {
    let out = directory.join("out");
    let read = |file: &Path| -> Variables {
        let text = fs::read_to_string(file).unwrap();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        // The shell sets these, and the last two are for commands of this manager.
        let own = ["PWD", "_", "SHLVL", "PATH", "JOBTAP_URI"];
        let pairs = pairs.filter(|(name, _)| !own.contains(name));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let ended = || {
        let files = fs::read_dir(&out).unwrap().flatten();
        let names = files.map(|file| file.file_name().into_string().unwrap());
        let ids = names.filter_map(|name| {
            let id = name.strip_prefix("epilog_slurmctld.")?;
            (!id.ends_with(".new")).then(|| id.to_owned())
        });
        ids.collect::<Vec<_>>()
    };
    until("all jobs of the array have ended", || ended().len() == 3);
    let of = |context: &str, id: &str| read(&out.join(format!("{context}.{id}")));
    let ids = ended();
    let is_first = |id: &&String| {
        of("epilog_slurmctld", id).get("SLURM_ARRAY_TASK_ID").is_some_and(|index| index == "1")
    };
    let first = ids.iter().find(is_first).unwrap();
    until("its epilog on the node has ended", || {
        out.join(format!("epilog_slurmd.{first}")).exists()
    });
    CONTEXTS.iter().map(|context| of(context, first)).collect()
}

fn theirs() -> Vec<Variables> {
    let directory = temporary();
    let script = script(directory.path());
    let lines = ["Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"]
        .map(|key| format!("{key}={}\n", script.display()));
    let lines = format!(
        "{}PrologFlags=Alloc\nGresTypes=gpu\nLicenses=matlab:5\nNodeName=DEFAULT Gres=gpu:4",
        lines.concat()
    );
    let mut slurm = Slurm::start_with(&lines, |etc| {
        // Any devices will do.
        let gpus =
            ["null", "zero", "full", "random"].map(|name| format!("Name=gpu File=/dev/{name}\n"));
        fs::write(etc.join("gres.conf"), gpus.concat()).unwrap();
    });
    slurm.start_node();
    slurm.sbatch(WORDS).ok();
    of_first_job(directory.path())
}

fn ours(conf: &str) -> Vec<Variables> {
    let directory = temporary();
    let script = script(directory.path());
    let keys = ["prolog", "epilog", "prolog-slurmctld", "epilog-slurmctld"]
        .map(|key| format!("{key} = \"{}\"\n", script.display()));
    let manager = Manager::start_with(
        jobtap(),
        &format!(
            "gpus = \"0-3\"\n[queues.batch]\n[policy.jobspec.defaults.system]\nqueue = \"batch\"\n\
             [job-manager]\nplugins = [{{ load = \"prep-script\" }}, {{ load = \"licenses\" }}]\n\
             [plugins.licenses]\nmatlab = 5\n[plugins.prep-script]\n\
             {}cluster-name = \"t\"\nslurm-conf = \"{conf}\"\n",
            keys.concat()
        ),
    );
    manager.jobtap("queue start --all --quiet").ok();
    let words = ["sbatch"].iter().chain(WORDS);
    run(manager.command(words).current_dir("/")).ok();
    of_first_job(directory.path())
}

#[test]
fn scripts_are_told_what_a_real_slurm_tells_them() {
    if let Some(missing) = Installation::system().missing() {
        eprintln!("skipped: there is no {missing}");
        return;
    }
    let theirs = theirs();
    let ours = ours(&theirs[1]["SLURM_CONF"]);
    let mut differences = Vec::new();
    for ((context, theirs), ours) in CONTEXTS.iter().zip(&theirs).zip(&ours) {
        for (name, value) in theirs {
            match ours.get(name) {
                Some(_) if IDS.contains(&name.as_str()) => {}
                Some(own) if own == value => {}
                own => differences.push(format!("{context} {name}: Slurm {value:?}, ours {own:?}")),
            }
        }
        for (name, value) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
            if !NEWER.contains(&name.as_str()) {
                differences.push(format!("{context} {name}: ours only: {value:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // The GPUs are among the compared variables.
    assert_eq!(theirs[1]["SLURM_JOB_GPUS"], "0,1");
}
