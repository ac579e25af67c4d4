//! The records that scripts read: a job that exists, a partition, a reservation.

use super::constants::{
    INFINITE, MEM_PER_CPU, NICE_OFFSET, NO_VAL, NO_VAL16, PART_FLAG_DEFAULT, PARTITION_SCHED,
    PARTITION_SUBMIT,
};
use super::table::record;
use super::value::{Value, number, text};

record! {
    /// A job that exists: Slurm's `job_rec`, also an entry of `slurm.jobs`. Scripts can't change it.
    pub struct JobRecord {
        #[doc = "The account that the job is charged to."]
        account: [text], RO, "", "";
        #[doc = "A comment that only administrators may set."]
        admin_comment: [text], RO, "", "";
        #[doc = "The submitting host."]
        alloc_node: [text], RO, "", "";
        #[doc = "The script's name and its arguments."]
        argv: [list from 1], RO, "", "";
        #[doc = "The id of the job array; 0 if the job is not part of one."]
        array_job_id: [u32], RO, "", "";
        #[doc = "The number of tasks of the job array."]
        array_task_cnt: [u32 or nil], RO, "tasks", "";
        #[doc = "The task id in the job array."]
        array_task_id: [u32 or NO_VAL], RO, "", "";
        #[doc = "The features that the node of the batch script must have."]
        batch_features: [text], RO, "", "";
        #[doc = "The host on which the batch script runs."]
        batch_host: [text], RO, "", "";
        #[doc = "Whether the job has the fewest switches that are possible: 0 or 1."]
        best_switch: [u8 = 1], RO, "", "";
        #[doc = "The burst buffer that the job needs."]
        burst_buffer: [text], RO, "", "";
        #[doc = "A comment of the user's."]
        comment: [text], RO, "", "";
        #[doc = "The OCI container bundle of the job."]
        container: [text], RO, "", "";
        #[doc = "The OCI container's id. Slurm 23.02 and later."]
        container_id: [text], NO, "", "";
        #[doc = "How the container is run. Slurm 26.05 and later."]
        container_type: [text], NO, "", "";
        #[doc = "The cores of each node that are kept for the system."]
        core_spec: [u16 or nil], RO since V26_05, "cores", "";
        #[doc = "The CPUs of each task."]
        cpus_per_task: [u16 or NO_VAL16], NO, "CPUs", "";
        #[doc = "The CPUs for each generic resource."]
        cpus_per_tres: [text], RO, "", "";
        #[doc = "The dependencies that are not satisfied yet."]
        curr_dependency: [text], RO since V24_05, "", "";
        #[doc = "How long the job may wait for a node to reboot."]
        delay_boot: [u32], RO, "seconds", "";
        #[doc = "The highest exit status of the job's steps, as of `waitpid`."]
        derived_ec: [u32], RO, "", "";
        #[doc = "Whether an administrator has set the priority: 0 or 1."]
        direct_set_prio: [u8], RO, "", "";
        #[doc = "The time at which the job ended, or will end; 0 if that is not known."]
        end_time: [u64], RO, "seconds since 1970", "";
        #[doc = "The exit status of the script, as of `waitpid`."]
        exit_code: [u32], RO, "", "";
        #[doc = "A text that Slurm keeps for others."]
        extra: [text], RO since V23_02, "", "";
        #[doc = "The node whose failure ended the job. Slurm 23.02 and later."]
        failed_node: [text], NO, "", "";
        #[doc = "The features that nodes must have."]
        features: [text], RO, "", "";
        #[doc = "The generic resources that the job uses."]
        gres_used: [text], RO, "", "";
        #[doc = "The group of the job."]
        group_id: [u32], RO, "", "";
        #[doc = "The id of the first part of a heterogeneous job; 0 if the job is not part of one."]
        het_job_id: [u32], RO, "", "";
        #[doc = "The ids of all parts of a heterogeneous job."]
        het_job_id_set: [text], RO, "", "";
        #[doc = "The place of this part in a heterogeneous job."]
        het_job_offset: [u32], RO, "", "";
        #[doc = "The id of the job, as far as it fits into Slurm's width."]
        job_id: [u32], RO, "", "";
        #[doc = "The state of the job: a number of `JOB_STATES` with flags above the lowest 8 bits."]
        job_state: [u32], RO, "", "";
        #[doc = "The licenses that the job needs."]
        licenses: [text], RO, "", "";
        #[doc = "The licenses that the job has. Slurm 25.05 and later."]
        licenses_allocated: [text], NO, "", "";
        #[doc = "The most CPUs of the job."]
        max_cpus: [u32 or NO_VAL], RO, "CPUs", "";
        #[doc = "The most nodes of the job; 0 if there is no limit."]
        max_nodes: [u32], RO, "nodes", "";
        #[doc = "The security label of the job."]
        mcs_label: [text], RO since V23_11, "", "";
        #[doc = "The memory for each generic resource."]
        mem_per_tres: [text], RO, "", "";
        #[doc = "The least CPUs of the job."]
        min_cpus: [u32], RO, "CPUs", "";
        #[doc = "The least nodes of the job."]
        min_nodes: [u32], RO, "nodes", "";
        #[doc = "The name of the job."]
        name: [text], RO, "", "";
        #[doc = "The nice value plus `NICE_OFFSET`."]
        nice: [u32 = NICE_OFFSET], RO, "", "";
        #[doc = "The hosts of the job, as a host list."]
        nodes: [text], RO, "", "";
        #[doc = "The dependencies as they were requested."]
        orig_dependency: [text], RO since V24_05, "", "";
        #[doc = "The cluster where the job was submitted."]
        origin_cluster: [text], RO, "", "";
        #[doc = "The SLUID that the job had first."]
        original_sluid: [text], RO since V26_05, "", "";
        #[doc = "The partition of the job, or the partitions to which it may go."]
        partition: [text], RO, "", "";
        #[doc = "The least CPUs of each node."]
        pn_min_cpus: [u16], RO, "CPUs", "";
        #[doc = "The memory of each node, or of each CPU if it has the bit `MEM_PER_CPU`."]
        pn_min_memory: [u64], RO, "MiB", "";
        #[doc = "The priority; 0 if the job is held."]
        priority: [u32], RO, "", "";
        #[doc = "The quality of service."]
        qos: [text], RO, "", "";
        #[doc = "Whether the nodes are rebooted first: 0 or 1."]
        reboot: [u8], RO, "", "";
        #[doc = "The most network switches that the nodes may be on; 0 if there is no limit."]
        req_switch: [u32], RO, "switches", "";
        #[doc = "Whether the size of the job is being changed: 0 or 1."]
        resizing: [u8], RO, "", "";
        #[doc = "How often the job was restarted."]
        restart_cnt: [u16], RO, "", "";
        #[doc = "The ports that the nodes reserve for the job. Slurm 24.05 and later."]
        resv_ports: [text], NO, "", "";
        #[doc = "The reservation whose resources the job uses."]
        resv_name: [text], RO, "", "";
        #[doc = "The batch script."]
        script: [text], RO, "", "";
        #[doc = "The number of nodes of a segment. Slurm 24.05 and later."]
        segment_size: [u16 or 0], RO since V25_11, "nodes", "";
        #[doc = "The SELinux context of the job."]
        selinux_context: [text], RO, "", "";
        #[doc = "The site's part of the priority."]
        site_factor: [u32 = NICE_OFFSET], RO, "", "",
            |job| Value::Number(f64::from(job.site_factor) - f64::from(NICE_OFFSET));
        #[doc = "The id of the job that is unique over clusters and restarts."]
        sluid: [text], RO since V26_05, "", "";
        #[doc = "The variables that SPANK plugins set for prologs and epilogs."]
        spank_job_env: [list from 1], RO, "", "";
        #[doc = "The number of variables that SPANK plugins set."]
        spank_job_env_size: [u32], RO, "", "";
        #[doc = "The time at which the job started, or is expected to; 0 if that is not known."]
        start_time: [u64], RO, "seconds since 1970", "";
        #[doc = "The file for the standard error."]
        std_err: [text], RO, "", "";
        #[doc = "The file with the standard input."]
        std_in: [text], RO, "", "";
        #[doc = "The file for the standard output."]
        std_out: [text], RO, "", "";
        #[doc = "The time at which the job was submitted."]
        submit_time: [u64], RO, "seconds since 1970", "";
        #[doc = "The threads of each node that are kept for the system."]
        thread_spec: [u16 or nil], RO since V26_05, "threads", "";
        #[doc = "The time limit; `INFINITE` for none."]
        time_limit: [u32 or NO_VAL], RO, "minutes", "";
        #[doc = "The least time limit with which the job may start; 0 if it is not set."]
        time_min: [u32], RO, "minutes", "";
        #[doc = "The CPUs that the job has."]
        total_cpus: [u32], RO, "CPUs", "";
        #[doc = "The nodes that the job has."]
        total_nodes: [u32], RO, "nodes", "";
        #[doc = "The resources that the job has, by Slurm's numbers of them."]
        tres_alloc_str: [text], RO, "", "";
        #[doc = "How tasks are bound to generic resources."]
        tres_bind: [text], RO, "", "";
        #[doc = "The resources that the job has, by their names."]
        tres_fmt_alloc_str: [text], RO, "", "";
        #[doc = "The resources that the job asks for, by their names: `cpu=4,node=1`."]
        tres_fmt_req_str: [text], RO, "", "";
        #[doc = "The frequency of generic resources."]
        tres_freq: [text], RO, "", "";
        #[doc = "The generic resources of the job."]
        tres_per_job: [text], RO, "", "";
        #[doc = "The generic resources of each node."]
        tres_per_node: [text], RO, "", "";
        #[doc = "The generic resources of each socket."]
        tres_per_socket: [text], RO, "", "";
        #[doc = "The generic resources of each task."]
        tres_per_task: [text], RO, "", "";
        #[doc = "The resources that the job asks for, by Slurm's numbers of them."]
        tres_req_str: [text], RO, "", "";
        #[doc = "The user of the job."]
        user_id: [u32], RO, "", "";
        #[doc = "The name of the user."]
        user_name: [text], RO, "", "";
        #[doc = "How long the job may wait for nodes on as few switches as it asks for."]
        wait4switch: [u32], RO, "seconds", "";
        #[doc = "When the job began to wait for switches; 0 if it doesn't wait."]
        wait4switch_start: [u64], RO, "seconds since 1970", "";
        #[doc = "The workload characterization key."]
        wckey: [text], RO, "", "";
        #[doc = "The working directory."]
        work_dir: [text], RO, "", "";
    }
    views {
        #[doc = "`tres_per_node`."]
        gres of [tres_per_node]: Text, RO, "", "",
            |job| text(job.tres_per_node.as_ref());
        #[doc = "`tres_fmt_req_str`."]
        gres_req of [tres_fmt_req_str]: Text, RO, "", "",
            |job| text(job.tres_fmt_req_str.as_ref());
        #[doc = "The memory of each CPU; `nil` if the job asks for memory of each node."]
        min_mem_per_cpu of [pn_min_memory]: Number, RO, "MiB", "",
            |job| per_cpu(job.pn_min_memory);
        #[doc = "The memory of each node; `nil` if the job asks for memory for each CPU."]
        min_mem_per_node of [pn_min_memory]: Number, RO, "MiB", "",
            |job| per_node(job.pn_min_memory);
        #[doc = "`het_job_id`, by its old name."]
        pack_job_id of [het_job_id]: Number, RO, "", "",
            |job| number(job.het_job_id);
        #[doc = "`het_job_id_set`, by its old name."]
        pack_job_id_set of [het_job_id_set]: Text, RO, "", "",
            |job| text(job.het_job_id_set.as_ref());
        #[doc = "`het_job_offset`, by its old name."]
        pack_job_offset of [het_job_offset]: Number, RO, "", "",
            |job| number(job.het_job_offset);
    }
}

record! {
    /// A partition: an entry of `part_list`. In a manager's terms it is a queue. Scripts can't change it.
    pub struct Partition {
        #[doc = "The accounts that may use the partition, separated by commas; all if it is not set."]
        allow_accounts: [text], RO, "", "";
        #[doc = "The hosts that may submit jobs, as a host list; all if it is not set."]
        allow_alloc_nodes: [text], RO, "", "";
        #[doc = "The groups that may use the partition, separated by commas; all if it is not set."]
        allow_groups: [text], RO, "", "";
        #[doc = "The QOS that may use the partition, separated by commas; all if it is not set."]
        allow_qos: [text], RO, "", "";
        #[doc = "The partition that takes the jobs when this one is not available."]
        alternate: [text], RO, "", "";
        #[doc = "What each resource counts in the bill of a job."]
        billing_weights_str: [text], RO, "", "";
        #[doc = "The memory that a job gets by default on each node, or for each CPU if it has the bit `MEM_PER_CPU`."]
        def_mem_per_cpu: [u64], RO, "MiB", "",
            |partition| per_cpu(partition.def_mem_per_cpu);
        #[doc = "The time limit that a job gets by default; `INFINITE` for none."]
        default_time: [u32 or NO_VAL], RO, "minutes", "";
        #[doc = "The accounts that may not use the partition, separated by commas."]
        deny_accounts: [text], RO, "", "";
        #[doc = "The QOS that may not use the partition, separated by commas."]
        deny_qos: [text], RO, "", "";
        #[doc = "Flags; the lowest bit is that of the default partition."]
        flags: [u32], RO, "bits", "";
        #[doc = "The most CPUs of a job on each node; `INFINITE` for no limit."]
        max_cpus_per_node: [u32 = INFINITE], RO, "CPUs", "";
        #[doc = "The most CPUs of a job on each socket; `INFINITE` for no limit. Slurm 23.02 and later."]
        max_cpus_per_socket: [u32 or INFINITE], RO since V23_02, "CPUs", "";
        #[doc = "The most memory of a job on each node, or for each CPU if it has the bit `MEM_PER_CPU`; 0 for no limit."]
        max_mem_per_cpu: [u64], RO, "MiB", "",
            |partition| per_cpu(partition.max_mem_per_cpu);
        #[doc = "The most nodes of a job; `INFINITE` for no limit."]
        max_nodes: [u32 = INFINITE], RO, "nodes", "";
        #[doc = "How many jobs may share a node, with the bit `SHARED_FORCE` if they always do."]
        max_share: [u16 = 1], RO, "jobs", "";
        #[doc = "The highest time limit of a job; `INFINITE` for none."]
        max_time: [u32 = INFINITE], RO, "minutes", "";
        #[doc = "The least nodes of a job."]
        min_nodes: [u32], RO, "nodes", "";
        #[doc = "The name."]
        name: [text], RO, "", "";
        #[doc = "The hosts, as a host list."]
        nodes: [text], RO, "", "";
        #[doc = "What the partition adds to the priority of its jobs."]
        priority_job_factor: [u16 = 1], RO, "", "";
        #[doc = "The tier: jobs of a higher one get resources first."]
        priority_tier: [u16 = 1], RO, "", "";
        #[doc = "The QOS whose limits the partition has."]
        qos: [text], RO, "", "";
        #[doc = "Whether jobs can be submitted (1), get resources (2), or both (3)."]
        state_up: [u16 = (PARTITION_SUBMIT | PARTITION_SCHED)], RO, "", "";
        #[doc = "The number of CPUs."]
        total_cpus: [u32], RO, "CPUs", "";
        #[doc = "The number of nodes."]
        total_nodes: [u32], RO, "nodes", "";
    }
    views {
        #[doc = "The memory that a job gets by default on each node; `nil` if it is given for each CPU."]
        def_mem_per_node of [def_mem_per_cpu]: Number, RO, "MiB", "",
            |partition| per_node(partition.def_mem_per_cpu);
        #[doc = "Whether this is the default partition: 0 or 1."]
        flag_default of [flags]: Number, RO, "", "",
            |partition| number(partition.flags & PART_FLAG_DEFAULT);
        #[doc = "The most memory of a job on each node; `nil` if the limit is for each CPU."]
        max_mem_per_node of [max_mem_per_cpu]: Number, RO, "MiB", "",
            |partition| per_node(partition.max_mem_per_cpu);
        #[doc = "`max_nodes`."]
        max_nodes_orig of [max_nodes]: Number, RO, "nodes", "",
            |partition| number(partition.max_nodes);
        #[doc = "`max_share`."]
        max_oversubscribe of [max_share]: Number, RO, "jobs", "",
            |partition| number(partition.max_share);
        #[doc = "`min_nodes`."]
        min_nodes_orig of [min_nodes]: Number, RO, "nodes", "",
            |partition| number(partition.min_nodes);
    }
}

impl Partition {
    /// Whether jobs can be submitted to the partition.
    #[must_use]
    pub fn accepts_submissions(&self) -> bool {
        self.state_up & PARTITION_SUBMIT != 0
    }

    /// Whether this is the default partition.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.flags & PART_FLAG_DEFAULT != 0
    }
}

record! {
    /// A Slurm reservation, which reserves some nodes for some users: an entry of `slurm.reservations`.
    /// Scripts can't change it.
    pub struct Reservation {
        #[doc = "The accounts that may use it, separated by commas."]
        accounts: [text], RO, "", "";
        #[doc = "The associations that may use it, by their ids."]
        assoc_list: [text], RO, "", "";
        #[doc = "How long it lasts."]
        duration: [u32], RO, "minutes", "";
        #[doc = "The time at which it ends."]
        end_time: [u64], RO, "seconds since 1970", "";
        #[doc = "The features of its nodes."]
        features: [text], RO, "", "";
        #[doc = "Flags."]
        flags: [u64], RO, "bits", "";
        #[doc = "Whether the flag `SPEC_NODES` was set by the controller."]
        flags_set_node: [bool], RO, "", "";
        #[doc = "Whether it has whole nodes."]
        full_nodes: [bool], RO, "", "";
        #[doc = "The licenses that it holds."]
        licenses: [text], RO, "", "";
        #[doc = "The number of nodes."]
        node_cnt: [u32], RO, "nodes", "";
        #[doc = "The hosts, as a host list."]
        node_list: [text], RO, "", "";
        #[doc = "The partition of its nodes."]
        partition: [text], RO, "", "";
        #[doc = "The time at which it begins."]
        start_time: [u64], RO, "seconds since 1970", "";
        #[doc = "The users that may use it, separated by commas."]
        users: [text], RO, "", "";
    }
    views {}
}

/// The memory for each CPU; nil if it is the memory of each node.
fn per_cpu(memory: u64) -> Value {
    if memory & MEM_PER_CPU == 0 { Value::Nil } else { number(memory & !MEM_PER_CPU) }
}

/// The memory of each node; nil if it is the memory for each CPU.
fn per_node(memory: u64) -> Value {
    if memory & MEM_PER_CPU == 0 { number(memory) } else { Value::Nil }
}
