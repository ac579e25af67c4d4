//! The examples of RFC 46, each error once, and round trips.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Shape, ShapeError};

/// `type:count` of each vertex.
fn brief(list: &[Value]) -> String {
    let vertex = |vertex: &Value| {
        let head = format!("{}:{}", vertex["type"].as_str().unwrap(), vertex["count"]);
        match super::children(vertex) {
            [] => head,
            with => format!("{head} > {}", brief(with)),
        }
    };
    list.iter().map(vertex).collect::<Vec<_>>().join(", ")
}

fn shape(text: &str) -> Shape {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    text.parse::<Shape>().unwrap_err().to_string()
}

#[test]
fn parses_the_examples_of_the_rfc() {
    for (text, result) in [
        ("slot=4/node", "slot:4 > node:1"),
        ("slot=3-30/node", "slot:\"3-30\" > node:1"),
        ("slot=4,9,16,25/node", "slot:\"4,9,16,25\" > node:1"),
        ("slot=10/[memory=2+{unit:GB};core]", "slot:10 > memory:\"2+\", core:1"),
        (
            "slot=4{nodelevel}/node{-x}/socket=2+/core=4+",
            "slot:4 > node:1 > socket:\"2+\" > core:\"4+\"",
        ),
        ("node=2{x}/slot/core", "node:2 > slot:1 > core:1"),
        ("node=2/slot=3/[core=4;gpu=1]", "node:2 > slot:3 > core:4, gpu:1"),
        ("slot=3{a,x}/core", "slot:3 > core:1"),
        (
            "node/[slot=10{read-db}/[core;memory=4{unit:GB}];slot{db}/[core=6;memory=24{unit:GB}]]",
            "node:1 > slot:10 > core:1, memory:4, slot:1 > core:6, memory:24",
        ),
        ("core=[2-16:2:*]", "core:\"2-16:2:*\""),
        (" SLOT = 2 / core = 1 , 3 ", "slot:2 > core:\"1,3\""),
    ] {
        assert_eq!(brief(shape(text).resources()), result, "{text}");
    }
}

#[test]
fn items_are_members_of_their_vertex() {
    let vertex = |text| shape(text).resources()[0].clone();
    assert_eq!(
        vertex("slot=3{a,x}/core"),
        json!({"type": "slot", "count": 3, "label": "a", "exclusive": true,
            "with": [{"type": "core", "count": 1}]})
    );
    assert_eq!(vertex("node{-x}")["exclusive"], false);
    assert_eq!(vertex("slot/core")["label"], "task");
    assert_eq!(
        vertex("memory=4{unit:GB,+fast,-far,ecc,n:-1.5,s:'a;b',l:[1,true,\"1\"],d:{a:null}}"),
        json!({"type": "memory", "count": 4, "unit": "GB", "fast": true, "far": false, "ecc": true,
            "n": -1.5, "s": "a;b", "l": [1, true, "1"], "d": {"a": null}})
    );
}

#[test]
fn the_first_slot_is_that_of_the_task() {
    assert_eq!(shape("node/slot{a}/core").slot(), Some("a"));
    assert_eq!(shape("[node/slot{a}/core;slot{b}/core]").slot(), Some("a"));
    assert_eq!(shape("core").slot(), None);
}

#[test]
fn errors_name_the_position() {
    for (text, message) in [
        ("slot", "Unexpected end of input in 'slot'"),
        ("slot/", "Unexpected end of input in 'slot/'"),
        ("", "Unexpected end of input in ''"),
        ("slot=2{blah", "Unclosed brace in position 6"),
        ("slot=2{bla}}", "Mismatched braces starting at position 11."),
        ("core]", "Mismatched brackets starting at position 4."),
        ("[core;gpu", "Unclosed bracket in position 0"),
        ("node{unit:'G}", "Unclosed quote in position 10"),
        ("slot=0/core", "Illegal character '0' at position 5"),
        ("core=1.5", "Illegal character '.' at position 6"),
        ("core!", "Illegal character '!' at position 4"),
        ("slot{}/core", "Invalid token '}' at position 5"),
        ("slot core", "Invalid token 'core' at position 5"),
        ("core{type:gpu}", "Invalid token 'type' at position 5"),
        ("core{x,x}", "Invalid token 'exclusive' at position 7"),
        ("[slot/core;slot/core]", "Multiple slots require labels"),
        ("[slot{a}/core;slot/core]", "Multiple slots require labels"),
        ("core=3-2", "Failed to decode '3-2' as idset or range"),
    ] {
        assert_eq!(refused(text), message, "{text}");
    }
    let deep = "node/".repeat(100_000) + "core";
    assert_eq!(deep.parse::<Shape>(), Err(ShapeError::Depth(64)));
    let deep = format!("node{{a:{}", "[".repeat(100_000));
    assert_eq!(deep.parse::<Shape>(), Err(ShapeError::Depth(64)));
}

#[test]
fn counts_are_numbers_idsets_and_ranges() {
    let count = |text: &str| super::count(text);
    for text in
        ["4-6,9", "2-16:2:*", "2-16:2:^", "2+", "2+:1:+", "25-133:17", "3-3", "1-3:2", "4+:3:*"]
    {
        assert_eq!(count(text), Ok(json!(text)), "{text}");
    }
    assert_eq!(count("4"), Ok(json!(4)));
    for text in [
        "",
        "0",
        "0-3",
        "3-2",
        "3-2:1:+",
        "2-8:01",
        "2-8:1:*",
        "2-8:1:^",
        "2-8:1:/",
        "2-8:1:++",
        "4.2",
        "01,2",
        "3,2",
        "1-16:2:^",
        "2-8:2:+:",
        "99999999999999999999",
    ] {
        assert_eq!(count(text), Err(ShapeError::Count(text.to_owned())), "{text}");
    }
}

fn vertices() -> impl Strategy<Value = String> {
    let count = prop_oneof![
        3 => Just(String::new()),
        3 => (1u32..9).prop_map(|n| format!("={n}")),
        1 => Just("=2+:3:*".to_owned()),
        1 => Just("=[1-4,9]".to_owned()),
    ];
    let items = prop_oneof![
        4 => Just(String::new()),
        1 => Just("{-x,+far}".to_owned()),
        1 => Just("{x, unit: 'G \"B\"', n:[ -2, 1e3,{a:'null'}]}".to_owned()),
    ];
    let kind = prop_oneof![Just("node"), Just("core"), Just("gpu"), Just("'a b'")];
    let leaf = (kind.clone(), count.clone(), items.clone())
        .prop_map(|(kind, count, items)| format!("{kind}{count}{items}"));
    leaf.prop_recursive(4, 12, 3, move |inner| {
        let head = (kind.clone(), count.clone(), items.clone());
        (head, prop::collection::vec(inner, 1..3)).prop_map(|((kind, count, items), with)| {
            format!("{kind}{count}{items}/[{}]", with.join("; "))
        })
    })
}

proptest! {
    #[test]
    fn the_text_of_a_shape_round_trips(text in vertices(), slots in 0usize..3) {
        let of = |n| format!("slot{{l{n}}}/{text}");
        let text = match slots {
            0 => text,
            1 => format!("node/slot/{text}"),
            _ => format!("[{};{}]", of(1), of(2)),
        };
        let shape = shape(&text);
        prop_assert_eq!(&shape.to_string().parse::<Shape>().unwrap(), &shape);
    }

    #[test]
    fn accepted_text_round_trips(
        text in prop_oneof!["\\PC{0,20}", "[]\\[{}/;,:=+\\-'\"x0-3. slot]{0,24}"],
    ) {
        if let Ok(shape) = text.parse::<Shape>() {
            prop_assert_eq!(&shape.to_string().parse::<Shape>().unwrap(), &shape);
        }
    }
}
