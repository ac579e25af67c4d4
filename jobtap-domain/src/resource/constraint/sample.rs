//! Nodes and constraints on them for this module's tests.

use super::{Constraint, Property};
use crate::resource::{Children, Hostlist, Idset, ResourceSet};
use proptest::prelude::*;

/// Ranks 0 to 5 on foo0 to foo5, and rank 9 without a known host.
pub(super) fn nodes() -> ResourceSet {
    let core = Children::new(Idset::from(0), Idset::new());
    let mut set = ResourceSet::uniform(0, &"foo[0-5]".parse().unwrap(), core.clone());
    set.insert(9..=9, core);
    for (name, ranks) in [("xx", "0-2,9"), ("yy", "0,2,4"), ("ww@gpu", "1,5")] {
        set.set_property(name, &ranks.parse().unwrap()).unwrap();
    }
    set
}

pub(super) fn constraint() -> impl Strategy<Value = Constraint> {
    let property = "\\^?(xx|yy|zz|ww|ww@gpu|foo[0-6])".prop_map(|p| p.parse::<Property>().unwrap());
    let hosts = prop::sample::select(vec!["", "foo[0-2]", "foo[1,4-8],bar", "bar"])
        .prop_map(|text| text.parse::<Hostlist>().unwrap());
    let ranks = prop::collection::vec(0_u32..10, 0..5).prop_map(Idset::from_iter);
    let leaf = prop_oneof![
        Just(Constraint::Always),
        prop::collection::vec(property, 0..3).prop_map(Constraint::Properties),
        prop::collection::vec(hosts, 0..3).prop_map(Constraint::Hostlist),
        prop::collection::vec(ranks, 0..3).prop_map(Constraint::Ranks),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let list = prop::collection::vec(inner, 0..4);
        prop_oneof![
            list.clone().prop_map(Constraint::And),
            list.clone().prop_map(Constraint::Or),
            list.prop_map(Constraint::Not),
        ]
    })
}
