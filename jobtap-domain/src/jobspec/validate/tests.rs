//! Each error once, any JSON, and the examples of RFC 25 (which are version 1) and of RFC 14 (which
//! version 1 does not allow).

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::jobspec::{Jobspec, path};

fn good() -> Value {
    json!({
        "version": 1,
        "resources": [{"type": "node", "count": 2, "with": [
            {"type": "slot", "count": 2, "label": "task", "with": [
                {"type": "core", "count": 1}, {"type": "gpu", "count": 1}]}]}],
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0}},
    })
}

/// The message for the good jobspec after a change.
fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut spec = good();
    change(&mut spec);
    validate(&spec).unwrap_err().to_string()
}

/// The message when the value at a JSON pointer is replaced.
fn with(pointer: &str, value: Value) -> String {
    refusal(|spec| *spec.pointer_mut(pointer).unwrap() = value)
}

/// The message when a member of the object at a JSON pointer is removed.
fn without(pointer: &str, key: &str) -> String {
    refusal(|spec| {
        spec.pointer_mut(pointer).unwrap().as_object_mut().unwrap().shift_remove(key).unwrap();
    })
}

/// The message when a system attribute is set.
fn system(key: &str, value: Value) -> String {
    refusal(|spec| path::set(spec, &path::attribute_key(key), value).unwrap())
}

const NODE: &str = "/resources/0";
const SLOT: &str = "/resources/0/with/0";
const CORE: &str = "/resources/0/with/0/with/0";

#[test]
fn accepts_a_valid_jobspec_and_counts() {
    let counts = validate(&good()).unwrap();
    assert_eq!((counts.nnodes, counts.nslots, counts.ngpus()), (2, 4, 4));
}

#[test]
fn top_level() {
    assert_eq!(validate(&json!([])).unwrap_err().to_string(), "jobspec must be a mapping");
    assert_eq!(without("", "tasks"), "Missing key (tasks)");
    assert_eq!(refusal(|spec| spec["foo"] = json!(1)), "Extraneous key (foo)");
    assert_eq!(with("/resources", json!({})), "resources must be a sequence");
    assert_eq!(with("/tasks", json!("x")), "tasks must be a sequence");
    assert_eq!(with("/attributes", json!(null)), "attributes must be a mapping");
    assert_eq!(with("/version", json!("1")), "version must be an integer");
    assert_eq!(with("/version", json!(1.0)), "version must be an integer");
    assert_eq!(with("/version", json!(0)), "version must be >= 1");
    assert_eq!(with("/version", json!(-3)), "version must be >= 1");
    assert_eq!(with("/version", json!(999)), "version must be 1");
}

#[test]
fn vertices() {
    assert_eq!(with(NODE, json!(3)), "resource must be a mapping");
    assert_eq!(without(CORE, "type"), "type is a required key for resources");
    assert_eq!(with(&format!("{NODE}/type"), json!(1)), "type must be a string");
    assert_eq!(without(SLOT, "count"), "count is a required key for resources");
    for bad in [json!(null), json!([1]), json!(1.5), json!(true)] {
        assert_eq!(with(&format!("{NODE}/count"), bad), "count must be an int or mapping");
    }
    for pointer in [NODE, SLOT, CORE] {
        let text = with(&format!("{pointer}/count"), json!(0));
        assert_eq!(text, "node, slot, or core count must be > 0");
    }
    assert_eq!(with("/resources/0/with/0/with/1/count", json!(-1)), "count must be >= 0");
    assert_eq!(
        with(&format!("{NODE}/count"), json!("2-4")),
        "resource count must be an integer for type 'node' (got 'str')"
    );
    assert_eq!(
        with(&format!("{SLOT}/count"), json!({"min": 1})),
        "resource count must be an integer for type 'slot' (got 'dict')"
    );
    assert_eq!(
        refusal(|spec| spec["resources"][0]["exclusive"] = json!(1)),
        "exclusive must be a boolean"
    );
    assert_eq!(refusal(|spec| spec["resources"][0]["unit"] = json!(1)), "unit must be a string");
    assert_eq!(
        refusal(|spec| spec["resources"][0]["with"] = json!({})),
        "resources[0]: with must be a sequence"
    );
    assert_eq!(without(SLOT, "label"), "slots must have labels");
}

#[test]
fn shapes() {
    let core = json!({"type": "core", "count": 1});
    assert_eq!(with("/resources", json!([])), "resources must have exactly one entry");
    assert_eq!(
        with("/resources", json!([core])),
        "resources[0]: a jobspec of version 1 begins with a node or a slot, not with 'core'"
    );
    assert_eq!(
        with(&format!("{NODE}/with"), json!([core])),
        "resources[0].with[0]: a node holds exactly one slot, not 'core'"
    );
    assert_eq!(
        with(&format!("{NODE}/with"), json!([])),
        "resources[0]: a node holds exactly one slot"
    );
    assert_eq!(
        with(&format!("{CORE}/type"), json!("node")),
        "resources[0].with[0].with[0]: a slot holds cores and gpus only, not 'node'"
    );
    assert_eq!(
        with(&format!("{CORE}/type"), json!("gpu")),
        "resources[0].with[0]: a slot holds one core entry and at most one gpu entry"
    );
    assert_eq!(
        refusal(|spec| spec["resources"][0]["with"][0]["with"][0]["with"] = json!([core])),
        "resources[0].with[0].with[0]: nothing can be inside 'core'"
    );
    assert_eq!(
        without(SLOT, "with"),
        "resources[0].with[0]: a slot holds one core entry and at most one gpu entry"
    );
    assert_eq!(
        with(&format!("{CORE}/count"), json!(u64::MAX)),
        "resources: the request is larger than can be counted"
    );
}

#[test]
fn exclusive_is_allowed_on_node_and_slot() {
    let mut spec = good();
    spec["resources"][0]["exclusive"] = json!(true);
    spec["resources"][0]["with"][0]["exclusive"] = json!(true);
    assert!(validate(&spec).unwrap().exclusive);
}

#[test]
fn tasks() {
    assert_eq!(with("/tasks", json!([])), "tasks must have exactly one entry");
    assert_eq!(with("/tasks/0", json!(1)), "task must be a mapping");
    for key in ["command", "slot", "count"] {
        assert_eq!(without("/tasks/0", key), format!("Missing key ({key})"));
    }
    let count = |value| with("/tasks/0/count", value);
    assert_eq!(count(json!(1)), "count must be a mapping");
    assert_eq!(count(json!({})), "count must have exactly one key set");
    assert_eq!(count(json!({"per_slot": 1, "total": 1})), "count must have exactly one key set");
    assert_eq!(count(json!({"x": 1})), "count per_slot, per_resource, or total must be set");
    assert_eq!(
        count(json!({"per_resource": {"type": "node", "count": 1}})),
        "count per_slot or total must be set"
    );
    assert_eq!(count(json!({"total": 0})), "count total must be > 0");
    assert_eq!(count(json!({"total": "3"})), "count total must be > 0");
    assert_eq!(count(json!({"per_slot": -1})), "count per_slot must be > 0");
    assert_eq!(count(json!({"per_slot": 2})), "tasks[0]: count per_slot must be 1");
    assert_eq!(
        count(json!({"total": 1})),
        "tasks[0]: count total must not be less than the number of nodes (2)"
    );
    assert_eq!(with("/tasks/0/slot", json!(1)), "slot must be a string");
    assert_eq!(
        with("/tasks/0/slot", json!("x")),
        "tasks[0]: slot 'x' is not the label of a slot in resources"
    );
    assert_eq!(with("/tasks/0/command", json!([])), "command array cannot have length of zero");
    for bad in [json!("app"), json!(["app", 1]), json!(null)] {
        assert_eq!(with("/tasks/0/command", bad), "command must be a list of strings");
    }
}

#[test]
fn attributes() {
    assert_eq!(without("/attributes", "system"), "attributes.system is a required key");
    assert_eq!(with("/attributes/system", json!(1)), "attributes.system must be a mapping");
    assert_eq!(
        without("/attributes/system", "duration"),
        "attributes.system.duration is a required key"
    );
    for bad in [json!("1h"), json!(true), json!(null)] {
        assert_eq!(system("duration", bad), "attributes.system.duration must be a number");
    }
    assert_eq!(system("duration", json!(-0.5)), "duration must not be negative");
    assert_eq!(
        system("preemptible-after", json!(-1)),
        "attributes.system.preemptible-after must be a number >= 0"
    );
    for key in ["queue", "cwd", "bank", "project"] {
        let text = format!("attributes.system.{key} must be a string");
        assert_eq!(system(key, json!(5)), text);
    }
    assert_eq!(system("environment", json!([])), "attributes.system.environment must be a mapping");
    assert_eq!(
        system("environment.PATH", json!(1)),
        "attributes.system.environment.PATH must be a string or null"
    );
    assert_eq!(system("job.name", json!(1)), "attributes.system.job.name must be a string");
    assert_eq!(
        system("shell.options", json!(1)),
        "attributes.system.shell.options must be a mapping"
    );
    for signum in [0, 65] {
        assert_eq!(
            system("shell.options.signal", json!({"signum": signum, "timeleft": 60})),
            "attributes.system.shell.options.signal.signum must be a signal from 1 to 64"
        );
    }
    assert_eq!(
        refusal(|spec| spec["attributes"]["user"] = json!(1)),
        "attributes.user must be a mapping"
    );
}

#[test]
fn attributes_are_those_of_the_system_and_of_the_user() {
    let refused = refusal(|spec| spec["attributes"]["other"] = json!(1));
    assert_eq!(refused, "Extraneous key (other)");
}

#[test]
fn accepts_unknown_attributes_and_unset_variables() {
    let mut spec = good();
    spec["attributes"]["user"] = json!({"tag": [1]});
    spec["attributes"]["system"]["x"] = json!({"y": 5});
    spec["attributes"]["system"]["environment"] = json!({"A": null, "B": ""});
    assert!(validate(&spec).is_ok());
}

#[test]
fn dependencies() {
    let list = |value| system("dependencies", value);
    assert_eq!(list(json!({})), "attributes.system.dependencies must be a list");
    assert_eq!(list(json!([1])), "dependency must be a mapping");
    assert_eq!(list(json!([{"value": "x"}])), "Missing key (scheme)");
    assert_eq!(list(json!([{"scheme": "x"}])), "Missing key (value)");
    assert_eq!(list(json!([{"scheme": 1, "value": ""}])), "dependency scheme must be a string");
    assert_eq!(list(json!([{"scheme": "x", "value": 1}])), "dependency value must be a string");
}

#[test]
fn constraints() {
    let text = |value| system("constraints", value);
    assert_eq!(text(json!([])), "constraints must be a mapping");
    assert_eq!(text(json!({"x": []})), "unknown constraint operator 'x'");
    assert_eq!(
        text(json!({"properties": ["a"], "ranks": ["0"]})),
        "constraint must only contain 1 element"
    );
    assert_eq!(text(json!({"properties": "a"})), "properties value must be an array");
    assert_eq!(text(json!({"properties": [1]})), "non-string property specified");
    for bad in ["a&b", "a|b", "a'", "(a", "!a", "a^b", "^^a", "^"] {
        assert_eq!(
            text(json!({"properties": [bad]})),
            format!("invalid character in property '{bad}'"),
        );
    }
    assert_eq!(text(json!({"or": 1})), "or operator value must be an array");
    let nested = json!({"and": [{"properties": ["a"]}, {"not": [{"y": []}]}]});
    assert_eq!(text(nested.clone()), "unknown constraint operator 'y'");
    let mut spec = good();
    spec["attributes"]["system"]["constraints"] = nested;
    let error = validate(&spec).unwrap_err();
    assert_eq!(error.path(), "attributes.system.constraints.and[1].not[0]");
    let hosts = text(json!({"hostlist": ["h[1-"]}));
    assert!(hosts.starts_with("host constraint contains invalid hosts: "));
    let ranks = text(json!({"ranks": ["5,1-3"]}));
    assert!(ranks.starts_with("invalid idset '5,1-3' in [\"5,1-3\"]: "));
    for constraint in [
        json!({}),
        json!({"properties": ["^a", "b-c"]}),
        json!({"and": [{"hostlist": ["h[0-3]"]}, {"not": [{"ranks": ["0"]}]}]}),
    ] {
        let mut spec = good();
        spec["attributes"]["system"]["constraints"] = constraint;
        assert!(validate(&spec).is_ok());
    }
}

/// Any JSON, in which the keys that the validator knows occur often.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "slot|core|node|gpu|task|\\PC{0,4}".prop_map(Value::from),
    ];
    let key = "type|count|with|label|resources|tasks|attributes|version|system|user|command\
               |slot|duration|environment|dependencies|constraints|and|properties|job|[a-z]{1,3}";
    leaf.prop_recursive(5, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn an_error_names_the_section_that_was_changed(
        value in any_json(),
        place in prop::sample::select(vec![
            "resources", "tasks", "attributes", "attributes.system",
            "attributes.system.duration", "attributes.system.environment",
            "attributes.system.dependencies", "attributes.system.constraints",
            "attributes.system.job", "attributes.system.shell",
        ]),
    ) {
        let mut spec = good();
        path::set(&mut spec, place, value).unwrap();
        match validate(&spec) {
            Ok(counts) => {
                prop_assert_eq!(counts, Counts::from_jobspec(&spec).unwrap());
                let accepted = Jobspec::from_value(spec.clone()).unwrap();
                prop_assert_eq!(accepted.value(), &spec);
            }
            // All other parts of the document are valid.
            Err(error) => {
                let top = place.split('.').next().unwrap();
                prop_assert!(error.path().starts_with(top), "{}", error);
            }
        }
    }
}

/// Name, jobspec, and `nnodes, nslots, slot_size, slot_gpus, ntasks`.
const V1: &[(&str, &str, [u64; 5])] = &[
    (
        "spec_25/example1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"core","count":2}]}]}],"tasks":[{"command":[
           "app"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 2, 0, 4],
    ),
    (
        "spec_25/use_case_1.1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"core","count":1}]}]}],"tasks":[{"command":[
           "flux","start"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{
           "duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 1, 0, 4],
    ),
    (
        "spec_25/use_case_2.1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"myslot","with":[{"type":"core","count":1}]}]}],"tasks":[{"command":[
           "hostname"],"slot":"myslot","count":{"total":5}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 1, 0, 5],
    ),
    (
        "spec_25/use_case_2.2",
        r#"{"version":1,"resources":[{"type":"slot","label":"default","count":10,"with":[{"type":"core",
           "count":2}]}],"tasks":[{"command":["myapp"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [0, 10, 2, 0, 10],
    ),
    (
        "spec_25/use_case_2.3",
        r#"{"version":1,"resources":[{"type":"slot","count":10,"label":"default","with":[{"type":"core",
           "count":2},{"type":"gpu","count":1}]}],"tasks":[{"command":["myapp"],"slot":"default",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        [0, 10, 2, 1, 10],
    ),
    (
        "spec_25/use_case_2.4",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":4,"label":"default","with":[{"type":"core","count":1},{"type":"gpu",
           "count":1}]}]}],"tasks":[{"command":["myapp"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 16, 1, 1, 16],
    ),
    (
        "spec_14/example1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"core","count":2}]}]}],"tasks":[{"command":[
           "app"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 2, 0, 4],
    ),
];

/// Name, jobspec, and its error when its version is set to 1 (all but the first have 999); empty for a
/// jobspec that is then valid.
const CANONICAL: &[(&str, &str, &str)] = &[
    (
        "spec_14/example2",
        r#"{"version":1,"resources":[{"type":"slot","count":4,"label":"default","with":[{"type":"node",
           "count":1}]}],"tasks":[{"command":["hostname"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.1",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.2",
        r#"{"version":999,"resources":[{"type":"slot","count":{"min":3,"max":30,"operator":"+",
           "operand":1},"label":"default","with":[{"type":"node","count":1}]}],"tasks":[{"command":[
           "flux","start"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{
           "duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resource count must be an integer for type 'slot' (got 'dict')",
    ),
    (
        "spec_14/use_case_1.3",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"nodelevel",
           "with":[{"type":"node","exclusive":false,"count":1,"with":[{"type":"socket",
           "count":{"min":2},"with":[{"type":"core","count":{"min":4}}]}]}]}],"tasks":[{"command":[
           "flux","start"],"slot":"nodelevel","count":{"per_slot":1}}],"attributes":{"system":{
           "duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.4",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"nodelevel",
           "with":[{"type":"node","count":1,"with":[{"type":"socket","count":2,"with":[{"type":"core",
           "count":4}]}]}]}],"tasks":[{"command":["flux","start"],"slot":"nodelevel",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.5",
        r#"{"version":999,"resources":[{"type":"cluster","count":1,"with":[{"type":"slot",
           "count":2,"label":"ib","with":[{"type":"node","count":1,"with":[{"type":"memory",
           "count":4,"unit":"GB"},{"type":"ib10g","count":1}]}]}]},{"type":"switch",
           "count":1,"with":[{"type":"slot","count":2,"label":"bicore","with":[{"type":"node",
           "count":1,"with":[{"type":"core","count":2}]}]}]}],"tasks":[{"command":["flux",
           "start"],"slot":"ib","count":{"per_slot":1}},{"command":["flux","start"],
           "slot":"bicore","count":{"per_slot":1}}],"attributes":{"system":{"duration":14400.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources must have exactly one entry",
    ),
    (
        "spec_14/use_case_1.6",
        r#"{"version":999,"resources":[{"type":"cluster","count":2,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"node","count":{"min":1},"exclusive":false,
           "with":[{"type":"core","count":30}]}]}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_resource":{"type":"node","count":1}}}],"attributes":{
           "system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0]: a jobspec of version 1 begins with a node or a slot, not with 'cluster'",
    ),
    (
        "spec_14/use_case_1.7",
        r#"{"version":999,"resources":[{"type":"switch","count":3,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"node","count":{"min":1},"exclusive":false,
           "with":[{"type":"core","count":1}]}]}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_resource":{"type":"node","count":1}}}],"attributes":{
           "system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0]: a jobspec of version 1 begins with a node or a slot, not with 'switch'",
    ),
    (
        "spec_14/use_case_1.8",
        r#"{"version":999,"resources":[{"type":"slot","count":"4,9,16,25","label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resource count must be an integer for type 'slot' (got 'str')",
    ),
    (
        "spec_14/use_case_2.1",
        r#"{"version":999,"resources":[{"type":"slot","label":"default","count":4,
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["hostname"],"slot":"default",
           "count":{"per_slot":5}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.2",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"myslot","with":[{"type":"node",
           "count":1}]}],"tasks":[{"command":["hostname"],"slot":"myslot","count":{"total":5}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.3",
        r#"{"version":999,"resources":[{"type":"slot","label":"default","count":10,
           "with":[{"type":"core","count":2}]}],"tasks":[{"command":["myapp"],"slot":"default",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "",
    ),
    (
        "spec_14/use_case_2.4",
        r#"{"version":999,"resources":[{"type":"node","count":1,"with":[{"type":"slot",
           "label":"read-db","count":10,"with":[{"type":"core","count":1},{"type":"memory",
           "count":4,"unit":"GB"}]},{"type":"slot","label":"db","count":1,"with":[{"type":"core",
           "count":6},{"type":"memory","count":24,"unit":"GB"}]}]}],"tasks":[{"command":["read-db"],
           "slot":"read-db","count":{"per_slot":1}},{"command":["db"],"slot":"db",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0]: a node holds exactly one slot",
    ),
    (
        "spec_14/use_case_2.5",
        r#"{"version":999,"resources":[{"type":"slot","label":"default","count":10,
           "with":[{"type":"memory","count":{"min":2},"unit":"GB"},{"type":"core",
           "count":1}]}],"tasks":[{"command":["app"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'memory'",
    ),
    (
        "spec_14/use_case_2.6",
        r#"{"version":999,"resources":[{"type":"slot","label":"4GB-node","count":2,
           "with":[{"type":"node","count":1,"with":[{"type":"memory","count":{"min":4},
           "unit":"GB"}]}]}],"tasks":[{"command":["app"],"slot":"4GB-node","count":{"total":10}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.7",
        r#"{"version":999,"resources":[{"type":"slot","count":1,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}},{"command":["flux","start"],"slot":"default",
           "count":{"per_slot":1},"attributes":{"environment":{"FOO":null,"BAR":"2"}}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"FOO":"/tmp",
           "BAR":"1"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.8",
        r#"{"version":999,"resources":[{"type":"slot","count":1,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","dependencies":[{"type":"in","scope":"user","scheme":"fluid",
           "value":"hungry-hippo-white-elephant"},{"type":"in","scope":"user","scheme":"string",
           "value":"foo"},{"type":"out","scope":"user","scheme":"string","value":"bar"}]}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.9",
        r#"{"version":999,"resources":[{"type":"slot","count":1,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","constraints":{"properties":["amd-mi50"]}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
];

#[test]
fn accepts_the_examples_of_version_1() {
    for (name, text, [nnodes, nslots, slot_size, slot_gpus, ntasks]) in V1 {
        let spec = Jobspec::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = Counts {
            nnodes: *nnodes,
            nslots: *nslots,
            slot_size: *slot_size,
            slot_gpus: *slot_gpus,
            ntasks: *ntasks,
            exclusive: false,
        };
        assert_eq!(spec.counts(), wanted, "{name}");
        assert_eq!(spec.duration(), 3600.0, "{name}");
        assert_eq!(spec.cwd(), Some("/home/flux"), "{name}");
    }
}

#[test]
fn refuses_canonical_jobspecs_for_their_version() {
    for (name, text, _) in CANONICAL {
        if !text.contains(r#""version":1,"#) {
            let error = Jobspec::parse(text).unwrap_err().to_string();
            assert_eq!(error, "version must be 1", "{name}");
        }
    }
}

#[test]
fn refuses_canonical_resources_in_version_1() {
    for (name, text, wanted) in CANONICAL {
        let text = text.replace(r#""version":999"#, r#""version":1"#);
        let got = Jobspec::parse(&text).map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(got, *wanted, "{name}");
    }
}
