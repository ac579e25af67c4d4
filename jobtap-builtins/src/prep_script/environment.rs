//! What scripts are told of their job: Slurm's variables.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use jobtap_core::slurm::JobDescriptor;

/// When a script runs: `SLURM_SCRIPT_CONTEXT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Prolog,
    Epilog,
    PrologSlurmctld,
    EpilogSlurmctld,
}

impl Context {
    pub(super) const ALL: [Self; 4] =
        [Self::Prolog, Self::Epilog, Self::PrologSlurmctld, Self::EpilogSlurmctld];

    /// The key of its scripts in the configuration.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Prolog => "prolog",
            Self::Epilog => "epilog",
            Self::PrologSlurmctld => "prolog-slurmctld",
            Self::EpilogSlurmctld => "epilog-slurmctld",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Prolog => "prolog_slurmd",
            Self::Epilog => "epilog_slurmd",
            Self::PrologSlurmctld => "prolog_slurmctld",
            Self::EpilogSlurmctld => "epilog_slurmctld",
        }
    }

    pub(super) const fn is_prolog(self) -> bool {
        matches!(self, Self::Prolog | Self::PrologSlurmctld)
    }

    const fn is_on_node(self) -> bool {
        matches!(self, Self::Prolog | Self::Epilog)
    }
}

/// The names of a user and of the user's group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) user: String,
    pub(super) gid: u32,
    pub(super) group: String,
}

impl Names {
    /// Reads a line of `getent passwd`. A user that the system doesn't know has its number as a name.
    pub(super) fn of(user: Uid, passwd: Option<&str>) -> Self {
        let fields: Vec<&str> = passwd.unwrap_or_default().split(':').collect();
        let name = fields.first().filter(|name| !name.is_empty());
        let gid = fields.get(3).and_then(|gid| gid.parse().ok()).unwrap_or(user.as_u32());
        let name = name.map_or_else(|| user.to_string(), |name| (*name).to_owned());
        Self { user: name, gid, group: gid.to_string() }
    }

    /// Reads a line of `getent group`.
    pub(super) fn set_group(&mut self, group: Option<&str>) {
        let name = group.and_then(|line| line.split(':').next()).filter(|name| !name.is_empty());
        if let Some(name) = name {
            name.clone_into(&mut self.group);
        }
    }
}

/// What the configuration and the system add.
pub(super) struct Account<'a> {
    pub(super) cluster: Option<&'a str>,
    pub(super) conf: Option<&'a str>,
    pub(super) names: &'a Names,
}

/// The variables of a script. `status` is the job's wait status, for epilogs.
pub(super) fn variables(
    context: Context,
    job: &JobInfo,
    node: Option<&Node>,
    account: &Account<'_>,
    status: i64,
) -> BTreeMap<&'static str, String> {
    let desc = JobDescriptor::from_jobspec(job.jobspec.value());
    let mut variables = BTreeMap::new();
    let mut set = |name: &'static str, value: Option<String>| {
        if let Some(value) = value {
            variables.insert(name, value);
        }
    };
    let names = account.names;
    let id = job.id.as_u64().to_string();
    let uid = job.userid.to_string();
    let resources = job.resources.as_deref();
    let hosts = resources.map(|resources| resources.nodelist().to_string());
    set("SLURM_JOB_ID", Some(id.clone()));
    set("SLURM_JOBID", Some(id));
    set("SLURM_JOB_UID", Some(uid.clone()));
    set("SLURM_JOB_GID", Some(names.gid.to_string()));
    set("SLURM_JOB_USER", Some(names.user.clone()));
    set("SLURM_JOB_WORK_DIR", desc.work_dir.clone());
    set("SLURM_CLUSTER_NAME", account.cluster.map(str::to_owned));
    set("SLURM_JOB_PARTITION", desc.partition.clone());
    set("SLURM_JOB_CPUS_PER_NODE", resources.map(cpus_per_node));
    set("SLURM_JOB_NUM_NODES", resources.map(|resources| resources.nnodes().to_string()));
    set("SLURM_JOB_RESTART_COUNT", Some(restarts(job).to_string()));
    set("SLURM_JOB_STDIN", desc.std_in.clone());
    set("SLURM_JOB_STDOUT", desc.std_out.clone());
    set("SLURM_JOB_STDERR", desc.std_err.clone());
    set("SLURM_JOB_COMMENT", desc.comment.clone());
    set("SLURM_JOB_CONSTRAINTS", desc.features.clone());
    set("SLURM_JOB_RESERVATION", desc.reservation.clone());
    set("SLURM_SCRIPT_CONTEXT", Some(context.name().to_owned()));
    if context.is_on_node() {
        set("SLURM_JOB_ACCOUNT", desc.account);
        set("SLURM_JOB_NTASKS", desc.num_tasks.map(|tasks| tasks.to_string()));
        set("SLURMD_NODENAME", node.map(|node| node.host.clone()));
        set("SLURM_CONF", account.conf.map(str::to_owned));
        set("SLURM_UID", Some(uid));
        set("SLURM_NODELIST", hosts);
    } else {
        // Slurm writes an unset account like this here, and only here.
        set("SLURM_JOB_ACCOUNT", Some(desc.account.unwrap_or_else(|| "(null)".to_owned())));
        set("SLURM_JOB_NAME", desc.name);
        set("SLURM_JOB_GROUP", Some(names.group.clone()));
        set("SLURM_JOB_NODELIST", hosts);
        set("SLURM_JOB_LICENSES", desc.licenses);
    }
    if !context.is_prolog() {
        let (code, signal) = ((status >> 8) & 0xff, status & 0x7f);
        set("SLURM_JOB_DERIVED_EC", Some(status.to_string()));
        set("SLURM_JOB_EXIT_CODE", Some(status.to_string()));
        set("SLURM_JOB_EXIT_CODE2", Some(format!("{code}:{signal}")));
    }
    variables
}

/// How often the job was submitted again since its prolog had failed.
fn restarts(job: &JobInfo) -> u64 {
    let kept = job.jobspec.attribute("slurm.restart_cnt");
    kept.and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// The cores of each node as Slurm writes them: `4(x2),1`.
fn cpus_per_node(resources: &ResourceSet) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for rank in resources.iter() {
        let cores = rank.cores().len();
        match runs.last_mut() {
            Some((of, count)) if *of == cores => *count += 1,
            _ => runs.push((cores, 1)),
        }
    }
    let text = |(cores, count): &(usize, usize)| match count {
        1 => cores.to_string(),
        count => format!("{cores}(x{count})"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}
