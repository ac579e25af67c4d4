//! `--rlimit`: the resource limits that a job inherits from the caller. They are the job shell option
//! `rlimit`, which maps names to soft limits, -1 for unlimited.

use std::collections::BTreeMap;

use rustix::process::getrlimit;
use serde_json::Value;

use super::error::ArgError;
use super::pattern::Pattern;
use crate::rlimits::RESOURCES;

/// Limits that are privileges on the submitting host: a job inherits them only if a rule names them.
const NOT_BY_DEFAULT: [&str; 6] = ["memlock", "msgqueue", "nice", "rtprio", "rttime", "sigpending"];

/// The soft limits of this process.
pub(crate) fn current() -> BTreeMap<String, i64> {
    let limit = |resource| {
        let current = getrlimit(resource).current;
        // A limit that doesn't fit can't be reached: it is as good as unlimited.
        current.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1)
    };
    RESOURCES.iter().map(|(name, resource)| ((*name).to_owned(), limit(*resource))).collect()
}

/// Applies rules to the limits of the caller, in the order of the command line. `NAME` or a pattern copies
/// limits of the caller, `NAME=VAL` sets a limit, `-NAME` or `-PATTERN` removes limits.
///
/// # Errors
/// [`ArgError`] for an unknown name or an invalid value.
pub(crate) fn apply(
    rules: &[String],
    caller: &BTreeMap<String, i64>,
) -> Result<BTreeMap<String, i64>, ArgError> {
    let mut limits = caller.clone();
    limits.retain(|name, _| !NOT_BY_DEFAULT.contains(&name.as_str()));
    for rule in rules.iter().flat_map(|rules| rules.split(',')) {
        let bad_pattern = |_| ArgError::RlimitPattern(rule.to_owned());
        if let Some(pattern) = rule.strip_prefix('-') {
            let pattern = Pattern::new(&pattern.to_ascii_lowercase()).map_err(bad_pattern)?;
            limits.retain(|name, _| !pattern.matches(name));
        } else if let Some((name, value)) = rule.split_once('=') {
            let name = name.to_ascii_lowercase();
            if RESOURCES.iter().all(|(known, _)| *known != name) {
                return Err(ArgError::UnknownRlimit(name));
            }
            let Some(limit) = value_of(value) else {
                return Err(ArgError::RlimitValue { name, value: value.to_owned() });
            };
            limits.insert(name, limit);
        } else {
            let pattern = Pattern::new(&rule.to_ascii_lowercase()).map_err(bad_pattern)?;
            let mut found = false;
            for (name, value) in caller.iter().filter(|(name, _)| pattern.matches(name)) {
                limits.insert(name.clone(), *value);
                found = true;
            }
            if !found {
                return Err(ArgError::UnmatchedRlimit(rule.to_owned()));
            }
        }
    }
    Ok(limits)
}

/// The value of the job shell option `rlimit`.
pub(crate) fn to_value(limits: &BTreeMap<String, i64>) -> Value {
    let known = RESOURCES.iter().filter_map(|(name, _)| limits.get_key_value(*name));
    known.map(|(name, limit)| (name.clone(), Value::from(*limit))).collect()
}

fn value_of(text: &str) -> Option<i64> {
    match text {
        "unlimited" | "infinity" | "inf" => Some(-1),
        _ => text.parse().ok().filter(|limit| *limit >= -1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rules: &[&str]) -> Result<Vec<(String, i64)>, ArgError> {
        let caller = [("core", 0), ("cpu", -1), ("memlock", 64), ("nofile", 1024)];
        let caller = caller.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        let limits = apply(&rules, &caller)?;
        Ok(limits.into_iter().collect())
    }

    fn pairs(limits: &[(&str, i64)]) -> Result<Vec<(String, i64)>, ArgError> {
        Ok(limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect())
    }

    #[test]
    fn limits_of_the_host_are_not_inherited_by_default() {
        assert_eq!(limits(&[]), pairs(&[("core", 0), ("cpu", -1), ("nofile", 1024)]));
    }

    #[test]
    fn rules_are_applied_in_order() {
        assert_eq!(limits(&["-*", "memlock"]), pairs(&[("memlock", 64)]));
        assert_eq!(limits(&["-*,core=16", "CPU"]), pairs(&[("core", 16), ("cpu", -1)]));
        assert_eq!(limits(&["-*", "nofile=unlimited"]), pairs(&[("nofile", -1)]));
        assert_eq!(limits(&["-/c.*/"]), pairs(&[("nofile", 1024)]));
        assert_eq!(limits(&["core", "-*"]), pairs(&[]));
    }

    #[test]
    fn unknown_names_and_values_are_refused() {
        let refusal = |rule: &str| limits(&[rule]).unwrap_err().to_string();
        assert_eq!(refusal("foo"), "No corresponding rlimit matching \"foo\"");
        assert_eq!(refusal("foo=1"), "Invalid rlimit \"foo\"");
        assert_eq!(refusal("core=x"), "Invalid value in core=x");
        assert_eq!(refusal("core=-2"), "Invalid value in core=-2");
        assert_eq!(refusal("/(/"), "--rlimit: invalid pattern in /(/");
    }

    #[test]
    fn current_returns_the_limits_of_this_process() {
        assert!(current()["nofile"] != 0);
    }
}
