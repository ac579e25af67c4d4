//! For tests: each kind of error in a configuration, and its message.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::ConfTable;

#[derive(Debug, PartialEq, Deserialize)]
struct Fairshare {
    half_life: crate::job::Fsd,
    weights: Weights,
    #[serde(default)]
    accounts: BTreeMap<String, Vec<Share>>,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    by_mode: BTreeMap<Mode, u32>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Weights {
    age: f64,
    #[serde(default, alias = "users")]
    user: Option<u8>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Share {
    name: String,
    share: u32,
}

#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Fast,
    Slow,
    Limit(u8),
    Between {
        low: u8,
        high: u8,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Closed {
    policy: Option<u8>,
    queues: Option<u8>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Rule {
    Cap { most: u8 },
}

fn valid() -> Value {
    json!({"half_life": "1d", "weights": {"age": 1}})
}

/// The error text for a valid table after one key is added or replaced.
fn refused(key: &str, value: Value) -> String {
    let mut table = valid();
    table[key] = value;
    Fairshare::read(&table).unwrap_err().text().to_owned()
}

#[test]
fn a_valid_table_is_read() {
    let mut table = valid();
    table["accounts"] = json!({"chem": [{"name": "ada", "share": 3}]});
    table["mode"] = json!({"limit": 3});
    table["by_mode"] = json!({"slow": 2});
    let read = Fairshare::read(&table).unwrap();
    assert_eq!(read.weights.age, 1.0);
    assert_eq!(read.accounts["chem"][0].share, 3);
    assert_eq!(read.mode, Mode::Limit(3));
    assert_eq!(read.by_mode[&Mode::Slow], 2);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_or_all() {
    assert_eq!(refused("weigths", json!({})), "unknown key \"weigths\"; did you mean \"weights\"?");
    assert_eq!(
        refused("preemption", json!(true)),
        "unknown key \"preemption\": the keys are half_life, weights, accounts, mode, by_mode"
    );
    assert_eq!(
        refused("weights", json!({"age": 1, "agee": 2})),
        "unknown key \"weights.agee\"; did you mean \"weights.age\"?"
    );
    assert_eq!(
        refused("accounts", json!({"a b": [{"name": "x", "share": 1, "limit": 2}]})),
        "unknown key accounts.\"a b\"[0].limit: the keys are name, share"
    );
    assert_eq!(
        refused("mode", json!({"between": {"low": 1, "hihg": 2}})),
        "unknown key \"mode.between.hihg\"; did you mean \"mode.between.high\"?"
    );
}

#[test]
fn a_misspelt_name_is_refused_with_the_nearest_or_all() {
    assert_eq!(
        refused("mode", json!("fsat")),
        "mode: unknown value \"fsat\"; did you mean \"fast\"?"
    );
    assert_eq!(
        refused("mode", json!("whatever")),
        "mode: unknown value \"whatever\": the values are fast, slow, limit, between"
    );
    assert_eq!(
        refused("mode", json!({"limt": 1})),
        "unknown key \"mode.limt\"; did you mean \"mode.limit\"?"
    );
    assert_eq!(
        refused("by_mode", json!({"fsat": 1})),
        "unknown key \"by_mode.fsat\"; did you mean \"by_mode.fast\"?"
    );
}

#[test]
fn every_other_error_names_its_place() {
    let cases = [
        ("weights", json!({"age": "x"}), "weights.age: invalid type: string \"x\", expected f64"),
        ("weights", json!(5), "weights: invalid type: integer `5`, expected a table"),
        ("weights", json!([1, 2]), "weights: invalid type: array, expected a table"),
        ("weights", json!({}), "missing key \"weights.age\""),
        (
            "weights",
            json!({"age": 1, "user": 300}),
            "weights.user: invalid value: integer `300`, expected u8",
        ),
        ("weights", json!({"age": 1, "user": 3, "users": 3}), "\"weights.user\" is given twice"),
        (
            "accounts",
            json!({"chem": [{"name": "x", "share": 1}, {"name": 2}]}),
            "accounts.chem[1].name: invalid type: integer `2`, expected a string",
        ),
        ("accounts", json!({"chem": {}}), "accounts.chem: invalid type: table, expected an array"),
        (
            "half_life",
            json!("x"),
            "half_life: invalid Flux standard duration `x`: use a number with ms, s, m, h or d, or infinity",
        ),
    ];
    for (key, value, text) in cases {
        assert_eq!(refused(key, value), text);
    }
}

#[test]
fn an_enum_is_a_name_or_one_key() {
    let cases = [
        (
            "mode",
            json!(7),
            "mode: invalid type: integer `7`, expected one of fast, slow, limit, between",
        ),
        ("mode", json!("limit"), "mode: \"limit\" needs a value: { limit = .. }"),
        (
            "mode",
            json!({"fast": 1}),
            "mode.fast: invalid type: integer `1`, expected the name alone",
        ),
        (
            "mode",
            json!({"fast": 1, "slow": 2}),
            "mode: expected just one of the keys fast, slow, limit, between, found 2",
        ),
    ];
    for (key, value, text) in cases {
        assert_eq!(refused(key, value), text);
    }
}

#[test]
fn a_missing_key_is_not_hidden_by_a_misspelt_one() {
    let error = Fairshare::read(&json!({"half_lfe": 1, "weights": {"age": 1}})).unwrap_err();
    assert_eq!(error.text(), "unknown key \"half_lfe\"; did you mean \"half_life\"?");
    let error = Fairshare::read(&json!({})).unwrap_err();
    assert_eq!(error.text(), "missing key \"half_life\"");
}

#[test]
fn the_instance_configuration_may_have_unknown_keys() {
    let mut table = valid();
    table["queues"] = json!({});
    table["weights"]["colour"] = json!(1);
    assert_eq!(Fairshare::read_among_others(&table).unwrap(), Fairshare::read(&valid()).unwrap());
    table["weights"]["age"] = json!(null);
    let error = Fairshare::read_among_others(&table).unwrap_err();
    assert_eq!(error.text(), "weights.age: invalid type: null, expected f64");
}

#[test]
fn deny_unknown_fields_closes_a_struct() {
    let text = "unknown key \"polcy\"; did you mean \"policy\"?";
    let table = json!({"polcy": 1});
    assert_eq!(Closed::read(&table).unwrap_err().text(), text);
    assert_eq!(Closed::read_among_others(&table).unwrap_err().text(), text);
    let error = Rule::read(&json!({"kind": "cap", "most": 1, "mots": 1})).unwrap_err();
    assert_eq!(error.text(), "unknown key \"mots\"; did you mean \"most\"?");
}

#[test]
fn an_error_in_buffered_values_names_the_outer_place() {
    let rules = json!({"night": {"kind": "cap", "most": "x"}});
    let error = BTreeMap::<String, Rule>::read(&rules).unwrap_err();
    assert_eq!(error.text(), "night: invalid type: string \"x\", expected u8");
    let error = BTreeMap::<String, Rule>::read(&json!({"night": {"kind": "cpa"}})).unwrap_err();
    assert_eq!(error.text(), "night.kind: unknown value \"cpa\"; did you mean \"cap\"?");
    let error = BTreeMap::<String, Rule>::read(&json!({"night": 1})).unwrap_err();
    assert_eq!(error.text(), "night: invalid type: integer `1`, expected a table");
}

#[test]
fn keys_of_other_types_are_checked() {
    let error = BTreeMap::<crate::job::Uid, f64>::read(&json!({"ada": 1})).unwrap_err();
    assert_eq!(error.text(), "ada: invalid user id `ada`: expected a number from 0 to 4294967295");
    let error = BTreeMap::<u8, f64>::read(&json!({"300": 1})).unwrap_err();
    assert_eq!(error.text(), "300: invalid value: integer `300`, expected u8");
}

#[test]
fn a_duration_is_a_number_of_seconds_or_a_text() {
    #[derive(Debug, Deserialize)]
    struct Times {
        grace: std::time::Duration,
    }
    let read = |grace: Value| Times::read(&json!({ "grace": grace }));
    let tables = [json!(1.5), json!("1500ms"), json!({"secs": 1, "nanos": 500_000_000})];
    for table in tables {
        assert_eq!(read(table).unwrap().grace.as_millis(), 1500);
    }
    for (wrong, says) in [
        (json!(-1), "grace: invalid Flux standard duration -1: use a number with"),
        (json!("soon"), "grace: invalid Flux standard duration `soon`"),
        (json!("inf"), "grace: infinity is too long for a duration"),
        (json!(true), "grace: invalid type: boolean `true`, expected"),
        (
            json!({"secs": 1, "nano": 5}),
            "unknown key \"grace.nano\"; did you mean \"grace.nanos\"?",
        ),
    ] {
        let text = read(wrong).unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
}
