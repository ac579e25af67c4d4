//! The usage of accounts in core-seconds, which decays with a half-life.
//!
//! All values are stored relative to one common time. So the decay needs no computation until a value is
//! read, and the order in which usage is added doesn't matter.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;

/// A user's account in a bank.
pub(super) type Account = (String, Uid);

/// The decay of usage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Decay {
    /// In seconds; `None` for no decay.
    half_life: Option<f64>,
}

impl Decay {
    /// Half-lives of 0 and infinity mean no decay.
    pub(super) fn new(half_life: Fsd) -> Self {
        let seconds = half_life.as_secs();
        Self { half_life: (seconds > 0.0 && seconds.is_finite()).then_some(seconds) }
    }

    /// The fraction of usage that is left after this time.
    pub(super) fn left(self, seconds: f64) -> f64 {
        self.half_life.map_or(1.0, |half_life| (-seconds / half_life).exp2())
    }

    /// The usage that one core accrues in this time, with decay up to the end of it.
    pub(super) fn accrued(self, seconds: f64) -> f64 {
        let seconds = seconds.max(0.0);
        match self.half_life {
            None => seconds,
            Some(half_life) => {
                let rate = std::f64::consts::LN_2 / half_life;
                -(-seconds * rate).exp_m1() / rate
            }
        }
    }
}

/// The stored form: values by bank and user, and the time that they are relative to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    as_of: Timestamp,
    banks: BTreeMap<String, BTreeMap<Uid, f64>>,
}

/// The usage of all accounts.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    decay: Decay,
    /// The time that the values are relative to.
    as_of: Timestamp,
    values: BTreeMap<Account, f64>,
}

impl Usage {
    /// Restores the usage from its stored form.
    pub(super) fn restored(decay: Decay, stored: Stored) -> Self {
        let of = |(bank, users): (String, BTreeMap<Uid, f64>)| {
            users.into_iter().map(move |(user, value)| ((bank.clone(), user), value))
        };
        let values = stored.banks.into_iter().flat_map(of).collect();
        Self { decay, as_of: stored.as_of, values }
    }

    /// The stored form.
    pub(super) fn stored(&self) -> Stored {
        let mut banks: BTreeMap<String, BTreeMap<Uid, f64>> = BTreeMap::new();
        for ((bank, user), value) in &self.values {
            banks.entry(bank.clone()).or_default().insert(*user, *value);
        }
        Stored { as_of: self.as_of, banks }
    }

    /// Adds an amount of usage as of the time `at`.
    pub(super) fn add(&mut self, account: Account, amount: f64, at: Timestamp) {
        // Converts the usage to the common time. If `at` is later, the factor is above 1 and undoes the
        // decay between the two.
        let amount = amount * self.decay.left(self.as_of - at);
        *self.values.entry(account).or_default() += amount;
    }

    /// The usage of all accounts at a time.
    pub(super) fn at(&self, now: Timestamp) -> BTreeMap<Account, f64> {
        let left = self.decay.left(now - self.as_of);
        self.values.iter().map(|(account, value)| (account.clone(), value * left)).collect()
    }

    /// Moves the common time forward, before values grow out of range, and drops negligible values.
    pub(super) fn rebase(&mut self, now: Timestamp) {
        const NOTHING: f64 = 1e-3;
        self.values = self.at(now);
        self.values.retain(|_, value| *value > NOTHING);
        self.as_of = now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decay(half_life: f64) -> Decay {
        Decay::new(Fsd::from_secs(half_life).unwrap())
    }

    fn account(uid: u32) -> Account {
        ("chem".to_owned(), Uid::new(uid))
    }

    fn usage(half_life: f64) -> Usage {
        Usage::restored(decay(half_life), Stored { as_of: t(0.0), banks: BTreeMap::new() })
    }

    fn t(seconds: f64) -> Timestamp {
        Timestamp::from_secs(1e9 + seconds)
    }

    #[test]
    fn half_is_left_after_a_half_life() {
        let mut usage = usage(100.0);
        usage.add(account(1), 8.0, t(0.0));
        assert_eq!(usage.at(t(100.0))[&account(1)], 4.0);
        usage.add(account(1), 4.0, t(100.0));
        assert_eq!(usage.at(t(200.0))[&account(1)], 4.0);
    }

    #[test]
    fn without_a_half_life_there_is_no_decay() {
        for never in [Fsd::ZERO, Fsd::INFINITY] {
            let decay = Decay::new(never);
            assert_eq!((decay.left(1e9), decay.accrued(50.0)), (1.0, 50.0));
        }
    }

    #[test]
    fn short_usage_hardly_decays_and_long_is_bounded() {
        let decay = decay(1000.0);
        assert!((decay.accrued(1.0) - 1.0).abs() < 1e-3);
        let most = 1000.0 / std::f64::consts::LN_2;
        assert!((decay.accrued(1e6) - most).abs() < 1e-6);
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
    }

    proptest! {
        #[test]
        fn usage_only_falls_with_time(half_life in 1.0..1e7f64, a in 0.0..1e7f64, b in 0.0..1e7f64) {
            let (early, late) = (a.min(b), a.max(b));
            prop_assert!(decay(half_life).left(late) <= decay(half_life).left(early));
            prop_assert!(decay(half_life).accrued(early) <= decay(half_life).accrued(late));
        }

        /// Adding usage in parts is the same as adding it at once.
        #[test]
        fn usage_can_be_split_anywhere(half_life in 10.0..1e6f64, a in 0.0..1e5f64, b in 0.0..1e5f64) {
            let decay = decay(half_life);
            let parts = decay.accrued(a) * decay.left(b) + decay.accrued(b);
            prop_assert!(close(parts, decay.accrued(a + b)));
        }

        #[test]
        fn the_order_of_adding_and_rebasing_does_not_matter(
            mut charges in prop::collection::vec((0..3u32, 0.0..1e6f64, 0.0..1e5f64), 1..20),
            rebase in 0.0..1e5f64,
        ) {
            let mut one = usage(5e4);
            for (uid, amount, at) in &charges {
                one.add(account(*uid), *amount, t(*at));
            }
            charges.reverse();
            let mut other = usage(5e4);
            for (uid, amount, at) in &charges {
                other.add(account(*uid), *amount, t(*at));
            }
            let as_of = one.at(t(2e5));
            let mut rebased = one.clone();
            rebased.rebase(t(rebase));
            for (account, value) in other.at(t(2e5)) {
                prop_assert!(close(value, as_of[&account]));
                let rebased = rebased.at(t(2e5)).get(&account).copied().unwrap_or_default();
                prop_assert!((value - rebased).abs() < 1e-2 + value * 1e-9);
            }
        }
    }
}
