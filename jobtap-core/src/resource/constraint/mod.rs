//! Which nodes a job may run on (RFC 31): its constraint, typed, so that what the scheduler evaluates
//! for every node can't be malformed any more.

mod error;
mod filter;
mod property;
mod query;
#[cfg(test)]
mod sample;
mod value;

pub use error::{ConstraintError, ConstraintFault, QueryError};
pub use property::Property;

use super::{Hostlist, Idset, RankResources};

/// A condition on nodes (RFC 31).
///
/// Read from the JSON of `attributes.system.constraints` with [`Constraint::from_value`], or from
/// what users write after `--requires` with [`Constraint::from_query`].
///
/// ```
/// use jobtap_core::resource::{Children, Constraint, Idset, ResourceSet};
/// use serde_json::json;
///
/// let cores = Children::new(Idset::from(0..=3), Idset::new());
/// let mut nodes = ResourceSet::uniform(0, &"foo[0-3]".parse()?, cores);
/// nodes.set_property("ssd", &Idset::from(1..=2))?;
///
/// let constraint = Constraint::from_value(&json!({
///     "and": [{"properties": ["ssd"]}, {"not": [{"hostlist": ["foo[2-3]"]}]}]
/// }))?;
/// assert_eq!(nodes.matching(&constraint).nodelist().to_string(), "foo1");
/// assert_eq!(Constraint::from_query("ssd and not host:foo[2-3]")?, constraint);
///
/// let refused = Constraint::from_value(&json!({"or": [{}, {"shape": []}]}));
/// assert_eq!(refused.unwrap_err().to_string(), "or[1]: unknown constraint operator: shape");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Constraint {
    /// Every node: the empty object.
    #[default]
    Always,
    /// Nodes for which all of these hold; every node when there is none.
    Properties(Vec<Property>),
    /// Nodes whose host is in any of these lists (RFC 29).
    Hostlist(Vec<Hostlist>),
    /// Nodes whose rank is in any of these sets (RFC 22).
    Ranks(Vec<Idset>),
    /// Nodes that match all of these; every node when there is none.
    And(Vec<Self>),
    /// Nodes that match any of these, but also every node when there is none (RFC 31).
    Or(Vec<Self>),
    /// Nodes that don't match all of these; no node when there is none.
    Not(Vec<Self>),
}

impl Constraint {
    /// The deepest nesting of `and`, `or` and `not` that is read. It fits into the depth that JSON
    /// parsers accept for a jobspec.
    pub const MAX_DEPTH: usize = 50;

    /// The most terms that a constraint has: operators and their operands, counted together. Host lists
    /// and id sets are one operand, however much they name.
    pub const MAX_TERMS: usize = 4096;

    /// Whether a node matches.
    #[must_use]
    pub fn matches(&self, node: &RankResources<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Properties(all) => all.iter().all(|property| property.holds_for(node)),
            Self::Hostlist(lists) => {
                node.host().is_some_and(|host| lists.iter().any(|list| list.contains(&host)))
            }
            Self::Ranks(sets) => sets.iter().any(|set| set.contains(node.rank())),
            Self::And(all) => all.iter().all(|constraint| constraint.matches(node)),
            Self::Or(any) => {
                any.is_empty() || any.iter().any(|constraint| constraint.matches(node))
            }
            Self::Not(all) => !all.iter().all(|constraint| constraint.matches(node)),
        }
    }

    /// Both conditions, as a repeated `--requires` means it. Properties that come together become
    /// one list.
    ///
    /// ```
    /// use jobtap_core::resource::Constraint;
    /// use serde_json::json;
    ///
    /// let both = Constraint::from_query("ssd")?.and(Constraint::from_query("big|rank:0")?);
    /// assert_eq!(
    ///     both.to_value(),
    ///     json!({"and": [{"properties": ["ssd"]},
    ///                    {"or": [{"properties": ["big"]}, {"ranks": ["0"]}]}]}),
    /// );
    /// # Ok::<(), jobtap_core::resource::QueryError>(())
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut all = match self {
            Self::Always => return other,
            Self::And(all) => all,
            first => vec![first],
        };
        match (all.last_mut(), other) {
            (_, Self::Always) => {}
            (Some(Self::Properties(before)), Self::Properties(more)) => before.extend(more),
            (_, other) => all.push(other),
        }
        match <[Self; 1]>::try_from(all) {
            Ok([only]) => only,
            Err(all) => Self::And(all),
        }
    }

    /// How deep `and`, `or` and `not` are nested.
    fn depth(&self) -> usize {
        match self {
            Self::And(inner) | Self::Or(inner) | Self::Not(inner) => {
                1 + inner.iter().map(Self::depth).max().unwrap_or_default()
            }
            Self::Always | Self::Properties(_) | Self::Hostlist(_) | Self::Ranks(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{constraint, nodes};
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn foo0_matches(value: Value) -> bool {
        let constraint = Constraint::from_value(&value).unwrap();
        constraint.matches(&nodes().rank(0).unwrap())
    }

    #[test]
    fn flux_vectors() {
        for (value, matches) in [
            (json!({}), true),
            (json!({"properties": ["xx"]}), true),
            (json!({"properties": ["^xx"]}), false),
            (json!({"properties": ["^zz"]}), true),
            (json!({"properties": ["xx", "zz"]}), false),
            (json!({"properties": ["foo0"]}), true),
            (json!({"properties": ["^foo0"]}), false),
            (json!({"and": [{"properties": ["xx"]}, {"properties": ["yy"]}]}), true),
            (json!({"hostlist": ["foo[0-2]"]}), true),
            (json!({"hostlist": ["foo[1-3]"]}), false),
            (json!({"ranks": ["0,2", "1"]}), true),
            (json!({"ranks": ["1-3"]}), false),
            (json!({"or": [{"properties": ["zz"]}, {"ranks": ["0"]}]}), true),
            (json!({"not": [{"properties": ["xx"]}, {"properties": ["zz"]}]}), true),
            (json!({"properties": []}), true),
            (json!({"hostlist": []}), false),
            (json!({"ranks": []}), false),
            (json!({"and": []}), true),
            (json!({"or": []}), true),
            (json!({"not": []}), false),
        ] {
            assert_eq!(foo0_matches(value.clone()), matches, "{value}");
        }
    }

    #[test]
    fn a_property_with_a_suffix_for_the_scheduler_is_the_property() {
        let mut set = nodes();
        set.set_property("mi50@gpu", &Idset::from(1)).unwrap();
        set.set_property("mi50-old", &Idset::from(2)).unwrap();
        let on = |text: &str| {
            let constraint = Constraint::from_value(&json!({"properties": [text]})).unwrap();
            set.matching(&constraint).ranks().to_string()
        };
        assert_eq!(on("mi50"), "1");
        assert_eq!(on("mi50@gpu"), "1");
        assert_eq!(on("mi5"), "");
    }

    #[test]
    fn both_conditions_hold_of_an_and() {
        let of = |value| Constraint::from_value(&value).unwrap();
        let [a, b] = [of(json!({"properties": ["a"]})), of(json!({"properties": ["b"]}))];
        let host = of(json!({"hostlist": ["h1"]}));
        assert_eq!(a.clone().and(b).to_value(), json!({"properties": ["a", "b"]}));
        assert_eq!(Constraint::Always.and(a.clone()), a);
        assert_eq!(a.clone().and(Constraint::Always), a);
        // Two lists of hosts are no single list: that would mean either.
        let hosts = host.clone().and(of(json!({"hostlist": ["h2"]})));
        assert_eq!(hosts.to_value(), json!({"and": [{"hostlist": ["h1"]}, {"hostlist": ["h2"]}]}));
    }

    proptest! {
        #[test]
        fn an_and_matches_what_both_match(a in constraint(), b in constraint()) {
            let both = a.clone().and(b.clone());
            for node in nodes().iter() {
                prop_assert_eq!(both.matches(&node), a.matches(&node) && b.matches(&node));
            }
        }

        #[test]
        fn de_morgan(list in prop::collection::vec(constraint(), 1..4)) {
            let each: Vec<_> = list.iter().map(|c| Constraint::Not(vec![c.clone()])).collect();
            let none = Constraint::Not(vec![Constraint::Or(list.clone())]);
            let not_all = Constraint::Not(list.clone());
            for node in nodes().iter() {
                let matches: Vec<bool> = list.iter().map(|c| c.matches(&node)).collect();
                prop_assert_eq!(none.matches(&node), !matches.contains(&true));
                prop_assert_eq!(Constraint::And(each.clone()).matches(&node), none.matches(&node));
                prop_assert_eq!(not_all.matches(&node), matches.contains(&false));
                prop_assert_eq!(Constraint::Or(each.clone()).matches(&node), not_all.matches(&node));
            }
        }
    }
}
