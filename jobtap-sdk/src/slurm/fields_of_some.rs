//! The fields that the structures of only some releases of Slurm have.
//!
//! Whether scripts see a field is another question: each [`Field`](super::Field) says in which releases they do.

use super::release::{Release, Releases};

/// The fields. A name means the same in each structure that has it.
const FIELDS_OF_SOME: &[(&str, Releases)] = &[
    ("power_flags", Releases::until(Release::V23_11)),
    ("container_id", Releases::since(Release::V23_02)),
    ("failed_node", Releases::since(Release::V23_02)),
    ("job_size_str", Releases::since(Release::V23_02)),
    ("max_cpus_per_socket", Releases::since(Release::V23_02)),
    ("resv_port_cnt", Releases::since(Release::V24_05)),
    ("resv_ports", Releases::since(Release::V24_05)),
    ("segment_size", Releases::since(Release::V24_05)),
    ("oom_kill_step", Releases::since(Release::V24_11)),
    ("licenses_allocated", Releases::since(Release::V25_05)),
    ("container_type", Releases::since(Release::V26_05)),
    ("mem_update_delay", Releases::since(Release::V26_05)),
    ("mem_update_margin", Releases::since(Release::V26_05)),
];

impl Releases {
    /// The releases whose descriptions of requests, job records or partitions have the field of this name.
    ///
    /// ```
    /// use jobtap_core::slurm::{Release, Releases};
    ///
    /// let have_segments = Releases::of_field("segment_size");
    /// assert!(!have_segments.has(Release::V23_11));
    /// assert_eq!(have_segments.to_string(), "since 24.05");
    /// ```
    #[must_use]
    pub fn of_field(name: &str) -> Self {
        let row = FIELDS_OF_SOME.iter().find(|(field, _)| *field == name);
        row.map_or(Self::ALL, |(_, releases)| *releases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::{Field, JobDescriptor, JobRecord, Partition};

    #[test]
    fn a_field_of_some_releases_is_one_that_exists() {
        for (name, releases) in FIELDS_OF_SOME {
            let found = Field::find(JobDescriptor::FIELDS, name).is_some()
                || Field::find(JobRecord::FIELDS, name).is_some()
                || Field::find(Partition::FIELDS, name).is_some();
            assert!(found, "{name}");
            assert_ne!(*releases, Releases::ALL, "{name}");
        }
        assert_eq!(Releases::of_field("power_flags").to_string(), "until 23.11");
        assert_eq!(Releases::of_field("account"), Releases::ALL);
    }
}
