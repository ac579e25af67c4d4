//! Constraints (RFC 31): the condition on nodes that a job sets, and the nodes that match it.
//!
//! A constraint is parsed and checked once, so that the scheduler, which evaluates it for every node,
//! never meets a malformed one.

mod error;
mod query;
#[cfg(test)]
mod sample;
mod value;

pub use error::{ConstraintError, ConstraintFault, QueryError};

use super::set::RESERVED_IN_PROPERTIES;
use super::{Hostlist, Idset, RankResources, ResourceSet};
use std::fmt;
use std::str::FromStr;

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
    /// Nodes for which all of these hold; every node if the list is empty.
    Properties(Vec<Property>),
    /// Nodes whose host is in any of these lists (RFC 29).
    Hostlist(Vec<Hostlist>),
    /// Nodes whose rank is in any of these sets (RFC 22).
    Ranks(Vec<Idset>),
    /// Nodes that match all of these; every node if the list is empty.
    And(Vec<Self>),
    /// Nodes that match any of these; every node, too, if the list is empty (RFC 31).
    Or(Vec<Self>),
    /// Nodes that don't match all of these; no node if the list is empty.
    Not(Vec<Self>),
}

impl Constraint {
    /// The deepest nesting of `and`, `or` and `not` that is accepted. A jobspec with such a constraint
    /// stays within the depth that JSON parsers accept.
    pub const MAX_DEPTH: usize = 50;

    /// The maximum number of terms of a constraint: operators and their operands, counted together. A
    /// host list or an id set is one operand, however many hosts or ids it names.
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

    /// The condition that `self` and `other` both hold, which is the meaning of a repeated
    /// `--requires`. Adjacent lists of properties are joined.
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

    /// All hosts that the constraint names, in the order in which they are written.
    pub fn hosts(&self) -> Hostlist {
        let mut all = Hostlist::new();
        match self {
            Self::Hostlist(lists) => lists.iter().for_each(|list| all.append(list)),
            Self::And(inner) | Self::Or(inner) | Self::Not(inner) => {
                inner.iter().for_each(|inner| all.append(&inner.hosts()));
            }
            Self::Always | Self::Properties(_) | Self::Ranks(_) => {}
        }
        all
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

/// One operand of the `properties` operator (RFC 31): a name, with `^` in front when nodes must not
/// have it.
///
/// The name of a node's host counts as one of its properties, as in Flux.
///
/// ```
/// use jobtap_core::resource::Property;
///
/// let property: Property = "^ssd".parse()?;
/// assert_eq!((property.name(), property.is_negated()), ("ssd", true));
/// assert_eq!(property.to_string(), "^ssd");
/// assert!("a|b".parse::<Property>().is_err());
/// # Ok::<(), jobtap_core::resource::ConstraintFault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Property {
    name: String,
    negated: bool,
}

impl Property {
    /// The name, without `^`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether nodes with the property are excluded.
    #[must_use]
    pub const fn is_negated(&self) -> bool {
        self.negated
    }

    pub(super) fn holds_for(&self, node: &RankResources<'_>) -> bool {
        let has = node.has_property(&self.name) || node.host().is_some_and(|h| h == self.name);
        has != self.negated
    }

    /// The ranks of `within` for which the property holds.
    pub(super) fn ranks(&self, set: &ResourceSet, within: &Idset) -> Idset {
        let mut holders = set.nodes.holders(&self.name);
        let mut host = Hostlist::new();
        // A name that isn't a valid host name can't be the name of any host.
        if host.push(&self.name).is_ok() {
            holders = holders.union(&set.ranks_on(&host));
        }
        if self.negated { within.difference(&holders) } else { within.intersection(&holders) }
    }
}

impl FromStr for Property {
    type Err = ConstraintFault;

    fn from_str(text: &str) -> Result<Self, ConstraintFault> {
        let (name, negated) = text.strip_prefix('^').map_or((text, false), |name| (name, true));
        if name.is_empty() {
            return Err(ConstraintFault::PropertyName { property: text.to_owned() });
        }
        match name.chars().find(|c| RESERVED_IN_PROPERTIES.contains(*c)) {
            Some(character) => {
                Err(ConstraintFault::PropertyCharacter { character, property: text.to_owned() })
            }
            None => Ok(Self { name: name.to_owned(), negated }),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negated { "^" } else { "" };
        write!(f, "{sign}{}", self.name)
    }
}

impl ResourceSet {
    /// The resources on nodes that match a constraint (RFC 31).
    ///
    /// Works on ranges of ranks, so that a large inventory of equal nodes costs no more than a small one.
    #[must_use]
    pub fn matching(&self, constraint: &Constraint) -> Self {
        self.with_ranks(&constraint.ranks(self, &self.ranks()))
    }
}

impl Constraint {
    /// The ranks of `within` that match. All ranks of `within` must be in `set`.
    fn ranks(&self, set: &ResourceSet, within: &Idset) -> Idset {
        let all = |inner: &[Self]| {
            inner.iter().fold(within.clone(), |ranks, constraint| constraint.ranks(set, &ranks))
        };
        match self {
            Self::Always => within.clone(),
            Self::Properties(properties) => properties
                .iter()
                .fold(within.clone(), |ranks, property| property.ranks(set, &ranks)),
            Self::Hostlist(lists) => {
                let mut hosts = Hostlist::new();
                lists.iter().for_each(|list| hosts.append(list));
                set.ranks_on(&hosts).intersection(within)
            }
            Self::Ranks(sets) => {
                let mut ranks = Idset::new();
                sets.iter().flat_map(Idset::ranges).for_each(|range| ranks.insert_range(range));
                ranks.intersection(within)
            }
            Self::And(inner) => all(inner),
            Self::Or(inner) if inner.is_empty() => within.clone(),
            Self::Or(inner) => inner.iter().fold(Idset::new(), |ranks, constraint| {
                ranks.union(&constraint.ranks(set, within))
            }),
            Self::Not(inner) => within.difference(&all(inner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::{constraint, nodes};
    use super::*;
    use crate::resource::Children;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn foo0_matches(value: Value) -> bool {
        let constraint = Constraint::from_value(&value).unwrap();
        constraint.matches(&nodes().rank(0).unwrap())
    }

    #[test]
    fn matches_the_examples_of_flux() {
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
    fn a_scheduler_suffix_does_not_change_the_property() {
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
    fn and_keeps_both_conditions() {
        let of = |value| Constraint::from_value(&value).unwrap();
        let [a, b] = [of(json!({"properties": ["a"]})), of(json!({"properties": ["b"]}))];
        let host = of(json!({"hostlist": ["h1"]}));
        assert_eq!(a.clone().and(b).to_value(), json!({"properties": ["a", "b"]}));
        assert_eq!(Constraint::Always.and(a.clone()), a);
        assert_eq!(a.clone().and(Constraint::Always), a);
        // Two host lists can't be joined into one, which would match hosts in either of them.
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

    #[test]
    fn a_large_inventory_stays_a_few_runs() {
        let node = Children::new(Idset::from(0..=127), Idset::new());
        let set = ResourceSet::uniform(0, &"n[0-9999]".parse().unwrap(), node);
        let most = json!({"not": [{"hostlist": ["n[100-199]"]}]});
        let most = set.matching(&Constraint::from_value(&most).unwrap());
        assert_eq!(most.nodelist().to_string(), "n[0-99,200-9999]");
        assert_eq!(most.runs().count(), 2);
    }

    proptest! {
        #[test]
        fn selects_the_nodes_that_match_one_by_one(constraint in constraint()) {
            let set = nodes();
            let one_by_one: Idset =
                set.iter().filter(|node| constraint.matches(node)).map(|node| node.rank()).collect();
            prop_assert_eq!(set.matching(&constraint), set.with_ranks(&one_by_one));
        }
    }
}
