//! Slurm's jobs as jobs of the SDK.

use jobtap_core::host::{JobParts, RequestKey};
use jobtap_core::job::{Job, JobId, State, Timestamp, Uid, Urgency};
use jobtap_core::jobspec::{Jobspec, JobspecError};
use jobtap_core::resource::{Children, Hostlist, Idset, ResourceSet};
use jobtap_core::slurm::{JOB_STATES, JobDescriptor, JobRecord};
use serde_json::Value;

/// Ids from this one on stand for requests: Slurm's own job ids have 32 bits.
const REQUESTS: u64 = 1 << 32;

/// Returns the job that a request describes. slurmctld assigns its id only later, so the job gets one that is derived
/// from the request.
pub(crate) fn of_request(
    key: RequestKey,
    user: Uid,
    desc: &JobDescriptor,
) -> Result<JobParts, JobspecError> {
    let jobspec = jobspec(desc)?;
    let owner = if desc.user_id == 0 && user.as_u32() != 0 { user } else { Uid(desc.user_id) };
    let mut parts = JobParts::new(job_of(key), owner, jobspec);
    parts.urgency = desc.urgency().unwrap_or(Urgency::DEFAULT);
    parts.t_submit = crate::worker::now();
    Ok(parts)
}

/// Returns a job of slurmctld's as it will be after a change; `None` if nothing of its jobspec changes. It has an id
/// that is derived from the request, as the job of a submission has.
pub(crate) fn of_change(
    key: RequestKey,
    record: &JobRecord,
    change: &JobDescriptor,
) -> Result<Option<JobParts>, JobspecError> {
    let before = descriptor(record);
    let after = JobDescriptor {
        user_id: before.user_id,
        user_name: before.user_name.clone(),
        group_id: before.group_id,
        contiguous: before.contiguous,
        mail_type: before.mail_type,
        oom_kill_step: before.oom_kill_step,
        resv_port_cnt: before.resv_port_cnt,
        ..with_changes(&before, &JobDescriptor::default(), change)
    };
    let (old, new) = (jobspec(&before)?, jobspec(&after)?);
    if old.value() == new.value() {
        return Ok(None);
    }
    Ok(Some(JobParts { id: job_of(key), jobspec: new, ..parts_of_record(record) }))
}

/// Returns a copy of a description in which the fields that differ between `before` and `after` have the values of
/// `after`.
pub(crate) fn with_changes(
    desc: &JobDescriptor,
    before: &JobDescriptor,
    after: &JobDescriptor,
) -> JobDescriptor {
    let json = |desc| serde_json::to_value(desc).unwrap_or_default();
    let (mut all, before, after) = (json(desc), json(before), json(after));
    if let (Some(all), Some(after)) = (all.as_object_mut(), after.as_object()) {
        for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(*value))
        {
            all.insert(name.clone(), value.clone());
        }
    }
    // This can't fail, since the JSON comes from a description.
    serde_json::from_value(all).unwrap_or_else(|_| desc.clone())
}

/// Returns the id of the job that a request describes.
pub(crate) fn job_of(key: RequestKey) -> JobId {
    JobId::new(REQUESTS + key.0)
}

/// Returns the request that describes a job made by [`of_request`].
pub(crate) fn request_of(job: JobId) -> RequestKey {
    RequestKey(job.as_u64().wrapping_sub(REQUESTS))
}

/// Converts a job of slurmctld's.
pub(crate) fn of_record(record: &JobRecord) -> Job {
    parts_of_record(record).into_job()
}

/// Converts a job of slurmctld's into its parts.
pub(crate) fn parts_of_record(record: &JobRecord) -> JobParts {
    let desc = descriptor(record);
    let jobspec = jobspec(&desc).unwrap_or_else(|_| Jobspec::unvalidated(Value::Null));
    let id = JobId::new(record.job_id.into());
    let mut parts = JobParts::new(id, Uid(record.user_id), jobspec);
    parts.state = state(record.job_state);
    parts.priority = Some(record.priority);
    parts.urgency = if record.priority == 0 { Urgency::HOLD } else { Urgency::DEFAULT };
    parts.t_submit = seconds(record.submit_time);
    parts.t_alloc = Some(record.start_time).filter(|at| *at > 0).map(seconds);
    parts.resources = record.nodes.as_deref().map(resources).into();
    parts
}

/// Returns the hosts of a job as an R. Slurm doesn't tell plugins which cores the job has, but a rank in R can't be
/// without children, so each gets a child `node`.
pub(crate) fn resources(nodes: &str) -> ResourceSet {
    let hosts: Hostlist = nodes.parse().unwrap_or_default();
    let mut node = Children::default();
    node.insert("node", Idset::from(0..=0));
    ResourceSet::uniform(0, &hosts, node)
}

fn jobspec(desc: &JobDescriptor) -> Result<Jobspec, JobspecError> {
    // The environment is left out, as from every job that handlers see.
    let desc = JobDescriptor { environment: Default::default(), ..desc.clone() };
    desc.to_jobspec().map(Jobspec::unvalidated)
}

/// Returns what the job has requested, as far as its record contains it.
fn descriptor(record: &JobRecord) -> JobDescriptor {
    let record = record.clone();
    JobDescriptor {
        account: record.account,
        admin_comment: record.admin_comment,
        alloc_node: record.alloc_node,
        argv: record.argv,
        batch_features: record.batch_features,
        burst_buffer: record.burst_buffer,
        comment: record.comment,
        container: record.container,
        cpus_per_tres: record.cpus_per_tres,
        dependency: record.orig_dependency,
        extra: record.extra,
        features: record.features,
        group_id: record.group_id,
        licenses: record.licenses,
        max_nodes: Some(record.max_nodes).filter(|nodes| *nodes > 0),
        mcs_label: record.mcs_label,
        mem_per_tres: record.mem_per_tres,
        min_cpus: Some(record.min_cpus),
        min_nodes: Some(record.min_nodes),
        name: record.name,
        nice: Some(record.nice),
        partition: record.partition,
        pn_min_memory: Some(record.pn_min_memory).filter(|memory| *memory > 0),
        qos: record.qos,
        reservation: record.resv_name,
        std_err: record.std_err,
        std_in: record.std_in,
        std_out: record.std_out,
        time_limit: record.time_limit,
        tres_bind: record.tres_bind,
        tres_freq: record.tres_freq,
        tres_per_job: record.tres_per_job,
        tres_per_node: record.tres_per_node,
        tres_per_socket: record.tres_per_socket,
        tres_per_task: record.tres_per_task,
        user_id: record.user_id,
        user_name: record.user_name,
        wckey: record.wckey,
        work_dir: record.work_dir,
        ..JobDescriptor::default()
    }
}

fn seconds(time: u64) -> Timestamp {
    Timestamp::from_secs(time as f64)
}

/// Converts a state of Slurm's, which is in the lowest 8 bits, with flags above them.
fn state(number: u32) -> State {
    const COMPLETING: u32 = jobtap_core::slurm::JOB_COMPLETING;
    let base = JOB_STATES.iter().find(|(_, known)| *known == number & 0xff).map(|(name, _)| *name);
    match base {
        Some("PENDING") => State::Sched,
        Some("RUNNING" | "SUSPENDED") => State::Run,
        _ if number & COMPLETING != 0 => State::Cleanup,
        _ => State::Inactive,
    }
}
