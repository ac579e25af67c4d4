use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<String, String> {
    text.parse::<TaskMap>().map(|map| map.to_string()).map_err(|error| error.to_string())
}

#[test]
fn raw_maps_become_the_blocks_of_the_rfc() {
    for (raw, blocks) in [
        ("0", "[[0,1,1,1]]"),
        ("0;1", "[[0,2,1,1]]"),
        ("0-1;2-3", "[[0,2,2,1]]"),
        ("0,2;1,3", "[[0,2,1,2]]"),
        ("1;0", "[[1,1,1,1],[0,1,1,1]]"),
        ("0,4,8,12;1,5,9,13;2,6,10,14;3,7,11,15", "[[0,4,1,4]]"),
        ("0-1,8-9;2-3,10-11;4-5,12-13;6-7,14-15", "[[0,4,2,2]]"),
        ("0-1;2-3;4-5;6-7;8-11;12-15", "[[0,4,2,1],[4,2,4,1]]"),
        ("0,6;1,7;2,8;3,9;4,10,12,14;5,11,13,15", "[[0,6,1,2],[4,2,1,2]]"),
        ("12-15;8-11;4-7;0-3", "[[3,1,4,1],[2,1,4,1],[1,1,4,1],[0,1,4,1]]"),
        ("0-1;2-3;4-5;6-7;8-9;12-13;10-11;14-15", "[[0,5,2,1],[6,1,2,1],[5,1,2,1],[7,1,2,1]]"),
    ] {
        assert_eq!(parse(raw).unwrap(), blocks);
        assert_eq!(raw.parse::<TaskMap>().unwrap().to_raw(), raw);
    }
}

#[test]
fn json_is_kept_as_it_is_given_and_pmi_merged() {
    assert_eq!(parse("[[0,4,4,1],[0,4,4,1]]").unwrap(), "[[0,4,4,1],[0,4,4,1]]");
    assert_eq!(parse(r#"{"version":1,"map":[[0,1,2,1]]}"#).unwrap(), "[[0,1,2,1]]");
    assert_eq!(parse("(vector,(0,4,4),(0,4,4))").unwrap(), "[[0,4,4,2]]");
    assert_eq!((parse("").unwrap(), parse("[]").unwrap()), ("[]".to_owned(), "[]".to_owned()));
}

#[test]
fn what_is_no_map_is_named() {
    for (text, error) in [
        ("0-1;1", "duplicate taskid specified: 1"),
        ("0-10;5-10", "duplicate taskids specified: 5-10"),
        ("1", "missing taskid: 0"),
        ("0-1;10", "missing taskids: 2-9"),
        ("[[0,0,1,1]]", "invalid entry [0,0,1,1]"),
        ("[1]", "entry 0 in taskmap is not an array"),
        (r#"{"version":2,"map":[]}"#, "expected version=1, got 2"),
        ("(0,1,1),(vector,(0,1,1))", "vector prefix must precede blocklist"),
        ("(vector,(0,4,4)", "unable to parse block: (0,4,4"),
        ("(vector,(0,x,4))", "invalid number in block: (0,x,4)"),
        ("[[0,99999999999,99999999999,9999999]]", "more than 1048576 tasks or nodes"),
        ("0-2000000", "more than 1048576 tasks or nodes"),
    ] {
        assert_eq!(parse(text).unwrap_err(), error, "{text}");
    }
}

proptest! {
    #[test]
    fn all_forms_say_the_same(
        blocks in prop::collection::vec((0u64..6, 1u64..4, 1u64..4, 1u64..4), 0..5)
    ) {
        let blocks: Vec<_> = blocks.iter().map(|(a, b, c, d)| serde_json::json!([a, b, c, d])).collect();
        let map = TaskMap::from_value(&Value::Array(blocks)).unwrap();
        let raw = map.to_raw();
        for text in [raw.clone(), map.to_pmi(), map.to_string()] {
            let again: TaskMap = text.parse().unwrap();
            prop_assert_eq!(again.to_raw(), raw.clone(), "{}", text);
            prop_assert_eq!(again.ntasks(), map.ntasks());
        }
        for (node, tasks) in (0..).zip(map.tasks()) {
            for task in tasks.iter() {
                prop_assert_eq!(map.node_of(task.into()), Some(node));
            }
        }
    }

    #[test]
    fn no_text_brings_it_down(text in "[0-9(){}\\[\\],;:vector-]{0,40}") {
        if let Ok(map) = text.parse::<TaskMap>() {
            prop_assert_eq!(map.tasks().len() as u64, map.nnodes());
        }
    }
}
