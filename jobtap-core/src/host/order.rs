//! In which order plugins are called.
//!
//! One function, since two decide with it: the registry of a running manager, and the builder of
//! managers, which refuses a circle before it compiles anything.

use std::collections::{BTreeMap, BTreeSet};

/// What is known of a plugin's place among the others.
///
/// A name in `before` or `after` that no plugin has is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// Its name; builtins begin with a dot.
    pub name: &'a str,
    /// Plugins that are to be called after it.
    pub before: Vec<&'a str>,
    /// Plugins that are to be called before it.
    pub after: Vec<&'a str>,
}

/// The names in the order in which the plugins are called: builtins first; within these and within the
/// others as `before` and `after` say; then as in `sequence`; then by name.
///
/// ```
/// use jobtap_core::host::{Place, arrange};
///
/// let places = [
///     Place { name: "limits", ..Place::default() },
///     Place { name: "fairshare", after: vec!["limits"], ..Place::default() },
///     Place { name: ".history", ..Place::default() },
///     Place { name: "audit", ..Place::default() },
/// ];
/// assert_eq!(arrange(&places, &[]).unwrap(), [".history", "audit", "limits", "fairshare"]);
/// let sequence = ["fairshare", "audit"];
/// assert_eq!(arrange(&places, &sequence).unwrap(), [".history", "audit", "limits", "fairshare"]);
/// let sequence = ["limits", "fairshare", "audit"];
/// assert_eq!(arrange(&places, &sequence).unwrap(), [".history", "limits", "fairshare", "audit"]);
/// ```
///
/// # Errors
/// The names that can't be placed, since each is declared to come before another one of them.
pub fn arrange<'a>(places: &[Place<'a>], sequence: &[&str]) -> Result<Vec<&'a str>, Vec<&'a str>> {
    let mut earlier: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for place in places {
        earlier.entry(place.name).or_default().extend(&place.after);
        for later in &place.before {
            earlier.entry(later).or_default().insert(place.name);
        }
    }
    let rank = |name: &str| sequence.iter().position(|other| *other == name);
    // A name of no rank comes after those that have one.
    let rank = |name: &'a str| (rank(name).unwrap_or(usize::MAX), name);
    let mut left: BTreeSet<(usize, &str)> = places.iter().map(|place| rank(place.name)).collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waiting: BTreeSet<&str> = left.iter().map(|(_, name)| *name).collect();
        let builtins_left = waiting.iter().any(|name| is_builtin(name));
        let free = |name: &str| {
            let mut waits = earlier.get(name).into_iter().flatten();
            (is_builtin(name) || !builtins_left)
                && !waits.any(|n| waiting.contains(n) && (is_builtin(n) || !is_builtin(name)))
        };
        let Some(next) = left.iter().copied().find(|(_, name)| free(name)) else {
            return Err(waiting.into_iter().collect());
        };
        left.remove(&next);
        ordered.push(next.1);
    }
    Ok(ordered)
}

fn is_builtin(name: &str) -> bool {
    name.starts_with('.')
}
