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
        // Without this attribute, every error about a capability lists the tuples among the topics that have it.
        #[diagnostic::do_not_recommend]
        impl<$($t: $cap),+> $cap for ($($t,)+) {}
    };
}
pub(super) use for_tuples;

for_tuples!(TopicSet);
