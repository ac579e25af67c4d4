//! Wait statuses as Linux's wait(2) encodes them; `finish` events and exceptions contain them.
//!
//! They are decoded without the operating system, so that an eventlog means the same everywhere.

use serde::{Deserialize, Serialize};

/// The wait status of a job or of a process, the `status` of the `finish` event (RFC 21).
///
/// If a job's tasks have different statuses, the job has the greatest of them.
///
/// ```
/// use jobtap_core::job::WaitStatus;
///
/// let status = WaitStatus::from_exit_code(3);
/// assert_eq!(status.as_raw(), 768);
/// assert_eq!(status.text(), "task(s) exited with exit code 3");
/// assert_eq!(WaitStatus::from_signal(9).exit_code(), Some(137));
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WaitStatus(pub i32);

impl WaitStatus {
    /// The status of a process that exited with code 0.
    pub const SUCCESS: Self = Self(0);

    /// The status of a process that exited with this code.
    #[must_use]
    pub const fn from_exit_code(code: u8) -> Self {
        Self((code as i32) << 8)
    }

    /// The status of a process that this signal (1..=126) killed, without a core dump.
    #[must_use]
    pub const fn from_signal(signal: i32) -> Self {
        Self(signal & 0x7f)
    }

    /// The number, as it is in the eventlog.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// Whether the process exited with code 0.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// The exit code; `None` if the process was killed.
    #[must_use]
    pub fn exited(self) -> Option<u8> {
        if self.0 & 0xff == 0 { u8::try_from(self.0 >> 8).ok() } else { None }
    }

    /// The signal that killed the process; `None` if it exited.
    #[must_use]
    pub const fn signaled(self) -> Option<i32> {
        // The low byte is the signal and the core dump bit. The other bytes are used by exits only.
        let signal = self.0 & 0x7f;
        if self.0 & !0xff == 0 && signal != 0 && signal != 0x7f { Some(signal) } else { None }
    }

    /// The exit code that a shell reports: 128 + signal for a killed process. `None` if the status
    /// says neither that the process exited nor that it was killed.
    #[must_use]
    pub fn exit_code(self) -> Option<u8> {
        let killed = |signal| u8::try_from(128 + signal).ok();
        self.exited().or_else(|| self.signaled().and_then(killed))
    }

    /// The message for users; empty for success.
    #[must_use]
    pub fn text(self) -> String {
        match (self.exited(), self.signaled()) {
            (Some(0), _) => String::new(),
            (Some(code @ 129..), _) => {
                format!("task(s) {}", signal_text(i32::from(code) - 128))
            }
            (Some(code), _) => format!("task(s) exited with exit code {code}"),
            (None, Some(signal)) => format!("job shell {}", signal_text(signal)),
            (None, None) => format!("unexpected wait(2) status {}", self.0),
        }
    }
}

/// The description of a signal by its Linux number, as strsignal(3) gives it.
///
/// ```
/// assert_eq!(jobtap_core::job::signal_text(15), "Terminated");
/// ```
#[must_use]
pub fn signal_text(signal: i32) -> String {
    let text = match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        16 => "Stack fault",
        17 => "Child exited",
        18 => "Continued",
        19 => "Stopped (signal)",
        20 => "Stopped",
        21 => "Stopped (tty input)",
        22 => "Stopped (tty output)",
        23 => "Urgent I/O condition",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        26 => "Virtual timer expired",
        27 => "Profiling timer expired",
        28 => "Window changed",
        29 => "I/O possible",
        30 => "Power failure",
        31 => "Bad system call",
        34..=64 => return format!("Real-time signal {}", signal - 34),
        _ => return format!("Unknown signal {signal}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_the_message_of_flux() {
        for (raw, code, text) in [
            (0, Some(0), ""),
            (256, Some(1), "task(s) exited with exit code 1"),
            (128 << 8, Some(128), "task(s) exited with exit code 128"),
            (143 << 8, Some(143), "task(s) Terminated"),
            (255 << 8, Some(255), "task(s) Unknown signal 127"),
            (9, Some(137), "job shell Killed"),
            (11 | 0x80, Some(139), "job shell Segmentation fault"),
            (34, Some(162), "job shell Real-time signal 0"),
            (64, Some(192), "job shell Real-time signal 30"),
            (0x7f, None, "unexpected wait(2) status 127"),
            (0xffff, None, "unexpected wait(2) status 65535"),
            (0x137f, None, "unexpected wait(2) status 4991"),
            (65536, None, "unexpected wait(2) status 65536"),
            (-1, None, "unexpected wait(2) status -1"),
        ] {
            assert_eq!(WaitStatus(raw).exit_code(), code, "{raw}");
            assert_eq!(WaitStatus(raw).text(), text);
        }
    }

    #[test]
    fn distinguishes_exits_from_signals() {
        assert!(WaitStatus::SUCCESS.is_success());
        assert_eq!(WaitStatus::from_signal(15).signaled(), Some(15));
        assert_eq!(WaitStatus::from_signal(15).exited(), None);
        assert!(WaitStatus::from_exit_code(1) > WaitStatus::from_signal(9));
    }

    #[test]
    fn json_is_the_number() {
        assert_eq!(serde_json::to_string(&WaitStatus(256)).unwrap(), "256");
        assert_eq!(serde_json::from_str::<WaitStatus>("9").unwrap(), WaitStatus(9));
    }

    proptest! {
        #[test]
        fn exit_codes_round_trip(code: u8) {
            let status = WaitStatus::from_exit_code(code);
            prop_assert_eq!(status.exited(), Some(code));
            prop_assert_eq!(status.signaled(), None);
            prop_assert_eq!(status.exit_code(), Some(code));
        }

        #[test]
        fn any_number_has_a_text(raw: i32) {
            prop_assert_eq!(WaitStatus(raw).text().is_empty(), raw == 0);
        }
    }
}
