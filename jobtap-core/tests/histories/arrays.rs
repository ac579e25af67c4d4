//! Random histories with job arrays: as those of jobs, and each element is in one place, no job stands for two elements,
//! and none waits without a reason.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::jobs::{Act, act, asked, leaves_order};
use crate::run::cases;

fn array_act() -> impl Strategy<Value = Act> {
    let severity = prop_oneof![3 => Just(0), 1 => 1..8i64];
    prop_oneof![
        (asked(), 1..12u32, proptest::option::of(1..4u32))
            .prop_map(|(asked, count, at_once)| Act::Array(asked, count, at_once)),
        (0..4usize, 1..12u32, 0..6u32, severity).prop_map(|(array, first, more, severity)| {
            Act::RaiseElements(array, first, first + more, severity)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_order(acts in vec(prop_oneof![9 => act(), 1 => array_act()], 1..40), hold: bool) {
        leaves_order(acts, hold)?;
    }
}
