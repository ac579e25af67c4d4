//! Signals as the system's interface has them, by their numbers.

use rustix::process::Signal;

/// The real-time signals that programs may use. The C library keeps 32 and 33 for itself.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// The signal of a number that can be sent to the processes of jobs.
pub(crate) fn to_processes(number: i32) -> Option<Signal> {
    match number {
        number if REAL_TIME.contains(&number) => Some(real_time(number)),
        number => Signal::from_named_raw(number),
    }
}

/// The number is one of [`REAL_TIME`].
#[allow(unsafe_code)]
fn real_time(number: i32) -> Signal {
    // SAFETY: the number is that of a signal. It is only sent, by a system call, and to processes of jobs, which this
    // process is not one of; no handler, mask or wait of this process uses it.
    unsafe { Signal::from_raw_unchecked(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_c_library_keeps_is_left_out() {
        let missing: Vec<i32> = (1..=64).filter(|n| to_processes(*n).is_none()).collect();
        assert_eq!(missing, [32, 33]);
        assert!(to_processes(40).is_some_and(|signal| signal.as_raw() == 40));
        assert_eq!([0, -1, 65].map(to_processes), [None; 3]);
    }
}
