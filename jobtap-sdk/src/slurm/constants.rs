//! Slurm's numbers: what stands for "not set" and "no limit", and the bits of its flags, under the names
//! that scripts use.

use super::release::{Release, Releases};

/// A byte that is not set.
pub const NO_VAL8: u8 = 0xfe;
/// A number of 16 bits that is not set.
pub const NO_VAL16: u16 = 0xfffe;
/// A number of 32 bits that is not set.
pub const NO_VAL: u32 = 0xffff_fffe;
/// A number of 64 bits that is not set.
pub const NO_VAL64: u64 = 0xffff_ffff_ffff_fffe;
/// A number of 32 bits without limit.
pub const INFINITE: u32 = 0xffff_ffff;
/// A number of 64 bits without limit.
pub const INFINITE64: u64 = 0xffff_ffff_ffff_ffff;
/// The priority that `--priority=TOP` asks for.
pub const TOP_PRIORITY: u32 = NO_VAL - 1;
/// The offset that is added to a nice value in Slurm's unsigned field, so that it can be negative.
pub const NICE_OFFSET: u32 = 0x8000_0000;
/// The bit of `pn_min_memory` that makes it memory for each CPU.
pub const MEM_PER_CPU: u64 = 0x8000_0000_0000_0000;
/// The bit of `core_spec` that makes it a number of threads.
pub const CORE_SPEC_THREAD: u16 = 0x8000;

/// `shared`: no other job on the nodes.
pub const JOB_SHARED_NONE: u16 = 0;
/// `shared`: other jobs may be on the nodes.
pub const JOB_SHARED_OK: u16 = 1;
/// `shared`: other jobs of the same user may be on the nodes.
pub const JOB_SHARED_USER: u16 = 2;
/// `shared`: other jobs of the same MCS label may be on the nodes.
pub const JOB_SHARED_MCS: u16 = 3;

/// `mail_type`: when the job begins.
pub const MAIL_JOB_BEGIN: u16 = 0x0001;
/// `mail_type`: when the job ends.
pub const MAIL_JOB_END: u16 = 0x0002;
/// `mail_type`: when the job fails.
pub const MAIL_JOB_FAIL: u16 = 0x0004;
/// `mail_type`: when the job is requeued.
pub const MAIL_JOB_REQUEUE: u16 = 0x0008;
/// `mail_type`: when the time limit is reached.
pub const MAIL_JOB_TIME100: u16 = 0x0010;
/// `mail_type`: at 90 percent of the time limit.
pub const MAIL_JOB_TIME90: u16 = 0x0020;
/// `mail_type`: at 80 percent of the time limit.
pub const MAIL_JOB_TIME80: u16 = 0x0040;
/// `mail_type`: at 50 percent of the time limit.
pub const MAIL_JOB_TIME50: u16 = 0x0080;
/// `mail_type`: when data were staged out.
pub const MAIL_JOB_STAGE_OUT: u16 = 0x0100;
/// `mail_type`: one message for each task of an array.
pub const MAIL_ARRAY_TASKS: u16 = 0x0200;
/// `mail_type`: when a dependency can't be satisfied.
pub const MAIL_INVALID_DEPEND: u16 = 0x0400;

/// `bitflags`: cancel the job when a dependency can't be satisfied.
pub const KILL_INV_DEP: u64 = 1 << 0;
/// `bitflags`: keep the job when a dependency can't be satisfied.
pub const NO_KILL_INV_DEP: u64 = 1 << 1;
/// `bitflags`: bind tasks to the CPUs near their GRES.
pub const GRES_ENFORCE_BIND: u64 = 1 << 4;
/// `bitflags`: the number of tasks was asked for.
pub const JOB_NTASKS_SET: u64 = 1 << 14;
/// `bitflags`: use the most nodes.
pub const SPREAD_JOB: u64 = 1 << 8;
/// `bitflags`: prefer the smallest number of nodes.
pub const USE_MIN_NODES: u64 = 1 << 9;
/// `bitflags`: don't bind tasks to the CPUs near their GRES.
pub const GRES_DISABLE_BIND: u64 = 1 << 19;
/// `bitflags`: the job is run by `scrontab`.
pub const CRON_JOB: u64 = 1 << 22;
/// `bitflags`: the request names no account.
pub const USE_DEFAULT_ACCT: u64 = 1 << 25;
/// `bitflags`: the request names no partition.
pub const USE_DEFAULT_PART: u64 = 1 << 26;
/// `bitflags`: the request names no quality of service.
pub const USE_DEFAULT_QOS: u64 = 1 << 27;
/// `bitflags`: the request names no workload characterization key.
pub const USE_DEFAULT_WCKEY: u64 = 1 << 28;

/// `alloc_sid` of a job that an administrator holds.
pub const ALLOC_SID_ADMIN_HOLD: u32 = 1;
/// `alloc_sid` of a job that its user holds.
pub const ALLOC_SID_USER_HOLD: u32 = 2;
/// The bit of a partition's `max_share` that makes jobs share nodes.
pub const SHARED_FORCE: u16 = 0x8000;

/// The bit of a partition's `flags` that makes it the default.
pub const PART_FLAG_DEFAULT: u32 = 1 << 0;
/// The bit of a partition's `state_up` with which it accepts submissions.
pub const PARTITION_SUBMIT: u16 = 0x01;
/// The bit of a partition's `state_up` with which its jobs get resources.
pub const PARTITION_SCHED: u16 = 0x02;

/// The states of a job in `job_rec.job_state`, by their numbers.
pub const JOB_STATES: &[(&str, u32)] = &[
    ("PENDING", 0),
    ("RUNNING", 1),
    ("SUSPENDED", 2),
    ("COMPLETED", 3),
    ("CANCELLED", 4),
    ("FAILED", 5),
    ("TIMEOUT", 6),
    ("NODE_FAIL", 7),
    ("PREEMPTED", 8),
    ("BOOT_FAIL", 9),
    ("DEADLINE", 10),
    ("OUT_OF_MEMORY", 11),
];
/// The bit of `job_state` that says that a job is completing.
pub const JOB_COMPLETING: u32 = 1 << 15;

/// A number that scripts know as `slurm.NAME`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Constant {
    /// The name.
    pub name: &'static str,
    /// The value in Lua, where 64-bit numbers lose their last digits.
    pub value: f64,
    /// The releases of Slurm whose scripts know it.
    pub releases: Releases,
}

const fn always(name: &'static str, value: f64) -> Constant {
    Constant { name, value, releases: Releases::ALL }
}

const fn since(release: Release, name: &'static str, value: u64) -> Constant {
    Constant { name, value: value as f64, releases: Releases::since(release) }
}

/// The numbers that scripts know as `slurm.NAME`, without the errors, which are in
/// [`errno::ERRORS`](super::errno::ERRORS). `slurm.CLUSTER_NAME` is a text, which depends on the instance.
///
/// `MAIL_JOB_TIME890` is how Slurm spells it.
pub const CONSTANTS: &[Constant] = &[
    always("ALLOC_SID_ADMIN_HOLD", ALLOC_SID_ADMIN_HOLD as f64),
    always("ALLOC_SID_USER_HOLD", ALLOC_SID_USER_HOLD as f64),
    since(Release::V25_11, "CONSOLIDATE_SEGMENTS", 1 << 44),
    always("ERROR", -1.0),
    since(Release::V25_11, "EXPEDITED_REQUEUE", 1 << 45),
    always("FAILURE", -1.0),
    since(Release::V23_11, "GRES_ALLOW_TASK_SHARING", 1 << 40),
    always("GRES_DISABLE_BIND", GRES_DISABLE_BIND as f64),
    always("GRES_ENFORCE_BIND", GRES_ENFORCE_BIND as f64),
    since(Release::V23_11, "GRES_MULT_TASKS_PER_SHARING", 1 << 39),
    since(Release::V23_11, "GRES_ONE_TASK_PER_SHARING", 1 << 38),
    always("INFINITE", INFINITE as f64),
    always("INFINITE64", INFINITE64 as f64),
    always("JOB_SHARED_MCS", JOB_SHARED_MCS as f64),
    always("JOB_SHARED_NONE", JOB_SHARED_NONE as f64),
    always("JOB_SHARED_OK", JOB_SHARED_OK as f64),
    always("JOB_SHARED_USER", JOB_SHARED_USER as f64),
    always("KILL_INV_DEP", KILL_INV_DEP as f64),
    always("MAIL_INVALID_DEPEND", MAIL_INVALID_DEPEND as f64),
    always("MAIL_JOB_BEGIN", MAIL_JOB_BEGIN as f64),
    always("MAIL_JOB_END", MAIL_JOB_END as f64),
    always("MAIL_JOB_FAIL", MAIL_JOB_FAIL as f64),
    always("MAIL_JOB_REQUEUE", MAIL_JOB_REQUEUE as f64),
    always("MAIL_JOB_STAGE_OUT", MAIL_JOB_STAGE_OUT as f64),
    always("MAIL_JOB_TIME100", MAIL_JOB_TIME100 as f64),
    always("MAIL_JOB_TIME50", MAIL_JOB_TIME50 as f64),
    always("MAIL_JOB_TIME80", MAIL_JOB_TIME80 as f64),
    always("MAIL_JOB_TIME890", MAIL_JOB_TIME90 as f64),
    always("MEM_PER_CPU", MEM_PER_CPU as f64),
    always("NICE_OFFSET", NICE_OFFSET as f64),
    always("NO_KILL_INV_DEP", NO_KILL_INV_DEP as f64),
    always("NO_VAL", NO_VAL as f64),
    always("NO_VAL16", NO_VAL16 as f64),
    always("NO_VAL64", NO_VAL64 as f64),
    always("NO_VAL8", NO_VAL8 as f64),
    always("SHARED_FORCE", SHARED_FORCE as f64),
    since(Release::V23_02, "SLURM_SUCCESS", 0),
    always("SPREAD_JOB", SPREAD_JOB as f64),
    since(Release::V25_11, "SPREAD_SEGMENTS", 1 << 43),
    since(Release::V24_05, "STEPMGR_ENABLED", 1 << 41),
    always("SUCCESS", 0.0),
    always("USE_MIN_NODES", USE_MIN_NODES as f64),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_the_values_that_scripts_of_22_05_see() {
        let value = |name: &str| CONSTANTS.iter().find(|c| c.name == name).unwrap().value;
        for (name, seen) in [
            ("NO_VAL", 4_294_967_294.0),
            ("NO_VAL16", 65_534.0),
            ("NO_VAL8", 254.0),
            ("NO_VAL64", 18_446_744_073_709_551_616.0),
            ("INFINITE", 4_294_967_295.0),
            ("INFINITE64", 18_446_744_073_709_551_616.0),
            ("MEM_PER_CPU", 9_223_372_036_854_775_808.0),
            ("NICE_OFFSET", 2_147_483_648.0),
            ("GRES_DISABLE_BIND", 524_288.0),
            ("GRES_ENFORCE_BIND", 16.0),
            ("MAIL_INVALID_DEPEND", 1024.0),
            ("MAIL_JOB_STAGE_OUT", 256.0),
            ("MAIL_JOB_TIME890", 32.0),
            ("SHARED_FORCE", 32_768.0),
            ("SPREAD_JOB", 256.0),
            ("USE_MIN_NODES", 512.0),
            ("ERROR", -1.0),
        ] {
            assert_eq!(value(name), seen, "{name}");
        }
    }

    #[test]
    fn scripts_of_each_release_know_its_constants() {
        let count = |release| CONSTANTS.iter().filter(|c| c.releases.has(release)).count();
        let counts: Vec<usize> = Release::ALL.iter().map(|release| count(*release)).collect();
        assert_eq!(counts, [34, 35, 38, 39, 39, 39, 42, 42]);
    }

    #[test]
    fn names_are_sorted_and_each_stands_once() {
        assert!(CONSTANTS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
