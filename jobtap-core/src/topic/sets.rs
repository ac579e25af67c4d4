//! Tuples of topics: a tuple has the capabilities that all its members have.

use super::TopicSet;

macro_rules! for_tuples {
    ($cap:ident) => {
        for_tuples!(@ $cap A B);
        for_tuples!(@ $cap A B C);
        for_tuples!(@ $cap A B C D);
        for_tuples!(@ $cap A B C D E);
        for_tuples!(@ $cap A B C D E F);
    };
    (@ $cap:ident $($t:ident)+) => {
        impl<$($t: $cap),+> $cap for ($($t,)+) {}
    };
}
pub(super) use for_tuples;

for_tuples!(TopicSet);
