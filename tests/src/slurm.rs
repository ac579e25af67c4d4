//! A Slurm of the test's own, from Debian's packages, with a munged beside it. Without [`Slurm::start_node`] it has no
//! slurmd, and its jobs stay pending.
//!
//! It is the Slurm of this machine, or a newer one in a root that `.ci/slurm-roots` has made. The programs of a root
//! see its `/usr` in place of the machine's, in a mount namespace of their own. So they find their libraries and
//! plugins where they expect them, and see all other files of the machine.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{Output, Process, run, serve, temporary, until};

const MUNGED: &str = "/usr/sbin/munged";
const SLURMCTLD: &str = "/usr/sbin/slurmctld";
const SLURMD: &str = "/usr/sbin/slurmd";
const SBATCH: &str = "/usr/bin/sbatch";
/// From Debian's package libslurm-dev.
const HEADER: &str = "/usr/include/slurm/slurm.h";
const CONTROLLER: &str = "src/slurmctld/slurmctld.h";

/// A Slurm on this machine.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The directory with its `usr`; `None` for the Slurm of this machine.
    root: Option<PathBuf>,
    /// Whether Slurm's own source is there, too.
    source: Option<PathBuf>,
}

impl Installation {
    /// The Slurm of this machine, with the source in `SLURM_SOURCE_DIR` or what `.ci/slurm-source` has put beside the
    /// build.
    pub fn system() -> Self {
        let named = std::env::var_os("SLURM_SOURCE_DIR").map(PathBuf::from);
        let source = named.or_else(|| source_below(&target().join("slurm-source")));
        Self { root: None, source }
    }

    /// A Slurm that `.ci/slurm-roots` has made, such as `24.11`.
    pub fn made(release: &str) -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").unwrap_or_default();
        let cache = cache.unwrap_or_else(|| Path::new(&home).join(".cache"));
        let made = cache.join("jobtap-ci").join(format!("slurm-{release}"));
        let source = source_below(&made.join("source"));
        Self { root: Some(made.join("root")), source }
    }

    /// What is missing to run a controller and a node, for the message that a test is skipped.
    pub fn missing(&self) -> Option<String> {
        let is_there = |program: &&str| self.at(program).exists();
        match (&self.root, [MUNGED, SLURMCTLD, SLURMD, SBATCH].iter().all(is_there)) {
            (_, true) => None,
            (None, _) => Some("slurmctld, slurmd, sbatch or munged".to_owned()),
            (Some(root), _) => Some(format!("{}: run .ci/slurm-roots", root.display())),
        }
    }

    /// The part of Slurm that is missing for plugins in Rust, for the message that a test is skipped.
    pub fn missing_for_plugins(&self) -> Option<String> {
        self.missing().or_else(|| self.missing_for_submissions()).or_else(|| match &self.source {
            Some(source) if source.join(CONTROLLER).exists() => None,
            _ if self.root.is_some() => Some(format!("{CONTROLLER} beside the root")),
            _ => Some(format!("{CONTROLLER}: run .ci/slurm-source, or set SLURM_SOURCE_DIR")),
        })
    }

    /// The part of Slurm that is missing for plugins that see only requests.
    pub fn missing_for_submissions(&self) -> Option<String> {
        self.missing().or_else(|| match self.at(HEADER).exists() {
            true => None,
            false => Some("slurm/slurm.h: install libslurm-dev".to_owned()),
        })
    }

    /// The directory with `slurm/slurm.h`.
    pub fn include(&self) -> PathBuf {
        self.at("/usr/include")
    }

    /// The source of this Slurm.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// The same Slurm with another source.
    pub fn with_source(&self, source: &Path) -> Self {
        Self { source: Some(source.to_owned()), ..self.clone() }
    }

    /// Its version, such as `24.11.5`.
    #[track_caller]
    pub fn version(&self) -> String {
        // Unlike the commands for users it needs no configuration for this.
        let printed = run(self.command(SLURMCTLD).arg("-V")).stdout;
        printed.split_whitespace().next_back().unwrap_or_default().to_owned()
    }

    /// Where a file of this Slurm is.
    fn at(&self, file: &str) -> PathBuf {
        match &self.root {
            None => PathBuf::from(file),
            Some(root) => root.join(file.trim_start_matches('/')),
        }
    }

    /// The command that runs a program of this Slurm.
    fn command(&self, program: &str) -> Command {
        let Some(root) = &self.root else { return Command::new(program) };
        let mut command = Command::new("unshare");
        let enter = "mount --bind \"$0/usr\" /usr && exec \"$@\"";
        command.args(["--mount", "sh", "-c", enter]).arg(root).arg(program);
        command
    }
}

/// The first source of Slurm in a directory.
fn source_below(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find(|root| root.join(CONTROLLER).exists())
}

/// A running slurmctld, which ends when this value is dropped.
pub struct Slurm {
    installation: Installation,
    dir: TempDir,
    // Dropped before munged, which all need until they end.
    nodes: Vec<Process>,
    controller: Option<Process>,
    /// Whether slurmctld is in the background, as a site runs it, so that it can start a successor.
    is_daemon: bool,
    _munged: Process,
}

impl Slurm {
    /// Starts a Slurm whose `job_submit.lua` is what `script` returns for the directory of that file.
    #[track_caller]
    pub fn start_with_script(of: &Installation, script: impl FnOnce(&Path) -> String) -> Self {
        let lines = "JobSubmitPlugins=lua\nGresTypes=gpu\n\
                     NodeName=DEFAULT Gres=gpu:8 Feature=a,b,gpu,hbm80g,mc,perf";
        Self::start_in(of, lines, |etc| {
            let script = script(etc);
            write(&etc.join("job_submit.lua"), script);
        })
    }

    /// Starts a Slurm with these lines of configuration. `files` is called with the directory of slurm.conf before the
    /// start. Slurm also looks for plugins in the directory `plugins` beside that one.
    #[track_caller]
    pub fn start_with(lines: &str, files: impl FnOnce(&Path)) -> Self {
        Self::start_in(&Installation::system(), lines, files)
    }

    /// Like [`start_with`](Self::start_with), with this Slurm.
    #[track_caller]
    pub fn start_in(of: &Installation, lines: &str, files: impl FnOnce(&Path)) -> Self {
        let mut slurm = Self::prepare(of, lines, files);
        slurm.start_controller();
        slurm
    }

    /// Like [`start_in`](Self::start_in), with a slurmctld in the background. Only such a one lives on when the
    /// successor that it starts at `scontrol reconfigure` fails.
    #[track_caller]
    pub fn start_daemon(of: &Installation, lines: &str, files: impl FnOnce(&Path)) -> Self {
        let mut slurm = Self::prepare(of, lines, files);
        slurm.is_daemon = true;
        slurm.start_controller();
        slurm
    }

    /// Like [`start_in`](Self::start_in), for a slurmctld that doesn't start. Returns its log.
    #[track_caller]
    pub fn refuses_to_start(of: &Installation, lines: &str, files: impl FnOnce(&Path)) -> String {
        Self::prepare(of, lines, files).is_refused()
    }

    /// Starts this Slurm's slurmctld on the same state, and expects that it refuses to start. Returns its
    /// log. The one before must have been stopped.
    #[track_caller]
    pub fn is_refused_by(&mut self, of: &Installation) -> String {
        self.installation = of.clone();
        self.is_refused()
    }

    #[track_caller]
    fn is_refused(&self) -> String {
        let before = self.log("slurmctld.log").len();
        let ended = run(self.daemon(SLURMCTLD).stderr(Stdio::null()));
        assert_ne!(ended.code, 0, "it starts");
        self.log("slurmctld.log").split_off(before)
    }

    #[track_caller]
    fn prepare(of: &Installation, lines: &str, files: impl FnOnce(&Path)) -> Self {
        let dir = temporary();
        let at = |name: &str| dir.path().join(name);
        for name in ["etc", "state", "spool", "run", "plugins"] {
            if let Err(error) = fs::create_dir(at(name)) {
                panic!("{name}: {error}");
            }
        }
        let key: Vec<u8> = (0..1024_u32).map(|n| (n * 37 % 251) as u8).collect();
        write(&at("etc/munge.key"), key);
        let private = fs::Permissions::from_mode(0o600);
        if let Err(error) = fs::set_permissions(at("etc/munge.key"), private) {
            panic!("munge.key: {error}");
        }
        let socket = at("run/munge.sock");
        // `--force`, since the directory for temporary files is open to others; this key protects nothing.
        let munged = serve(
            Command::new(MUNGED)
                .args(["--foreground", "--force", "--num-threads=2"])
                .arg(with("--socket=", &socket))
                .arg(with("--key-file=", &at("etc/munge.key")))
                .arg(with("--pid-file=", &at("run/munged.pid")))
                .arg(with("--log-file=", &at("munged.log")))
                .arg(with("--seed-file=", &at("run/munge.seed"))),
        );
        until("munged listens", || socket.exists());
        write(&at("etc/slurm.conf"), configuration(dir.path(), lines));
        if of.root.is_some() {
            // Without it slurmd of 23.11 and later needs control groups.
            write(&at("etc/cgroup.conf"), "CgroupPlugin=disabled\n");
        }
        files(&at("etc"));
        let installation = of.clone();
        let (nodes, controller, is_daemon) = (Vec::new(), None, false);
        Self { installation, dir, nodes, controller, is_daemon, _munged: munged }
    }

    /// Starts a Slurm of four nodes, `n1` to `n4`, with a slurmd for each on this host. They have two cores each.
    #[track_caller]
    pub fn of_four_nodes(of: &Installation) -> Self {
        Self::of_four_nodes_with(of, "")
    }

    /// Starts a Slurm of four nodes whose configuration has these lines, too, for instance of further partitions.
    #[track_caller]
    pub fn of_four_nodes_with(of: &Installation, lines: &str) -> Self {
        let mut slurm = Self::prepare(of, "", |_| {});
        let file = slurm.dir.path().join("etc/slurm.conf");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let is_of_nodes = |line: &&str| {
            [
                "NodeName=",
                "PartitionName=",
                "SlurmdPort=",
                "SlurmdSpoolDir=",
                "SlurmdPidFile=",
                "SlurmdLogFile=",
                // All nodes would show the same munged the same credential, which newer releases refuse.
                "AuthType=",
                "AuthInfo=",
                "CredType=",
            ]
            .iter()
            .any(|key| line.trim_start().starts_with(key))
        };
        let mut text: Vec<String> =
            text.lines().filter(|line| !is_of_nodes(line)).map(str::to_owned).collect();
        let dir = slurm.dir.path().display().to_string();
        text.extend(["AuthType=auth/none", "CredType=cred/none"].map(str::to_owned));
        text.push(format!("SlurmdSpoolDir={dir}/spool/%n"));
        text.push(format!("SlurmdPidFile={dir}/run/slurmd-%n.pid"));
        text.push(format!("SlurmdLogFile={dir}/slurmd-%n.log"));
        let host = host();
        for number in 1..=4 {
            let port = free_port();
            text.push(format!(
                "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000"
            ));
            if let Err(error) = fs::create_dir(slurm.dir.path().join(format!("spool/n{number}"))) {
                panic!("spool: {error}");
            }
        }
        text.push(
            "PartitionName=batch Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP".to_owned(),
        );
        text.push(lines.to_owned());
        write(&file, text.join("\n"));
        slurm.start_controller();
        for number in 1..=4 {
            let mut slurmd = slurm.daemon(SLURMD);
            slurmd.args(["-N", &format!("n{number}")]).stderr(Stdio::null());
            slurm.nodes.push(serve(&mut slurmd));
        }
        until("four nodes are idle", || {
            let idle = ["-h", "-p", "batch", "-t", "idle", "-o", "%D"];
            slurm.client("sinfo", &idle).stdout.trim() == "4"
        });
        slurm
    }

    /// The command that runs a daemon in the foreground.
    fn daemon(&self, program: &str) -> Command {
        let mut command = self.installation.command(program);
        command.env("SLURM_CONF", self.dir.path().join("etc/slurm.conf"));
        if !(self.is_daemon && program == SLURMCTLD) {
            command.arg("-D");
        }
        command
    }

    #[track_caller]
    fn start_controller(&mut self) {
        if self.is_daemon {
            run(&mut self.daemon(SLURMCTLD)).ok();
        } else {
            self.controller = Some(serve(self.daemon(SLURMCTLD).stderr(Stdio::null())));
        }
        until("slurmctld answers", || self.client("scontrol", &["ping"]).code == 0);
    }

    /// Starts slurmd, and waits until the node takes jobs.
    #[track_caller]
    pub fn start_node(&mut self) {
        self.nodes.push(serve(self.daemon(SLURMD).stderr(Stdio::null())));
        until("the node is idle", || {
            self.client("sinfo", &["-h", "-o", "%T"]).stdout.contains("idle")
        });
    }

    /// Stops slurmctld as an administrator does, and starts it again.
    #[track_caller]
    pub fn restart_controller(&mut self) {
        self.stop_controller();
        self.start_controller();
    }

    /// Goes on with this Slurm, as after an upgrade. The slurmctld before must have been stopped.
    #[track_caller]
    pub fn go_on_with(&mut self, of: &Installation) {
        self.installation = of.clone();
        self.start_controller();
    }

    /// Stops slurmctld as an administrator does.
    #[track_caller]
    pub fn stop_controller(&mut self) {
        let pid = self.controller();
        // The id 0 means the process group of this test.
        assert_ne!(pid, 0, "slurmctld has written no process id");
        let pid = pid.to_string();
        run(Command::new("kill").arg(&pid));
        if let Some(mut controller) = self.controller.take() {
            let _ = controller.wait();
        } else {
            until("slurmctld has ended", || !Path::new("/proc").join(&pid).exists());
        }
    }

    /// The process id of slurmctld.
    pub fn controller(&self) -> u32 {
        let written = || fs::read_to_string(self.dir.path().join("run/slurmctld.pid")).ok();
        let daemon = || written()?.trim().parse().ok();
        self.controller.as_ref().map(|process| process.id()).or_else(daemon).unwrap_or(0)
    }

    /// The directory of slurm.conf and `job_submit.lua`.
    pub fn scripts(&self) -> PathBuf {
        self.dir.path().join("etc")
    }

    /// The directory in which slurmctld keeps its state (`StateSaveLocation`).
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The text of a log: `slurmctld.log` or `slurmd.log`.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Runs `sbatch` with these words.
    pub fn sbatch(&self, words: &[&str]) -> Output {
        self.client("sbatch", words)
    }

    /// Runs `scontrol update` for a job.
    pub fn update(&self, id: &str, words: &[String]) -> Output {
        let all = ["update", "job", id].into_iter().chain(words.iter().map(String::as_str));
        self.client("scontrol", &all.collect::<Vec<_>>())
    }

    /// Runs a command of Slurm's with these words.
    pub fn client(&self, program: &str, words: &[&str]) -> Output {
        let config = self.dir.path().join("etc/slurm.conf");
        let mut command = self.installation.command(&format!("/usr/bin/{program}"));
        run(command.args(words).env("SLURM_CONF", config).current_dir("/"))
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if self.is_daemon && self.controller() != 0 {
            self.stop_controller();
        }
    }
}

/// The directory of the build, which outlives the tests.
fn target() -> PathBuf {
    // The tests' own binary is in `TARGET/PROFILE/deps`.
    let exe = std::env::current_exe().unwrap_or_default();
    exe.ancestors().nth(3).unwrap_or(Path::new("")).to_owned()
}

#[track_caller]
fn write(file: &Path, content: impl AsRef<[u8]>) {
    if let Err(error) = fs::write(file, content) {
        panic!("{}: {error}", file.display());
    }
}

fn with(option: &str, path: &Path) -> String {
    format!("{option}{}", path.display())
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    match free {
        Ok(address) => address.port(),
        Err(error) => panic!("no free port: {error}"),
    }
}

/// The name of this host as Slurm has it.
fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().split('.').next().unwrap_or_default().to_owned()
}

fn configuration(dir: &Path, lines: &str) -> String {
    let host = host();
    let user = run(Command::new("id").arg("-un")).ok();
    let (dir, user) = (dir.display(), user.trim());
    let (controller, node) = (free_port(), free_port());
    let machine = std::env::consts::ARCH;
    // By default Slurm looks for jobs to start once a minute (`sched_interval`), too seldom for arrays whose jobs run
    // one after another.
    format!(
        "ClusterName=t\n\
         SlurmctldHost={host}(127.0.0.1)\n\
         SlurmctldPort={controller}\n\
         SlurmdPort={node}\n\
         SlurmUser={user}\n\
         SlurmdUser={user}\n\
         AuthType=auth/munge\n\
         AuthInfo=socket={dir}/run/munge.sock\n\
         CredType=cred/munge\n\
         StateSaveLocation={dir}/state\n\
         SlurmdSpoolDir={dir}/spool\n\
         SlurmctldPidFile={dir}/run/slurmctld.pid\n\
         SlurmdPidFile={dir}/run/slurmd.pid\n\
         SlurmctldLogFile={dir}/slurmctld.log\n\
         SlurmdLogFile={dir}/slurmd.log\n\
         PluginDir=/usr/lib/{machine}-linux-gnu/slurm-wlm:{dir}/plugins\n\
         ReturnToService=2\n\
         CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         SwitchType=switch/none\n\
         MpiDefault=none\n\
         SelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\n\
         SchedulerType=sched/builtin\n\
         SchedulerParameters=sched_interval=1,batch_sched_delay=0\n\
         AccountingStorageType=accounting_storage/none\n\
         JobAcctGatherType=jobacct_gather/none\n\
         SlurmdParameters=config_overrides\n\
         {lines}\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=1000 RealMemory=100000 TmpDisk=1000 State=UNKNOWN\n\
         PartitionName=batch Nodes={host} Default=YES MaxTime=INFINITE State=UP\n\
         PartitionName=debug Nodes={host} MaxTime=60 State=UP\n"
    )
}
