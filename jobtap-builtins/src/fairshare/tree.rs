//! The tree of banks and users: the share, the usage and the fairshare factor of each.
//!
//! A node's share is its part of its parent's share, which is divided among the siblings in proportion to their
//! configured `shares`. Its *effective* usage is the mean of its own usage and of its share of its parent's effective
//! usage. So users of a bank with much usage have lower factors than those of a bank with little, even if they have
//! used nothing themselves. The factor is 2 to the power of minus (effective usage / share): 1 without usage, one half
//! for a node that has used exactly its share. So all factors are equal if all nodes have used their shares.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;

use super::conf::{ROOT, Settings};
use super::usage::Account;

/// A bank or a user in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Node {
    /// The bank's name, or the user's id.
    pub(super) name: String,
    /// The user; `None` for a bank, whose name may be a number, too.
    #[serde(skip)]
    user: Option<Uid>,
    pub(super) shares: f64,
    /// The share as a fraction of the whole, 0 to 1.
    pub(super) due: f64,
    /// In core-seconds, with decay.
    pub(super) usage: f64,
    /// The usage as a fraction of all usage, 0 to 1.
    pub(super) used: f64,
    pub(super) effective: f64,
    pub(super) factor: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<Node>,
}

/// All banks and accounts at one time.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) root: Node,
    accounts: BTreeMap<Account, Node>,
}

impl Tree {
    /// The tree of the configured banks, with the accounts that have usage or are listed.
    pub(super) fn new(settings: &Settings, usage: &BTreeMap<Account, f64>) -> Self {
        let mut members: BTreeMap<&str, Vec<Node>> = BTreeMap::new();
        for (name, bank) in &settings.banks {
            let listed = bank.users.keys().map(|user| (*user, 0.0));
            let from = (name.clone(), Uid::new(0));
            let known = usage.range(from..).take_while(|((bank, _), _)| bank == name);
            let known = known.map(|((_, user), used)| (*user, *used));
            let users: BTreeMap<Uid, f64> = listed.chain(known).collect();
            let users = users.into_iter().filter_map(|(user, used)| {
                // A user who may no longer use the bank has no share of it.
                Some(Node::user(user, bank.shares_of(user)?, used))
            });
            members.insert(name, users.collect());
        }
        let root = Node::bank(ROOT, 1.0, below(ROOT, settings, &mut members));
        let mut tree = Self { root, accounts: BTreeMap::new() };
        let total = tree.root.usage;
        (tree.root.due, tree.root.used) = (1.0, if total > 0.0 { 1.0 } else { 0.0 });
        tree.root.effective = tree.root.used;
        tree.root.weigh(total, None);
        for member in &tree.root.members {
            member.collect(&mut tree.accounts);
        }
        tree
    }

    pub(super) fn account(&self, account: &Account) -> Option<&Node> {
        self.accounts.get(account)
    }
}

/// The banks below a bank, each with its users and the banks below it.
fn below(parent: &str, settings: &Settings, users: &mut BTreeMap<&str, Vec<Node>>) -> Vec<Node> {
    let banks = settings.banks.iter().filter(|(_, bank)| bank.parent == parent);
    let mut nodes = Vec::new();
    for (name, bank) in banks {
        let mut members = users.remove(name.as_str()).unwrap_or_default();
        members.extend(below(name, settings, users));
        nodes.push(Node::bank(name, bank.shares, members));
    }
    nodes
}

impl Node {
    fn user(user: Uid, shares: f64, usage: f64) -> Self {
        let (due, used, effective, factor) = (0.0, 0.0, 0.0, 1.0);
        let (name, user, members) = (user.to_string(), Some(user), Vec::new());
        Self { name, user, shares, due, usage, used, effective, factor, members }
    }

    fn bank(name: &str, shares: f64, members: Vec<Node>) -> Self {
        let (due, used, effective, factor) = (0.0, 0.0, 0.0, 1.0);
        // The sum starts from 0.0, since the sum of an empty iterator is -0.0, which users would see.
        let usage = members.iter().fold(0.0, |sum, member| sum + member.usage);
        let (name, user) = (name.to_owned(), None);
        Self { name, user, shares, due, usage, used, effective, factor, members }
    }

    /// Sets the shares and the factors of the members. `above` is the effective usage of this node; it is
    /// `None` for the root, whose usage is always its share.
    fn weigh(&mut self, total: f64, above: Option<f64>) {
        let shares: f64 = self.members.iter().map(|member| member.shares).sum();
        for member in &mut self.members {
            let part = if shares > 0.0 { member.shares / shares } else { 0.0 };
            member.due = self.due * part;
            member.used = if total > 0.0 { member.usage / total } else { 0.0 };
            member.effective =
                above.map_or(member.used, |above| f64::midpoint(member.used, above * part));
            member.factor = match member.due > 0.0 {
                true => (-member.effective / member.due).exp2(),
                false => 0.0,
            };
            member.weigh(total, Some(member.effective));
        }
    }

    fn collect(&self, accounts: &mut BTreeMap<Account, Node>) {
        for member in &self.members {
            match member.user {
                Some(user) => drop(accounts.insert((self.name.clone(), user), member.clone())),
                None => member.collect(accounts),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Two banks below a third bank, and a fourth beside the third.
    fn settings() -> Settings {
        let settings: Settings = serde_json::from_value(json!({"banks": {
            "science": {"shares": 70},
            "chem": {"parent": "science", "shares": 2, "everyone": 1},
            "physics": {"parent": "science", "shares": 1, "everyone": 1},
            "ops": {"shares": 30, "users": {"9": 1}},
        }}))
        .unwrap();
        settings.checked().unwrap()
    }

    fn account(bank: &str, user: u32) -> Account {
        (bank.to_owned(), Uid::new(user))
    }

    fn factor(usage: &[(&str, u32, f64)], bank: &str, user: u32) -> f64 {
        let usage = usage.iter().map(|(bank, user, used)| (account(bank, *user), *used)).collect();
        Tree::new(&settings(), &usage).account(&account(bank, user)).unwrap().factor
    }

    #[test]
    fn no_usage_is_shown_as_zero() {
        let tree = Tree::new(&settings(), &BTreeMap::new());
        assert!(!json!(tree.root).to_string().contains("-0.0"), "{}", json!(tree.root));
    }

    #[test]
    fn the_factor_is_1_unused_and_a_half_at_the_share() {
        assert_eq!(factor(&[("chem", 1, 0.0)], "chem", 1), 1.0);
        let even = [("chem", 1, 140.0), ("physics", 1, 70.0), ("ops", 9, 90.0)];
        for (bank, user) in [("chem", 1), ("physics", 1), ("ops", 9)] {
            assert!((factor(&even, bank, user) - 0.5).abs() < 1e-9);
        }
    }

    #[test]
    fn usage_of_a_bank_lowers_the_factors_of_its_users() {
        let used = [("chem", 1, 100.0), ("chem", 2, 0.0), ("physics", 2, 0.0), ("ops", 9, 0.0)];
        let of = |bank, user| factor(&used, bank, user);
        assert!(of("chem", 1) < of("chem", 2));
        assert!(of("chem", 2) < of("physics", 2));
        assert!(of("physics", 2) < of("ops", 9));
    }

    #[test]
    fn users_who_may_not_use_a_bank_have_no_share() {
        let usage = [(account("ops", 1), 5.0), (account("gone", 1), 5.0)].into_iter().collect();
        let tree = Tree::new(&settings(), &usage);
        assert!(tree.account(&account("ops", 1)).is_none());
        assert_eq!(tree.root.usage, 0.0);
    }

    #[test]
    fn the_name_of_a_bank_may_be_a_number() {
        let banks = json!({"7": {"users": {"7": 1}}, "8": {}, "9": {"parent": "7"}});
        let settings: Settings = serde_json::from_value(json!({"banks": banks})).unwrap();
        let tree = Tree::new(&settings.checked().unwrap(), &BTreeMap::new());
        assert_eq!(tree.accounts.keys().collect::<Vec<_>>(), [&account("7", 7)]);
    }

    fn accounts() -> impl Strategy<Value = BTreeMap<Account, f64>> {
        let bank = prop_oneof![Just("chem"), Just("physics")];
        let used = prop_oneof![Just(0.0), 0.0..1e9f64];
        prop::collection::btree_map((bank, 0..6u32), used, 0..12).prop_map(|accounts| {
            let named = |((bank, user), used): ((&str, u32), f64)| (account(bank, user), used);
            accounts.into_iter().map(named).collect()
        })
    }

    proptest! {
        /// Shares add up to the whole if each bank has a user, and so does usage.
        #[test]
        fn shares_and_usage_add_up(mut usage in accounts()) {
            for bank in ["chem", "physics"] {
                usage.entry(account(bank, 0)).or_insert(1.0);
            }
            let tree = Tree::new(&settings(), &usage);
            let due: f64 = tree.accounts.values().map(|node| node.due).sum();
            prop_assert!((due - 1.0).abs() < 1e-9);
            let used: f64 = tree.accounts.values().map(|node| node.used).sum();
            prop_assert!((used - tree.root.used).abs() < 1e-9);
            let total: f64 = usage.values().sum();
            prop_assert!((tree.root.usage - total).abs() <= 1e-9 * total);
        }

        #[test]
        fn factors_are_in_range_and_fall_with_usage(usage in accounts(), more in 1.0..1e9f64) {
            let before = Tree::new(&settings(), &usage);
            for (account, node) in &before.accounts {
                prop_assert!((0.0..=1.0).contains(&node.factor));
                let mut usage = usage.clone();
                *usage.entry(account.clone()).or_default() += more;
                let after = Tree::new(&settings(), &usage);
                prop_assert!(after.account(account).unwrap().factor <= node.factor + 1e-12);
            }
        }
    }
}
