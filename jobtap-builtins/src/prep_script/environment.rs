//! Slurm's variables, which describe a job to its scripts.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use jobtap_core::slurm::{CORE_SPEC_THREAD, JobDescriptor, Release};

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
    pub(super) fn from_passwd(user: Uid, passwd: Option<&str>) -> Self {
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

/// What the variables take from the configuration and from the system.
pub(super) struct Account<'a> {
    pub(super) cluster: Option<&'a str>,
    pub(super) conf: Option<&'a str>,
    pub(super) names: &'a Names,
}

/// The variables that tell libraries of all vendors which GPUs to use, and Slurm's own. The manager doesn't
/// know the vendor of a GPU, so all are set, as in Slurm without `Flags` in gres.conf.
const GPUS: [&str; 5] = [
    "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
];

/// The variables of a job array, with the keys in `attributes.system.slurm` under which `sbatch` stores them.
const ARRAY: [(&str, &str); 6] = [
    ("SLURM_ARRAY_JOB_ID", "array_job_id"),
    ("SLURM_ARRAY_TASK_ID", "array_task_id"),
    ("SLURM_ARRAY_TASK_COUNT", "array_task_cnt"),
    ("SLURM_ARRAY_TASK_MIN", "array_task_min"),
    ("SLURM_ARRAY_TASK_MAX", "array_task_max"),
    ("SLURM_ARRAY_TASK_STEP", "array_task_step"),
];

/// The variables of a script. `status` is the job's wait status, for epilogs.
pub(super) fn variables(
    context: Context,
    job: &JobInfo,
    node: Option<&Node>,
    account: &Account<'_>,
    status: i64,
) -> BTreeMap<String, String> {
    let desc = JobDescriptor::from_jobspec(job.jobspec.value());
    let mut variables: BTreeMap<String, String> = spank(&desc).into_iter().flatten().collect();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            variables.insert(name.to_owned(), value);
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
    let expiration = resources.and_then(ResourceSet::expiration).map(Timestamp::from_secs);
    // Until its tasks are started, the start of a job is when it got its resources.
    set("SLURM_JOB_START_TIME", job.t_start.or(job.t_alloc).map(seconds));
    set("SLURM_JOB_END_TIME", expiration.map(seconds));
    set("SLURM_JOB_QOS", desc.qos.clone());
    set("SLURM_JOB_EXTRA", desc.extra.clone());
    set("SLURM_JOB_SELINUX_CONTEXT", desc.selinux_context.clone());
    set("SLURM_JOB_OVERSUBSCRIBE", Some(oversubscribe(&desc).to_owned()));
    set("SLURM_JOB_LICENSES", desc.licenses.clone());
    set("SLURM_JOB_NODELIST", hosts.clone());
    if context.is_on_node() {
        set("SLURM_JOB_ACCOUNT", desc.account.clone());
        // Computed from the nodes, if only the tasks of each were asked for.
        let tasks = desc.shown_in(Release::OLDEST).num_tasks;
        set("SLURM_JOB_NTASKS", tasks.map(|tasks| tasks.to_string()));
        set("SLURMD_NODENAME", node.map(|node| node.host.clone()));
        set("SLURM_CONF", account.conf.map(str::to_owned));
        set("SLURM_UID", Some(uid));
        set("SLURM_NODELIST", hosts);
        let here = node.zip(resources).and_then(|(node, resources)| resources.rank(node.rank));
        let gpus =
            here.map(|here| here.gpus().iter().map(|gpu| gpu.to_string()).collect::<Vec<_>>());
        let gpus = gpus.filter(|gpus| !gpus.is_empty()).map(|gpus| gpus.join(","));
        for name in GPUS {
            set(name, gpus.clone());
        }
        if let Some((count, kind)) = specialized(&desc) {
            set("SLURM_JOB_CORE_SPEC_COUNT", Some(count.to_string()));
            set("SLURM_JOB_CORE_SPEC_TYPE", Some(kind.to_owned()));
        }
    } else {
        // Slurm writes an unset account like this here, and only here.
        set("SLURM_JOB_ACCOUNT", Some(desc.account.unwrap_or_else(|| "(null)".to_owned())));
        set("SLURM_JOB_NAME", desc.name);
        set("SLURM_JOB_GROUP", Some(names.group.clone()));
        for (name, key) in ARRAY {
            set(name, array(job, key));
        }
    }
    if !context.is_prolog() {
        let (code, signal) = ((status >> 8) & 0xff, status & 0x7f);
        // The highest status of the job's steps. A batch script is not a step.
        let steps = if desc.script.is_some() { 0 } else { status };
        set("SLURM_JOB_DERIVED_EC", Some(steps.to_string()));
        set("SLURM_JOB_EXIT_CODE", Some(status.to_string()));
        set("SLURM_JOB_EXIT_CODE2", Some(format!("{code}:{signal}")));
    }
    variables
}

/// Returns the variables that users set for SPANK plugins. If the name of one of them doesn't begin with `SPANK_`, none
/// is set, as in Slurm: users choose the names, and scripts run with the rights of the manager.
fn spank(desc: &JobDescriptor) -> Option<Vec<(String, String)>> {
    let pair = |entry: &String| {
        let (name, value) = entry.split_once('=')?;
        name.starts_with("SPANK_").then(|| (name.to_owned(), value.to_owned()))
    };
    desc.spank_job_env.iter().map(pair).collect()
}

/// A number of a job array. The id of an array is the id of its first job, whose jobspec can't contain it.
fn array(job: &JobInfo, key: &str) -> Option<String> {
    let number = |key: &str| {
        let value = job.jobspec.attribute(&format!("system.slurm.{key}"))?;
        value.as_u64()
    };
    number("array_task_id")?;
    match number(key) {
        None if key == "array_job_id" => Some(job.id.as_u64().to_string()),
        found => found.map(|number| number.to_string()),
    }
}

fn seconds(time: Timestamp) -> String {
    format!("{:.0}", time.as_secs().floor())
}

/// Who may share the nodes of the job, in Slurm's words.
fn oversubscribe(desc: &JobDescriptor) -> &'static str {
    match desc.shared {
        Some(0) => "NO",
        Some(1) => "YES",
        Some(2) => "USER",
        Some(3) => "MCS",
        _ => "OK",
    }
}

/// The number of cores or threads on each node that are reserved for the system, and which of the two it
/// counts.
fn specialized(desc: &JobDescriptor) -> Option<(u16, &'static str)> {
    let count = desc.core_spec?;
    let kind = if count & CORE_SPEC_THREAD == 0 { "cores" } else { "threads" };
    Some((count & !CORE_SPEC_THREAD, kind))
}

/// How often the job was submitted again because its prolog had failed.
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
