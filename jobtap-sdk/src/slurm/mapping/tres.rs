//! Lists of generic resources with their counts: `gres:gpu:a100:2,gres:nic:1`.

/// An entry of a list of generic resources can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid resource '{entry}': use NAME, NAME:COUNT or NAME:TYPE:COUNT, with a count of at most {}",
    u32::MAX
)]
pub struct TresError {
    /// The entry.
    pub entry: String,
}

/// One entry.
pub(super) struct Tres<'t> {
    pub(super) name: &'t str,
    pub(super) count: u64,
}

/// Checks the counts of a list of generic resources, as requests have them: `gpu:2`, `gres:gpu:a100:2,nic`.
///
/// ```
/// use jobtap_core::slurm::check_tres;
///
/// assert!(check_tres("gpu:a100:2,nic").is_ok());
/// assert!(check_tres("gpu:-1").is_err());
/// ```
///
/// # Errors
/// [`TresError`] names the first entry that can't be read.
pub fn check_tres(list: &str) -> Result<(), TresError> {
    entries(list).try_for_each(|entry| parse(entry).map(drop))
}

/// The number of GPUs in a list; `None` if it has none.
pub(super) fn gpus(list: &str) -> Option<u64> {
    let all = entries(list).filter_map(|entry| parse(entry).ok());
    let counts = all.filter(|tres| tres.name == "gpu").map(|tres| tres.count);
    counts.reduce(|sum, count| sum.saturating_add(count))
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

fn parse(entry: &str) -> Result<Tres<'_>, TresError> {
    let wrong = || TresError { entry: entry.to_owned() };
    // Sockets or indexes may follow in parentheses.
    let text = entry.split('(').next().unwrap_or_default();
    let text = text.strip_prefix("gres:").or_else(|| text.strip_prefix("gres/")).unwrap_or(text);
    let parts: Vec<&str> = text.split([':', '=']).collect();
    let (name, count) = match *parts {
        [name] => (name, Some(1)),
        [name, last] | [name, _, last] => (name, count(last)),
        _ => return Err(wrong()),
    };
    let is_name = !name.is_empty() && !parts.contains(&"");
    let count = count.filter(|count| is_name && *count <= u32::MAX.into()).ok_or_else(wrong)?;
    Ok(Tres { name, count })
}

/// The last part of an entry: a count, or a type, which counts as 1.
fn count(last: &str) -> Option<u64> {
    let first = last.chars().next()?;
    if first.is_ascii_alphabetic() || first == '_' {
        return Some(1);
    }
    let digits = last.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match last.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_whole)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_gpus_are_added() {
        for (list, count) in [
            ("gpu", Some(1)),
            ("gpu:2", Some(2)),
            ("gres:gpu:a100:2,gres:nic:1", Some(2)),
            ("gres/gpu=4", Some(4)),
            ("gpu:a100:1,gpu:h100:3(S:0-1)", Some(4)),
            ("gpu:tesla", Some(1)),
            ("gpu:0", Some(0)),
            ("gpu:1k", Some(1024)),
            ("nic:2", None),
            ("gpus:2", None),
            ("", None),
        ] {
            assert_eq!(check_tres(list), Ok(()), "{list}");
            assert_eq!(gpus(list), count, "{list}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        for entry in [
            "gpu:-1",
            "gpu:+1",
            "gpu:1.5",
            "gpu:",
            "gpu:a100:",
            ":2",
            "gpu::2",
            "gpu:99999999999999999999",
            "gpu:4294967296",
            "gpu:4g",
            "gpu:2x",
            "gpu:a100:-3",
            "gpu=-1",
            "gpu:1:2:3",
            "nic:-1",
        ] {
            let refused = check_tres(&format!("nic:1,{entry}"));
            assert_eq!(refused, Err(TresError { entry: entry.to_owned() }));
        }
    }
}
