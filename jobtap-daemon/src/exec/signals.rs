//! Converts signals to those of the system's interface.

use jobtap_core::job;
use rustix::process::Signal;

/// The real-time signals that programs may use. The C library keeps 32 and 33 for itself.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// The signal as the system takes it, if it can be sent to the processes of jobs.
pub(crate) fn to_processes(signal: job::Signal) -> Option<Signal> {
    from_number(signal.number())
}

fn from_number(number: i32) -> Option<Signal> {
    match number {
        number if REAL_TIME.contains(&number) => Some(real_time(number)),
        number => Signal::from_named_raw(number),
    }
}

/// The signal with this number, which must be one of [`REAL_TIME`].
#[allow(unsafe_code)]
fn real_time(number: i32) -> Signal {
    // SAFETY: the number belongs to a signal. The signal is only sent, by a system call, to processes of jobs and
    // never to this process; no handler, mask or wait of this process uses it.
    unsafe { Signal::from_raw_unchecked(number) }
}

/// A signal to processes in a message between processes of this host.
pub(super) mod by_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::{Signal, from_number};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(in crate::exec) fn serialize<S: Serializer>(
        signal: &Signal,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        signal.as_raw().serialize(serializer)
    }

    pub(in crate::exec) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Signal, D::Error> {
        let number = i32::deserialize(deserializer)?;
        let unsendable = || de::Error::custom(format_args!("signal {number} can't be sent"));
        from_number(number).ok_or_else(unsendable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_c_library_keeps_is_left_out() {
        let all = (1..=64).filter_map(job::Signal::from_number);
        let missing = all.filter(|signal| to_processes(*signal).is_none());
        assert_eq!(missing.map(job::Signal::number).collect::<Vec<_>>(), [32, 33]);
        let real_time = job::Signal::from_number(40).and_then(to_processes);
        assert!(real_time.is_some_and(|signal| signal.as_raw() == 40));
        assert_eq!([0, -1, 65].map(from_number), [None; 3]);
    }
}
