//! How the releases of Slurm differ for a plugin: what a new release needs is here.
//!
//! Where each member of a structure is in memory isn't here: the build reads it from the headers of the exact version.

use super::version::Version;

/// A release of Slurm.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    /// Its name, such as 24 and 11.
    pub number: (u32, u32),
    /// The header of job records.
    pub job_record: &'static str,
    /// The header of partitions.
    pub partition: &'static str,
    /// The header of PrEp's functions.
    pub prep: &'static str,
    /// How `job_details_t` is declared.
    pub job_details: Declared,
    /// Whether `job_modify` takes a pointer to a message for the user.
    pub modify_has_message: bool,
    /// Members that are part of another one: structure, name before, expression now.
    pub moved: &'static [(CType, &'static str, &'static str)],
}

const V22_05: Release = Release {
    number: (22, 5),
    job_record: "src/slurmctld/slurmctld.h",
    partition: "src/slurmctld/slurmctld.h",
    prep: "src/common/prep.h",
    job_details: Declared::Struct { tag: "job_details", c_type: "struct job_details" },
    modify_has_message: false,
    moved: &[],
};

const V23_02: Release = Release {
    number: (23, 2),
    prep: "src/interfaces/prep.h",
    job_details: Declared::Typedef("job_details_t"),
    modify_has_message: true,
    ..V22_05
};

const V23_11: Release = Release { number: (23, 11), ..V23_02 };

const V24_05: Release = Release {
    number: (24, 5),
    job_record: "src/common/job_record.h",
    partition: "src/common/part_record.h",
    ..V23_11
};

const V24_11: Release = Release { number: (24, 11), ..V24_05 };

const V25_05: Release = Release { number: (25, 5), ..V24_11 };

const V25_11: Release = Release {
    number: (25, 11),
    moved: &[
        (CType::JobDescriptor, "job_id", "step_id.job_id"),
        (CType::JobEnv, "jobid", "step_id.job_id"),
    ],
    ..V25_05
};

const V26_05: Release = Release { number: (26, 5), ..V25_11 };

/// The releases that are known, the oldest first.
pub const RELEASES: &[Release] = &[V22_05, V23_02, V23_11, V24_05, V24_11, V25_05, V25_11, V26_05];

impl Release {
    /// The release of a version; `None` if it isn't known.
    pub fn for_version(version: Version) -> Option<&'static Self> {
        RELEASES.iter().find(|release| release.number == version.release())
    }

    /// Its place among [`RELEASES`].
    pub fn index(&self) -> usize {
        RELEASES.iter().take_while(|other| other.number < self.number).count()
    }

    /// Its name, such as `24.11`.
    pub fn name(&self) -> String {
        format!("{}.{:02}", self.number.0, self.number.1)
    }
}

/// A structure of Slurm's that the adapter reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CType {
    /// `job_desc_msg_t`
    JobDescriptor,
    /// `job_record_t`
    JobRecord,
    /// `job_details_t`
    JobDetails,
    /// `job_array_struct_t`
    JobArray,
    /// `slurmdb_qos_rec_t`
    Qos,
    /// `part_record_t`
    Partition,
    /// `job_env_t`
    JobEnv,
    /// `slurm_conf_t`
    SlurmConf,
    /// `slurmd_conf_t`
    SlurmdConf,
    /// `prep_callbacks_t`
    PrepCallbacks,
}

/// All structures.
pub const C_TYPES: [CType; 10] = [
    CType::JobDescriptor,
    CType::JobRecord,
    CType::JobDetails,
    CType::JobArray,
    CType::Qos,
    CType::Partition,
    CType::JobEnv,
    CType::SlurmConf,
    CType::SlurmdConf,
    CType::PrepCallbacks,
];

/// How a header declares a structure.
#[derive(Debug, Clone, Copy)]
pub enum Declared {
    /// `typedef struct … { … } NAME;`
    Typedef(&'static str),
    /// `struct TAG { … };`
    Struct {
        /// The tag.
        tag: &'static str,
        /// The name of the type.
        c_type: &'static str,
    },
}

impl Declared {
    /// The name of the type in C.
    pub const fn c_type(self) -> &'static str {
        match self {
            Self::Typedef(name) | Self::Struct { c_type: name, .. } => name,
        }
    }
}

/// A header, below the directory of the public headers or below that of the source.
#[derive(Debug, Clone, Copy)]
pub enum File {
    /// Of the public headers.
    Public(&'static str),
    /// Of the source.
    Source(&'static str),
}

const SLURM: File = File::Public("slurm/slurm.h");
const SLURMD: File = File::Source("src/slurmd/slurmd/slurmd.h");

impl CType {
    /// The header that declares the structure.
    pub const fn file(self, release: &Release) -> File {
        match self {
            Self::JobDescriptor | Self::SlurmConf => SLURM,
            Self::Qos => File::Public("slurm/slurmdb.h"),
            Self::JobRecord | Self::JobDetails | Self::JobArray => File::Source(release.job_record),
            Self::Partition => File::Source(release.partition),
            Self::JobEnv | Self::SlurmdConf => SLURMD,
            Self::PrepCallbacks => File::Source(release.prep),
        }
    }

    /// How the header declares it.
    pub const fn declared(self, release: &Release) -> Declared {
        match self {
            Self::JobDescriptor => Declared::Typedef("job_desc_msg_t"),
            Self::JobRecord => Declared::Struct { tag: "job_record", c_type: "job_record_t" },
            Self::JobDetails => release.job_details,
            Self::JobArray => Declared::Typedef("job_array_struct_t"),
            Self::Qos => Declared::Typedef("slurmdb_qos_rec_t"),
            Self::Partition => Declared::Typedef("part_record_t"),
            Self::JobEnv => Declared::Typedef("job_env_t"),
            Self::SlurmConf => Declared::Typedef("slurm_conf_t"),
            Self::SlurmdConf => Declared::Typedef("slurmd_conf_t"),
            Self::PrepCallbacks => Declared::Typedef("prep_callbacks_t"),
        }
    }

    /// The name of the constant with its members.
    pub const fn constant(self) -> &'static str {
        match self {
            Self::JobDescriptor => "JOB_DESCRIPTOR",
            Self::JobRecord => "JOB_RECORD",
            Self::JobDetails => "JOB_DETAILS",
            Self::JobArray => "JOB_ARRAY",
            Self::Qos => "QOS",
            Self::Partition => "PARTITION",
            Self::JobEnv => "JOB_ENV",
            Self::SlurmConf => "SLURM_CONF",
            Self::SlurmdConf => "SLURMD_CONF",
            Self::PrepCallbacks => "PREP_CALLBACKS",
        }
    }
}
