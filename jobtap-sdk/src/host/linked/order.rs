//! The order in which plugins are called.
//!
//! The registry of a running manager and the builder of managers compute it by the same function. The
//! builder refuses a cycle before it compiles anything.

use std::collections::{BTreeMap, BTreeSet};

/// The order that a plugin declares. A name in `before` or `after` that no plugin has is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement<'a> {
    /// The plugin's name; the names of builtins begin with a dot.
    pub name: &'a str,
    /// Plugins that are called after it.
    pub before: Vec<&'a str>,
    /// Plugins that are called before it.
    pub after: Vec<&'a str>,
}

/// Returns the names in the order in which the plugins are called: builtins first; among the builtins and
/// among the others as `before` and `after` say; then as in `sequence`; then by name.
///
/// ```
/// use jobtap_core::host::{Placement, arrange};
///
/// let places = [
///     Placement { name: "limits", ..Placement::default() },
///     Placement { name: "fairshare", after: vec!["limits"], ..Placement::default() },
///     Placement { name: ".history", ..Placement::default() },
///     Placement { name: "audit", ..Placement::default() },
/// ];
/// assert_eq!(arrange(&places, &[]).unwrap(), [".history", "audit", "limits", "fairshare"]);
/// let sequence = ["fairshare", "audit"];
/// assert_eq!(arrange(&places, &sequence).unwrap(), [".history", "audit", "limits", "fairshare"]);
/// let sequence = ["limits", "fairshare", "audit"];
/// assert_eq!(arrange(&places, &sequence).unwrap(), [".history", "limits", "fairshare", "audit"]);
/// ```
///
/// # Errors
/// The names of plugins whose declarations form a cycle, or that come after such plugins.
pub fn arrange<'a>(
    places: &[Placement<'a>],
    sequence: &[&str],
) -> Result<Vec<&'a str>, Vec<&'a str>> {
    let mut earlier: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for place in places {
        earlier.entry(place.name).or_default().extend(&place.after);
        for later in &place.before {
            earlier.entry(later).or_default().insert(place.name);
        }
    }
    let rank = |name: &str| sequence.iter().position(|other| *other == name);
    // A name that the sequence doesn't have comes after those that it has.
    let rank = |name: &'a str| (rank(name).unwrap_or(usize::MAX), name);
    let mut left: BTreeSet<(usize, &str)> = places.iter().map(|place| rank(place.name)).collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let unplaced: BTreeSet<&str> = left.iter().map(|(_, name)| *name).collect();
        let builtins_left = unplaced.iter().any(|name| is_builtin(name));
        let free = |name: &str| {
            let mut waits = earlier.get(name).into_iter().flatten();
            (is_builtin(name) || !builtins_left)
                && !waits.any(|n| unplaced.contains(n) && (is_builtin(n) || !is_builtin(name)))
        };
        // A plugin waits for those declared to be earlier. A builtin waits for builtins only: it comes
        // before all other plugins anyway, and would wait for them forever.
        let Some(next) = left.iter().copied().find(|(_, name)| free(name)) else {
            return Err(unplaced.into_iter().collect());
        };
        left.remove(&next);
        ordered.push(next.1);
    }
    Ok(ordered)
}

fn is_builtin(name: &str) -> bool {
    name.starts_with('.')
}
