//! The index: one row for each job beside the keys of RFC 16, empty while the job is active, then its
//! inactive summary. With it a start reads one line for each of a million inactive jobs.
//!
//! A store that was made from an archive has no such rows. A mark says that all of them are there; without it a start
//! reads every job and makes the rows.

use jobtap_core::job::JobId;

use crate::store::{Key, KeyError, Op};

/// The prefix of the rows' keys; the job's id follows, in hexadecimal.
pub(in crate::daemon) const JOBS: &str = Key::INDEX;

/// The key whose presence says that every job has its row.
pub(in crate::daemon) fn mark() -> Result<Key, KeyError> {
    Key::instance(Key::INDEXED)
}

/// The key of a job's row.
pub(in crate::daemon) fn key(id: JobId) -> Result<Key, KeyError> {
    const DIGITS: usize = 16;
    // Two rows of each job are written, and `write!` would take several times as long.
    let digits: [u8; DIGITS] = std::array::from_fn(|place| {
        match (id.as_u64() >> (4 * (DIGITS - 1 - place)) & 0xf) as u8 {
            digit @ 0..=9 => b'0' + digit,
            digit => b'a' + digit - 10,
        }
    });
    let mut name = String::with_capacity(JOBS.len() + DIGITS);
    name.push_str(JOBS);
    name.push_str(std::str::from_utf8(&digits).unwrap_or_default());
    Key::instance(&name)
}

/// The job whose row this is.
pub(in crate::daemon) fn job(name: &str) -> Option<JobId> {
    let id = u64::from_str_radix(name.strip_prefix(JOBS)?, 16).ok()?;
    Some(JobId::new(id))
}

/// Returns the operation that writes the row of a job: empty while it is active, its summary once it is inactive.
pub(in crate::daemon) fn put(id: JobId, summary: String) -> Result<Op, KeyError> {
    Ok(Op::Put { key: key(id)?, value: summary.into_bytes() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_name_gives_the_job_back() {
        for id in [1, 0x1234_5678_9abc, u64::MAX] {
            let key = key(JobId::new(id)).unwrap();
            assert_eq!(job(key.name()), Some(JobId::new(id)));
        }
        assert_eq!(job("jobtap.job.x"), None);
        assert_eq!(job(mark().unwrap().name()), None);
    }
}
