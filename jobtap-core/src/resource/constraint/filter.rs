//! The part of a resource set that a constraint selects. It works on ranges of ranks, so that a
//! large inventory of equal nodes costs no more than a small one.

use super::Constraint;
use crate::resource::{Hostlist, Idset, ResourceSet};

impl ResourceSet {
    /// The resources on nodes that match a constraint (RFC 31).
    #[must_use]
    pub fn matching(&self, constraint: &Constraint) -> Self {
        self.with_ranks(&constraint.ranks(self, &self.ranks()))
    }
}

impl Constraint {
    /// The ranks among `within` that match. They must be ranks of `set`.
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
    use super::super::sample::{constraint, nodes};
    use super::*;
    use crate::resource::Children;
    use proptest::prelude::*;
    use serde_json::json;

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
