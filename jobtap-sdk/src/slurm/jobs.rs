//! A job of the manager as Slurm's job record.

use super::{CORE_SPEC_THREAD, JOB_COMPLETING, JOB_STATES, JobDescriptor, JobRecord, NICE_OFFSET};
use crate::eventlog::{Event, EventEntry};
use crate::job::{Job, JobResult, State, Timestamp};

impl JobRecord {
    /// Describes a job as it is now: what its jobspec asks for, and its state, times and resources. The name of
    /// its user is not known here.
    ///
    /// Only the lowest 32 bits of the id fit into Slurm's field.
    #[must_use]
    pub fn from_job(job: &Job) -> Self {
        let desc = JobDescriptor::from_jobspec(job.jobspec().value());
        let resources = job.resources();
        let expiration = resources.and_then(|resources| resources.expiration());
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        // Numbers that `sbatch` and the manager record in a job, and that are not part of the request.
        let noted = |key: &str| {
            let value = job.jobspec().attribute(&format!("system.slurm.{key}"))?;
            value.as_u64()
        };
        let noted_u32 = |key: &str| noted(key).and_then(|number| u32::try_from(number).ok());
        let array_task_id = noted_u32("array_task_id");
        let array = noted("array_job_id").unwrap_or_else(|| job.id().as_u64());
        Self {
            account: desc.account,
            admin_comment: desc.admin_comment,
            alloc_node: desc.alloc_node,
            argv: desc.argv,
            array_job_id: array_task_id.map_or(0, |_| number(array)),
            array_task_cnt: noted_u32("array_task_cnt"),
            array_task_id,
            batch_features: desc.batch_features,
            batch_host: resources
                .and_then(|resources| first_host(&resources.nodelist().to_string())),
            burst_buffer: desc.burst_buffer,
            comment: desc.comment,
            container: desc.container,
            core_spec: desc.core_spec.filter(|count| count & CORE_SPEC_THREAD == 0),
            cpus_per_task: desc.cpus_per_task,
            cpus_per_tres: desc.cpus_per_tres,
            curr_dependency: desc.dependency.clone().filter(|_| job.state() <= State::Depend),
            delay_boot: desc.delay_boot.unwrap_or(0),
            end_time: seconds(job.t_inactive().or(expiration.map(Timestamp::from_secs))),
            exit_code: exit_status(job),
            extra: desc.extra,
            features: desc.features,
            group_id: desc.group_id,
            job_id: number(job.id().as_u64()),
            job_state: state(job),
            licenses: desc.licenses,
            max_cpus: desc.max_cpus,
            max_nodes: desc.max_nodes.unwrap_or(0),
            mcs_label: desc.mcs_label,
            mem_per_tres: desc.mem_per_tres,
            min_cpus: desc.min_cpus.unwrap_or(1),
            min_nodes: desc.min_nodes.unwrap_or(1),
            name: desc.name,
            nice: desc.nice.unwrap_or(NICE_OFFSET),
            nodes: resources.map(|resources| resources.nodelist().to_string()),
            orig_dependency: desc.dependency,
            partition: desc.partition,
            pn_min_cpus: desc.pn_min_cpus.unwrap_or(0),
            pn_min_memory: desc.pn_min_memory.unwrap_or(0),
            priority: job.priority().unwrap_or(0),
            qos: desc.qos,
            reboot: u8::from(desc.reboot == Some(1)),
            req_switch: desc.req_switch.unwrap_or(0),
            restart_cnt: noted("restart_cnt")
                .map_or(0, |count| u16::try_from(count).unwrap_or(u16::MAX)),
            resv_name: desc.reservation,
            script: desc.script,
            selinux_context: desc.selinux_context,
            segment_size: Some(desc.segment_size.unwrap_or(0)),
            site_factor: desc.site_factor.unwrap_or(NICE_OFFSET),
            spank_job_env_size: count(desc.spank_job_env.len()),
            spank_job_env: desc.spank_job_env,
            start_time: seconds(job.t_start()),
            std_err: desc.std_err,
            std_in: desc.std_in,
            std_out: desc.std_out,
            submit_time: seconds(Some(job.t_submit())),
            thread_spec: desc
                .core_spec
                .filter(|count| count & CORE_SPEC_THREAD != 0)
                .map(|count| count & !CORE_SPEC_THREAD),
            time_limit: desc.time_limit,
            time_min: desc.time_min.unwrap_or(0),
            total_cpus: resources.map_or(0, |resources| count(resources.ncores())),
            total_nodes: resources.map_or(0, |resources| count(resources.nnodes())),
            tres_bind: desc.tres_bind,
            tres_freq: desc.tres_freq,
            tres_per_job: desc.tres_per_job,
            tres_per_node: desc.tres_per_node,
            tres_per_socket: desc.tres_per_socket,
            tres_per_task: desc.tres_per_task,
            user_id: job.userid().as_u32(),
            wait4switch: desc.wait4switch.unwrap_or(0),
            wckey: desc.wckey,
            work_dir: desc.work_dir,
            ..Self::default()
        }
    }
}

/// The lowest bits of a job's id, in which the jobs of one instance differ.
const fn number(id: u64) -> u32 {
    (id & u32::MAX as u64) as u32
}

fn first_host(hosts: &str) -> Option<String> {
    let hosts: crate::resource::Hostlist = hosts.parse().ok()?;
    hosts.iter().next()
}

fn seconds(time: Option<Timestamp>) -> u64 {
    // `as` saturates, and times are positive.
    time.map_or(0, |time| time.as_secs() as u64)
}

fn state(job: &Job) -> u32 {
    let number = |name: &str| {
        let known = JOB_STATES.iter().find(|(known, _)| *known == name);
        known.map_or(0, |(_, number)| *number)
    };
    let ended = || match job.result() {
        Some(JobResult::Completed) => number("COMPLETED"),
        Some(JobResult::Canceled) => number("CANCELLED"),
        Some(JobResult::Timeout) => number("TIMEOUT"),
        Some(JobResult::Failed) => number("FAILED"),
        // It has not finished yet.
        None => number("RUNNING"),
    };
    match job.state() {
        State::Run => number("RUNNING"),
        State::Cleanup => ended() | JOB_COMPLETING,
        State::Inactive => ended(),
        _ => number("PENDING"),
    }
}

/// The wait status of the event `finish`; 0 for a job that has not finished.
fn exit_status(job: &Job) -> u32 {
    match job.end_event().map(EventEntry::event) {
        Some(Ok(Event::Finish { status })) => u32::try_from(status).unwrap_or(0),
        _ => 0,
    }
}
