//! A slurmctld of the test's own, from Debian's packages, with a munged beside it. It has no slurmd: its jobs
//! stay pending, and what is compared is what happens to them before.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jobtap_tests::{Output, Process, run, spawn, temporary, until};
use tempfile::TempDir;

/// The programs that are needed, where Debian installs them.
const PROGRAMS: [&str; 3] = ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/bin/sbatch"];

const SCONTROL: &str = "/usr/bin/scontrol";

/// A running slurmctld that ends with this value.
pub(crate) struct Slurm {
    dir: TempDir,
    // Before munged, which it needs to the end.
    _controller: Process,
    _munged: Process,
}

impl Slurm {
    /// Whether Debian's packages are there.
    pub(crate) fn is_installed() -> bool {
        PROGRAMS.iter().all(|program| Path::new(program).exists())
    }

    /// Starts one whose `job_submit.lua` is made by `script` of the directory in which it will lie.
    pub(crate) fn start(script: impl FnOnce(&Path) -> String) -> Self {
        let dir = temporary();
        let at = |name: &str| dir.path().join(name);
        for name in ["etc", "state", "spool", "run"] {
            fs::create_dir(at(name)).unwrap();
        }
        let key: Vec<u8> = (0..1024_u32).map(|n| (n * 37 % 251) as u8).collect();
        fs::write(at("etc/munge.key"), key).unwrap();
        fs::set_permissions(at("etc/munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let socket = at("run/munge.sock");
        // `--force`, since the directory for temporary files is open to others; this key protects nothing.
        let munged = spawn(
            Command::new(PROGRAMS[0])
                .args(["--foreground", "--force", "--num-threads=2"])
                .arg(with("--socket=", &socket))
                .arg(with("--key-file=", &at("etc/munge.key")))
                .arg(with("--pid-file=", &at("run/munged.pid")))
                .arg(with("--log-file=", &at("munged.log")))
                .arg(with("--seed-file=", &at("run/munge.seed"))),
        );
        until("munged listens", || socket.exists());
        fs::write(at("etc/slurm.conf"), configuration(dir.path())).unwrap();
        fs::write(at("etc/job_submit.lua"), script(&at("etc"))).unwrap();
        let controller = spawn(
            Command::new(PROGRAMS[1])
                .arg("-D")
                .env("SLURM_CONF", at("etc/slurm.conf"))
                .stderr(Stdio::null()),
        );
        let slurm = Self { dir, _controller: controller, _munged: munged };
        until("slurmctld answers", || slurm.client(SCONTROL, &["ping"]).code == 0);
        slurm
    }

    /// Where `job_submit.lua` is.
    pub(crate) fn scripts(&self) -> PathBuf {
        self.dir.path().join("etc")
    }

    /// Runs `sbatch` with these words.
    pub(crate) fn sbatch(&self, words: &[&str]) -> Output {
        self.client(PROGRAMS[2], words)
    }

    /// Runs `scontrol update` for a job.
    pub(crate) fn update(&self, id: &str, words: &[String]) -> Output {
        let all = ["update", "job", id].into_iter().chain(words.iter().map(String::as_str));
        self.client(SCONTROL, &all.collect::<Vec<_>>())
    }

    fn client(&self, program: &str, words: &[&str]) -> Output {
        let config = self.dir.path().join("etc/slurm.conf");
        run(Command::new(program).args(words).env("SLURM_CONF", config).current_dir("/"))
    }
}

fn with(option: &str, path: &Path) -> String {
    format!("{option}{}", path.display())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn configuration(dir: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap_or_default();
    let user = run(Command::new("id").arg("-un")).ok();
    let (dir, user) = (dir.display(), user.trim());
    let (controller, node) = (free_port(), free_port());
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
         CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         SwitchType=switch/none\n\
         MpiDefault=none\n\
         SelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\n\
         SchedulerType=sched/builtin\n\
         AccountingStorageType=accounting_storage/none\n\
         JobAcctGatherType=jobacct_gather/none\n\
         SlurmdParameters=config_overrides\n\
         JobSubmitPlugins=lua\n\
         GresTypes=gpu\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=1000 RealMemory=100000 TmpDisk=1000 Gres=gpu:8 State=UNKNOWN\n\
         PartitionName=batch Nodes={host} Default=YES MaxTime=INFINITE State=UP\n\
         PartitionName=debug Nodes={host} MaxTime=60 State=UP\n"
    )
}
