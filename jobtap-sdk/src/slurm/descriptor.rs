//! The description of a request: what a user asks for when a job is submitted or changed, in Slurm's
//! terms.

use super::constants::{
    CORE_SPEC_THREAD, CRON_JOB, MEM_PER_CPU, NICE_OFFSET, NO_VAL, NO_VAL8, NO_VAL16, NO_VAL64,
};
use super::table::record;
use super::value::{
    SetError, Value, Width, number, number_from, number_or, optional_from, text, text_from,
};

record! {
    /// The description of a job that is submitted, or of the changes that are requested for one: Slurm's
    /// `job_desc`.
    ///
    /// The fields have Slurm's names, units and widths. What is not set is `None`, never a magic number,
    /// and an empty text never stands for "not set". Scripts see Slurm's constants instead, through
    /// [`get`](Self::get) and [`set`](Self::set) and the [table of fields](Self::FIELDS).
    ///
    /// ```
    /// use jobtap_core::slurm::{INFINITE, JobDescriptor};
    ///
    /// let mut desc = JobDescriptor::default();
    /// if desc.time_limit.is_none() {
    ///     desc.time_limit = Some(60);
    /// }
    /// assert_ne!(desc.time_limit, Some(INFINITE));
    /// ```
    pub struct JobDescriptor {
        #[doc = "The account that the job is charged to."]
        account: [text], RW, "", "-A, --account";
        #[doc = "How often the accounting of the job is sampled."]
        acctg_freq: [text], RW, "", "--acctg-freq";
        #[doc = "A comment that only administrators may set."]
        admin_comment: [text], RW, "", "";
        #[doc = "The submitting host."]
        alloc_node: [text], RO, "", "";
        #[doc = "The number of arguments of the script."]
        argc: [u32], RO, "", "";
        #[doc = "The script's name and its arguments."]
        argv: [list from 0], RO, "", "";
        #[doc = "The task ids of a job array, such as `0-9:2%3`."]
        array_inx: [text], RW, "", "-a, --array";
        #[doc = "The comment of the user's association, as the site's accounts have it."]
        assoc_comment: [text], RO since V23_02, "", "";
        #[doc = "The QOS that the user's association may use, separated by commas."]
        assoc_qos: [text], RO since V24_11, "", "";
        #[doc = "The features that the node of the batch script must have."]
        batch_features: [text], RW, "", "--batch";
        #[doc = "The earliest time at which the job may start."]
        begin_time: [u64 or 0], RW, "seconds since 1970", "-b, --begin";
        #[doc = "Slurm's flags of the job, such as `SPREAD_JOB`."]
        bitflags: [u64], RW, "bits", "";
        #[doc = "The boards of each node."]
        boards_per_node: [u16], RO, "boards", "";
        #[doc = "The burst buffer that the job needs."]
        burst_buffer: [text], RW, "", "--bb";
        #[doc = "The features that a cluster must have."]
        cluster_features: [text], NO, "", "--cluster-constraint";
        #[doc = "The clusters to which the job may go."]
        clusters: [text], RW, "", "-M, --clusters";
        #[doc = "A comment of the user's."]
        comment: [text], RW, "", "--comment";
        #[doc = "The OCI container bundle of the job."]
        container: [text], RW, "", "--container";
        #[doc = "The OCI container's id. Slurm 23.02 and later."]
        container_id: [text], NO, "", "--container-id";
        #[doc = "How the container is run. Slurm 26.05 and later."]
        container_type: [text], NO, "", "";
        #[doc = "Whether the nodes must be contiguous: 0 or 1."]
        contiguous: [u16], RW, "", "--contiguous";
        #[doc = "The cores of each node that are kept for the system, or with the bit `CORE_SPEC_THREAD` the threads. Scripts see it only if it counts cores."]
        core_spec: [u16 or NO_VAL16], RW since V26_05, "cores", "-S, --core-spec",
            |desc| kept(desc.core_spec, 0),
            |desc, value| keep(desc, &value, 0);
        #[doc = "The least number of cores of each socket."]
        cores_per_socket: [u16 or NO_VAL16], RW, "cores", "--cores-per-socket";
        #[doc = "How tasks are bound to CPUs."]
        cpu_bind: [text], NO, "", "--cpu-bind";
        #[doc = "The governor of the CPUs' frequency."]
        cpu_freq_gov: [u32 or NO_VAL], RW, "", "--cpu-freq";
        #[doc = "The highest frequency of the CPUs."]
        cpu_freq_max: [u32 or NO_VAL], RW, "kHz", "--cpu-freq";
        #[doc = "The lowest frequency of the CPUs."]
        cpu_freq_min: [u32 or NO_VAL], RW, "kHz", "--cpu-freq";
        #[doc = "The CPUs of each task."]
        cpus_per_task: [u16 or NO_VAL16], RW, "CPUs", "-c, --cpus-per-task";
        #[doc = "The CPUs for each generic resource, such as `gres:gpu:4`."]
        cpus_per_tres: [text], RW, "", "--cpus-per-gpu";
        #[doc = "The time by which the job must have ended; a job that can't make it is removed."]
        deadline: [u64 or 0], NO, "seconds since 1970", "--deadline";
        #[doc = "The user's default account, as the site's accounts have it."]
        default_account: [text], RO, "", "";
        #[doc = "The default QOS of the user's association, as the site's accounts have it."]
        default_qos: [text], RO, "", "";
        #[doc = "How long the job may wait for a node to reboot into the features it asks for."]
        delay_boot: [u32 or NO_VAL], RW, "seconds", "--delay-boot";
        #[doc = "The jobs that this one depends on, such as `afterok:12:13,singleton`."]
        dependency: [text], RW, "", "-d, --dependency";
        #[doc = "The time at which the job is expected to end."]
        end_time: [u64 or 0], RW, "seconds since 1970", "";
        #[doc = "The environment of the job."]
        environment: [environment], RO, "", "--export";
        #[doc = "The hosts that the job must not use, as a host list."]
        exc_nodes: [text], RW, "", "-x, --exclude";
        #[doc = "A text that Slurm keeps for others."]
        extra: [text], RW, "", "--extra";
        #[doc = "The features that nodes must have, such as `intel&(rack1|rack2)`."]
        features: [text], RW, "", "-C, --constraint";
        #[doc = "The group of the job."]
        group_id: [u32], RO, "", "--gid";
        #[doc = "The place of this part of a heterogeneous job; the first is 0."]
        het_job_offset: [u32 or NO_VAL], RO, "", "";
        #[doc = "Whether the job must start at once: 0 or 1."]
        immediate: [u16], RW, "", "";
        #[doc = "The id of the job, if the request names one."]
        job_id: [u32 or NO_VAL], NO, "", "";
        #[doc = "The numbers of nodes that will do, such as `1,2,4`. Slurm 23.02 and later."]
        job_size_str: [text], NO, "nodes", "-N, --nodes";
        #[doc = "Whether a failed node ends the job: 0 or 1."]
        kill_on_node_fail: [u16 or NO_VAL16], NO, "", "-k, --no-kill";
        #[doc = "The licenses that the job needs, such as `matlab:2,ansys`."]
        licenses: [text], RW, "", "-L, --licenses";
        #[doc = "When mail is sent: the `MAIL_` bits."]
        mail_type: [u16], RW, "bits", "--mail-type";
        #[doc = "To whom mail is sent."]
        mail_user: [text], RW, "", "--mail-user";
        #[doc = "The most CPUs of the job."]
        max_cpus: [u32 or NO_VAL], RW, "CPUs", "";
        #[doc = "The most nodes of the job."]
        max_nodes: [u32 or NO_VAL], RW, "nodes", "-N, --nodes";
        #[doc = "The security label of the job."]
        mcs_label: [text], RW since V23_11, "", "--mcs-label";
        #[doc = "How tasks are bound to memory."]
        mem_bind: [text], NO, "", "--mem-bind";
        #[doc = "The memory for each generic resource, such as `gres:gpu:4096`."]
        mem_per_tres: [text], RW, "", "--mem-per-gpu";
        #[doc = "How long after a step's start its memory is adapted to its use. Slurm 26.05 and later."]
        mem_update_delay: [u16 or 0], NO, "", "";
        #[doc = "The margin that is left when memory is adapted to its use. Slurm 26.05 and later."]
        mem_update_margin: [u16 or 0], NO, "", "";
        #[doc = "The least CPUs of the job."]
        min_cpus: [u32 or NO_VAL], RW, "CPUs", "";
        #[doc = "The least nodes of the job."]
        min_nodes: [u32 or NO_VAL], RW, "nodes", "-N, --nodes";
        #[doc = "The name of the job."]
        name: [text], RW, "", "-J, --job-name";
        #[doc = "What the job needs of the network."]
        network: [text], RO, "", "--network";
        #[doc = "The nice value plus `NICE_OFFSET`; a higher one means a lower priority."]
        nice: [u32 or NO_VAL], RW, "", "--nice";
        #[doc = "The tasks on each board."]
        ntasks_per_board: [u16], RO, "tasks", "";
        #[doc = "The tasks on each core."]
        ntasks_per_core: [u16 or NO_VAL16], RO, "tasks", "--ntasks-per-core";
        #[doc = "The tasks on each node."]
        ntasks_per_node: [u16 or NO_VAL16], RW, "tasks", "--ntasks-per-node";
        #[doc = "The tasks on each socket."]
        ntasks_per_socket: [u16 or NO_VAL16], RW, "tasks", "--ntasks-per-socket";
        #[doc = "The tasks on each generic resource, in practice on each GPU."]
        ntasks_per_tres: [u16 or NO_VAL16], RW, "tasks", "--ntasks-per-gpu";
        #[doc = "The number of tasks."]
        num_tasks: [u32 or NO_VAL], RW, "tasks", "-n, --ntasks";
        #[doc = "Whether a step ends when a task of it runs out of memory: 0 or 1. Slurm 24.11 and later."]
        oom_kill_step: [u16 or NO_VAL16], NO, "", "--oom-kill-step";
        #[doc = "Whether output files are truncated (1) or appended to (2)."]
        open_mode: [u8], NO, "", "--open-mode";
        #[doc = "Whether several tasks may share a CPU: 0 or 1."]
        overcommit: [u8 or NO_VAL8], NO, "", "-O, --overcommit";
        #[doc = "The partitions to which the job may go, separated by commas."]
        partition: [text], RW, "", "-p, --partition";
        #[doc = "The number of tasks of a block of the distribution `plane`."]
        plane_size: [u16 or NO_VAL16], NO, "tasks", "-m, --distribution";
        #[doc = "The least CPUs of each node."]
        pn_min_cpus: [u16 or NO_VAL16], RW, "CPUs", "--mincpus";
        #[doc = "The memory of each node, or of each CPU if it has the bit `MEM_PER_CPU`."]
        pn_min_memory: [u64 or NO_VAL64], RW, "MiB", "--mem";
        #[doc = "The temporary disk of each node."]
        pn_min_tmp_disk: [u32 or NO_VAL], RW, "MiB", "--tmp";
        #[doc = "Flags of power management. Slurm 23.11 and earlier."]
        power_flags: [u8 or 0], RW until V23_11, "bits", "--power";
        #[doc = "The features that nodes should have if that is possible at once."]
        prefer: [text], RW, "", "--prefer";
        #[doc = "The priority that an administrator gives the job; 0 holds it."]
        priority: [u32 or NO_VAL], RW, "", "--priority";
        #[doc = "What is profiled."]
        profile: [u32 or 0], NO, "bits", "--profile";
        #[doc = "The quality of service."]
        qos: [text], RW, "", "-q, --qos";
        #[doc = "Whether the nodes are rebooted first: 0 or 1."]
        reboot: [u16 or NO_VAL16], RW, "", "--reboot";
        #[doc = "The SELinux context that the user asks for."]
        req_context: [text], RO, "", "--context";
        #[doc = "The hosts that the job must use, as a host list."]
        req_nodes: [text], RW, "", "-w, --nodelist";
        #[doc = "The most network switches that the nodes may be on."]
        req_switch: [u32 or NO_VAL], RW, "switches", "--switches";
        #[doc = "Whether the job may be requeued: 0 or 1."]
        requeue: [u16 or NO_VAL16], RW, "", "--requeue";
        #[doc = "The reservation whose resources the job uses."]
        reservation: [text], RW, "", "--reservation";
        #[doc = "The number of ports that each node reserves. Slurm 24.05 and later."]
        resv_port_cnt: [u16 or NO_VAL16], NO, "ports", "";
        #[doc = "The batch script."]
        script: [text], RW, "", "";
        #[doc = "The number of nodes of a segment. Slurm 24.05 and later."]
        segment_size: [u16 or 0], RW since V25_11, "nodes", "--segment";
        #[doc = "The SELinux context of the job."]
        selinux_context: [text], RW read since V23_02, "", "";
        #[doc = "Whether other jobs may be on the nodes: a `JOB_SHARED_` number."]
        shared: [u16 or NO_VAL16], RW, "", "--exclusive, -s, --oversubscribe";
        #[doc = "The site's part of the priority plus `NICE_OFFSET`. Scripts see it without the offset."]
        site_factor: [u32 or NO_VAL], RW, "", "",
            |desc| match desc.site_factor {
                Some(raw) => Value::Number(f64::from(raw) - f64::from(NICE_OFFSET)),
                None => number(NO_VAL),
            },
            |desc, value| {
                let number = number_from(&value)?;
                let raw = u32::from_lua(number + f64::from(NICE_OFFSET));
                desc.site_factor = Some(raw).filter(|_| number != f64::from(NO_VAL));
                Ok(())
            };
        #[doc = "The boards' sockets."]
        sockets_per_board: [u16], RO, "sockets", "";
        #[doc = "The least sockets of each node."]
        sockets_per_node: [u16 or NO_VAL16], RW, "sockets", "--sockets-per-node";
        #[doc = "The variables that SPANK plugins set for prologs and epilogs."]
        spank_job_env: [list from 0], RO, "", "";
        #[doc = "The number of variables that SPANK plugins set."]
        spank_job_env_size: [u32], RO, "", "";
        #[doc = "The file for the standard error."]
        std_err: [text], RW, "", "-e, --error";
        #[doc = "The file with the standard input."]
        std_in: [text], RW, "", "-i, --input";
        #[doc = "The file for the standard output."]
        std_out: [text], RW, "", "-o, --output";
        #[doc = "The command line by which the job was submitted."]
        submit_line: [text], NO, "", "";
        #[doc = "How tasks are distributed over the nodes, as `sbatch` takes it."]
        distribution: [text], NO, "", "-m, --distribution";
        #[doc = "The least threads of each core."]
        threads_per_core: [u16 or NO_VAL16], RW, "threads", "--threads-per-core";
        #[doc = "The time limit; `INFINITE` for none."]
        time_limit: [u32 or NO_VAL], RW, "minutes", "-t, --time";
        #[doc = "The least time limit with which the job may start."]
        time_min: [u32 or NO_VAL], RW, "minutes", "--time-min";
        #[doc = "How tasks are bound to generic resources."]
        tres_bind: [text], RW, "", "--gpu-bind";
        #[doc = "The frequency of generic resources."]
        tres_freq: [text], RW, "", "--gpu-freq";
        #[doc = "The generic resources of the job, such as `gres:gpu:8`."]
        tres_per_job: [text], RW, "", "-G, --gpus";
        #[doc = "The generic resources of each node, such as `gres:gpu:2`."]
        tres_per_node: [text], RW, "", "--gres, --gpus-per-node";
        #[doc = "The generic resources of each socket."]
        tres_per_socket: [text], RW, "", "--gpus-per-socket";
        #[doc = "The generic resources of each task."]
        tres_per_task: [text], RW, "", "--gpus-per-task, --tres-per-task";
        #[doc = "The user of the job."]
        user_id: [u32], RO, "", "--uid";
        #[doc = "The name of the user."]
        user_name: [text], RO, "", "";
        #[doc = "Whether the script starts when all nodes are ready: 0 or 1."]
        wait_all_nodes: [u16 or NO_VAL16], NO, "", "--wait-all-nodes";
        #[doc = "How long the job may wait for nodes on as few switches as it asks for."]
        wait4switch: [u32 or NO_VAL], RW, "seconds", "--switches";
        #[doc = "Whom the signal before the end is sent to: bits for the batch shell and for reservations."]
        warn_flags: [u16], NO, "bits", "--signal";
        #[doc = "The signal that is sent before the end of the job."]
        warn_signal: [u16 or 0], NO, "", "--signal";
        #[doc = "How long before the end the signal is sent."]
        warn_time: [u16 or 0], NO, "seconds", "--signal";
        #[doc = "The workload characterization key."]
        wckey: [text], RW, "", "--wckey";
        #[doc = "The working directory."]
        work_dir: [text], RW, "", "-D, --chdir";
        #[doc = "Whether X11 is forwarded, and from which nodes."]
        x11: [u16 or 0], NO, "bits", "";
    }
    views {
        #[doc = "Whether `scrontab` runs the job."]
        cron_job of [bitflags]: Boolean, RO, "", "",
            |desc| Value::Boolean(desc.bitflags & CRON_JOB != 0);
        #[doc = "`tres_per_node`, and a name that is written gets the prefix `gres:`."]
        gres of [tres_per_node]: Text, RW, "", "--gres",
            |desc| text(desc.tres_per_node.as_ref()),
            |desc, value| {
                desc.tres_per_node = text_from(value)?.map(|text| with_tres_type(&text));
                Ok(())
            };
        #[doc = "The memory of each CPU; `nil` if memory is asked for in another way."]
        min_mem_per_cpu of [pn_min_memory]: Number, RW, "MiB", "--mem-per-cpu",
            |desc| desc.mem_per_cpu().map_or(Value::Nil, number),
            |desc, value| {
                desc.set_mem_per_cpu(Some(Width::from_lua(number_from(&value)?)));
                Ok(())
            };
        #[doc = "The memory of each node; `nil` if memory is asked for in another way."]
        min_mem_per_node of [pn_min_memory]: Number, RW, "MiB", "--mem",
            |desc| desc.mem_per_node().map_or(Value::Nil, number),
            |desc, value| {
                desc.set_mem_per_node(Some(Width::from_lua(number_from(&value)?)));
                Ok(())
            };
        #[doc = "`ntasks_per_tres`."]
        ntasks_per_gpu of [ntasks_per_tres]: Number, RW, "tasks", "--ntasks-per-gpu",
            |desc| number_or(desc.ntasks_per_tres, NO_VAL16),
            |desc, value| {
                desc.ntasks_per_tres = optional_from(&value, NO_VAL16)?;
                Ok(())
            };
        #[doc = "`shared`."]
        oversubscribe of [shared]: Number, RW, "", "--exclusive, -s, --oversubscribe",
            |desc| number_or(desc.shared, NO_VAL16),
            |desc, value| {
                desc.shared = optional_from(&value, NO_VAL16)?;
                Ok(())
            };
        #[doc = "`het_job_offset`, by its old name."]
        pack_job_offset of [het_job_offset]: Number, RO, "", "",
            |desc| number_or(desc.het_job_offset, NO_VAL);
        #[doc = "The threads that are kept for the system on each node; `nil` if cores are kept or nothing is set."]
        thread_spec of [core_spec]: Number, RW since V26_05, "threads", "--thread-spec",
            |desc| kept(desc.core_spec, CORE_SPEC_THREAD),
            |desc, value| keep(desc, &value, CORE_SPEC_THREAD);
    }
}

/// The table of the fields of a [`JobDescriptor`].
pub const FIELDS: &[super::Field<JobDescriptor>] = JobDescriptor::FIELDS;

impl JobDescriptor {
    /// Writes a value into a field as Lua does: a number into a text field becomes text, a text that reads
    /// as a number becomes one, an empty text clears the field, and a number is cut to the field's width.
    ///
    /// # Errors
    /// [`SetError`] if there is no such field, if no version of Slurm can write it, or if it doesn't take
    /// values of this type. The description is not changed then.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), SetError> {
        let unknown = || SetError::Unknown(name.to_owned());
        let field = super::Field::find(FIELDS, name).ok_or_else(unknown)?;
        // A member that scripts don't see at all is not a field for them.
        if !field.readable.any() && !field.writable.any() {
            return Err(unknown());
        }
        let set = field.set.ok_or_else(|| SetError::ReadOnly(name.to_owned()))?;
        set(self, value)
    }

    /// The memory of each CPU in MiB; `None` if memory is asked for in another way, or not at all.
    #[must_use]
    pub fn mem_per_cpu(&self) -> Option<u64> {
        let memory = self.pn_min_memory.filter(|memory| memory & MEM_PER_CPU != 0)?;
        Some(memory & !MEM_PER_CPU)
    }

    /// The memory of each node in MiB, 0 for all of it; `None` if memory is asked for in another way, or
    /// not at all.
    #[must_use]
    pub fn mem_per_node(&self) -> Option<u64> {
        self.pn_min_memory.filter(|memory| memory & MEM_PER_CPU == 0)
    }

    /// Asks for memory for each CPU, in MiB, in place of any other memory.
    pub fn set_mem_per_cpu(&mut self, mebibytes: Option<u64>) {
        let memory = mebibytes.filter(|mebibytes| *mebibytes != NO_VAL64);
        self.pn_min_memory = memory.map(|mebibytes| mebibytes | MEM_PER_CPU);
    }

    /// Asks for memory of each node, in MiB, in place of any other memory; 0 asks for all of it.
    pub fn set_mem_per_node(&mut self, mebibytes: Option<u64>) {
        self.pn_min_memory = mebibytes.filter(|mebibytes| *mebibytes != NO_VAL64);
    }

    /// The nice value; `None` if it is not set.
    #[must_use]
    pub fn nice_value(&self) -> Option<i64> {
        self.nice.map(|nice| i64::from(nice) - i64::from(NICE_OFFSET))
    }

    /// Sets the nice value. A value that Slurm can't represent becomes the nearest one that it can.
    pub fn set_nice_value(&mut self, nice: Option<i64>) {
        let highest = i64::from(NO_VAL) - i64::from(NICE_OFFSET) - 1;
        self.nice = nice.map(|nice| {
            let raw = nice.clamp(-i64::from(NICE_OFFSET), highest) + i64::from(NICE_OFFSET);
            u32::try_from(raw).unwrap_or(NICE_OFFSET)
        });
    }
}

/// The number of cores or threads reserved for the system, if it is counted in the unit of this bit; nil
/// otherwise.
fn kept(raw: Option<u16>, bit: u16) -> Value {
    let raw = raw.filter(|raw| raw & CORE_SPEC_THREAD == bit);
    raw.map_or(Value::Nil, |raw| number(raw & !CORE_SPEC_THREAD))
}

fn keep(desc: &mut JobDescriptor, value: &Value, bit: u16) -> Result<(), SetError> {
    let count = u16::from_lua(number_from(value)?);
    desc.core_spec = Some(count).filter(|count| *count != NO_VAL16).map(|count| count | bit);
    Ok(())
}

/// A list of generic resources in which each entry says its type: `gpu:1` becomes `gres:gpu:1`.
fn with_tres_type(text: &str) -> String {
    // 22.05 writes `gres:gpu`, newer versions `gres/gpu`.
    let typed = |entry: &str| match entry.split_once([':', '/']) {
        Some(("gres", _)) => entry.to_owned(),
        _ => format!("gres:{entry}"),
    };
    text.split(',').map(typed).collect::<Vec<_>>().join(",")
}
