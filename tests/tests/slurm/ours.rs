//! Our manager with the builtin `lua`, for the same scripts and requests.

use std::fs;
use std::path::{Path, PathBuf};

use jobtap_core::slurm::Release;
use jobtap_core::slurm::shown::FAILURE_REFUSES;
use jobtap_tests::{Manager, Output, jobtap, run, temporary};
use tempfile::TempDir;

/// A running manager, which ends when this value is dropped.
pub(crate) struct Ours {
    manager: Manager,
    dir: TempDir,
}

impl Ours {
    /// Starts a manager with the partitions of [`Slurm`](jobtap_tests::slurm::Slurm) as queues. Its `job_submit.lua` is
    /// what `script` returns for the directory of that file.
    pub(crate) fn start(release: Release, script: impl FnOnce(&Path) -> String) -> Self {
        let dir = temporary();
        let file = dir.path().join("job_submit.lua");
        fs::write(&file, script(dir.path())).unwrap();
        // What a script that fails at run time does to the job.
        let on_error = if release < FAILURE_REFUSES { "accept" } else { "reject" };
        let config = format!(
            "[queues.batch]\n\
             [queues.debug.policy.limits]\n\
             duration = \"60m\"\n\
             [queues.debug.policy.jobspec.defaults.system]\n\
             duration = \"60m\"\n\
             [policy.jobspec.defaults.system]\n\
             queue = \"batch\"\n\
             [job-manager]\n\
             plugins = [{{ load = \"lua\" }}]\n\
             [plugins.lua]\n\
             script = \"{}\"\n\
             on_error = \"{on_error}\"\n\
             slurm-version = \"{release}\"\n",
            file.display()
        );
        let manager = Manager::start_with(jobtap(), &config);
        // Named queues are stopped at first, as in Flux; Slurm's partitions are up.
        manager.jobtap("queue start --all --quiet").ok();
        Self { manager, dir }
    }

    /// The directory of `job_submit.lua`.
    pub(crate) fn scripts(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    /// Runs a command about a job, in which the word `ID` stands for the job.
    pub(crate) fn update(&self, id: &str, words: &[String]) -> Output {
        let words = words.iter().map(|word| if word == "ID" { id } else { word.as_str() });
        run(self.manager.command(words).current_dir("/"))
    }

    /// Runs `jobtap sbatch` with these words.
    pub(crate) fn sbatch(&self, words: &[&str]) -> Output {
        let words = ["sbatch"].iter().chain(words);
        run(self.manager.command(words).current_dir("/"))
    }
}
