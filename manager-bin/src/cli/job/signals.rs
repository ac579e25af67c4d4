//! Signals by number or name.

/// Linux's signals by their numbers from 1.
const NAMES: &[&str] = &[
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The number of `SIGTERM`, `TERM`, `term` or `15`.
pub(super) fn parse(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let index = NAMES.iter().position(|known| *known == name)?;
    i64::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_name_and_number() {
        for text in ["SIGTERM", "TERM", "sigterm", "15"] {
            assert_eq!(parse(text), Some(15));
        }
        assert_eq!(parse("SYS"), Some(31));
        for text in ["", "SIG", "NOSUCH", "0", "-1", "65"] {
            assert_eq!(parse(text), None);
        }
    }
}
