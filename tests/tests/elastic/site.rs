//! A manager on a login node, beside a Slurm of four nodes.

use std::path::Path;
use std::process::Command;

use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{Output, Process, clean, jobtap, run, serve, temporary, until};
use tempfile::TempDir;

/// A Slurm, and an elastic instance that orders allocations there.
pub(crate) struct Site {
    manager: Option<Process>,
    slurm: Option<Slurm>,
    dir: TempDir,
}

impl Site {
    /// Starts both, with these tables. `None` if there is no Slurm here.
    pub(crate) fn start(tables: &str) -> Option<Self> {
        Self::beside("", tables)
    }

    /// As [`start`](Self::start), with these lines in Slurm's configuration.
    #[allow(clippy::print_stdout)]
    pub(crate) fn beside(configuration: &str, tables: &str) -> Option<Self> {
        let installation = Installation::system();
        if let Some(what) = installation.missing() {
            println!("skipped: no {what}");
            return None;
        }
        let dir = temporary();
        let slurm = Some(Slurm::of_four_nodes_with(&installation, configuration));
        Some(Self::begin(slurm, dir, tables))
    }

    /// Starts a manager with these tables, which name no Slurm.
    pub(crate) fn without_slurm(tables: &str) -> Self {
        Self::begin(None, temporary(), tables)
    }

    fn begin(slurm: Option<Slurm>, dir: TempDir, tables: &str) -> Self {
        let mut site = Self { manager: None, slurm, dir };
        site.configure(tables);
        site.start_manager();
        site
    }

    /// The Slurm beside it.
    #[track_caller]
    pub(crate) fn slurm(&mut self) -> &mut Slurm {
        self.slurm.as_mut().unwrap()
    }

    /// Runs a command of Slurm's.
    #[track_caller]
    pub(crate) fn client(&self, program: &str, words: &[&str]) -> Output {
        self.slurm.as_ref().unwrap().client(program, words)
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, tables: &str) {
        let text = format!("[allocation-address]\nhost = \"127.0.0.1\"\n{tables}");
        std::fs::write(self.directory().join("config.toml"), text).unwrap();
    }

    /// Starts the manager, or the next one.
    #[track_caller]
    pub(crate) fn start_manager(&mut self) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory().join("manager.log"))
            .unwrap();
        let mut command = clean(jobtap());
        command.args(["start", "--config-path=config.toml", "--state-dir=state"]);
        command.arg("-Stbon.torpid_max=5s");
        command.current_dir(self.directory()).env("TMPDIR", self.directory());
        let conf = self.slurm.as_ref().map(|slurm| slurm.scripts().join("slurm.conf"));
        command.envs(conf.map(|conf| ("SLURM_CONF", conf)));
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        self.manager = Some(serve(command.stderr(log)));
        until("the manager listens", || self.jobtap("resource list -no {nnodes}").code == 0);
    }

    /// Kills the manager.
    pub(crate) fn kill_manager(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            let _ = manager.kill();
            let _ = manager.wait();
        }
    }

    /// Ends the manager as a service is stopped.
    #[track_caller]
    pub(crate) fn stop_manager(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            run(Command::new("kill").arg(manager.id().to_string())).ok();
            assert!(manager.wait().unwrap().success());
        }
    }

    /// A directory for files of jobs.
    pub(crate) fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command against the manager; words are split at blanks.
    #[track_caller]
    pub(crate) fn jobtap(&self, words: &str) -> Output {
        self.args(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs a command given as separate words.
    #[track_caller]
    pub(crate) fn args(&self, words: &[&str]) -> Output {
        run(&mut self.command(words))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = clean(jobtap());
        let uri = format!("local://{}", self.directory().join("state/local-0").display());
        command.env("JOBTAP_URI", uri).args(words).current_dir(self.directory());
        command
    }

    /// Runs a command as a guest; words are split at blanks.
    #[track_caller]
    pub(crate) fn as_guest(&self, words: &str) -> Output {
        let mut command = self.command(&words.split_whitespace().collect::<Vec<_>>());
        run(command.env("FLUX_HANDLE_USERID", "77").env("FLUX_HANDLE_ROLEMASK", "0x2"))
    }

    /// The jobs of Slurm that are not over: id, state and name of each.
    #[track_caller]
    pub(crate) fn squeue(&self) -> Vec<String> {
        let listed = self.client("squeue", &["-h", "-o", "%i %T %j"]).ok();
        listed.lines().map(str::to_owned).collect()
    }

    /// What slurmctld has said.
    pub(crate) fn slurm_log(&self) -> String {
        self.slurm.as_ref().map(|slurm| slurm.log("slurmctld.log")).unwrap_or_default()
    }

    /// What the manager has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory().join("manager.log")).unwrap_or_default()
    }
}

impl Drop for Site {
    /// Shows what has happened, if the test has failed.
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = ["dmesg", "kvs get allocation.eventlog", "allocation list --tables"];
            let said = said.map(|words| self.jobtap(words).stdout);
            eprintln!("{}\n{}", self.log(), said.join("\n"));
        }
        self.kill_manager();
    }
}
