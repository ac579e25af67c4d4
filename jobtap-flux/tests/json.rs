//! Tests that reading a jansson value has the same result as parsing the same JSON as text.
//!
//! These tests need jansson's development files. Without them there is only one test, which says so.

#[cfg(not(jansson))]
#[test]
fn skipped() {
    println!("skipped: jansson's development files are not there (pkg-config --exists jansson)");
}

#[cfg(jansson)]
mod read {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use jobtap_core::eventlog::EventEntry;
    use jobtap_core::job::Fsd;
    use jobtap_core::jobspec::JobspecBuilder;
    use jobtap_core::resource::ResourceSet;
    use jobtap_flux::ffi::Json;
    use jobtap_flux::flux::Lend;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    /// Compares reading a jansson value with parsing the same JSON as text.
    fn same<T: DeserializeOwned + PartialEq + Debug>(text: &str) {
        let from_text = serde_json::from_str::<T>(text);
        let from_value = Json::parse(text).map(|value| value.read::<T>());
        match (from_text, from_value) {
            (Ok(text), Some(Ok(value))) => assert_eq!(text, value),
            (Err(_), Some(Err(_)) | None) => {}
            (text, value) => panic!("{text:?} and {value:?}"),
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    enum Choice {
        Unit,
        Number(i64),
        Pair(u8, String),
        Fields { a: Option<bool>, b: f64 },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Mixed {
        a: Option<u32>,
        #[serde(default)]
        b: Vec<Choice>,
        c: BTreeMap<i16, (char, ())>,
        d: Box<Option<Option<String>>>,
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u32>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
            prop_oneof!["unit", "number", "pair", "1", "-3", "a", "b"].prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            let key = prop_oneof![
                "[a-d]",
                "\\PC{0,5}",
                Just("number".to_owned()),
                Just("fields".to_owned()),
                Just("12".to_owned())
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((key, inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_value_is_the_same(value in document()) {
            same::<Value>(&value.to_string());
        }

        #[test]
        fn a_typed_value_is_the_same(value in document()) {
            let text = value.to_string();
            same::<Choice>(&text);
            same::<Vec<Choice>>(&text);
            same::<Mixed>(&text);
            same::<BTreeMap<String, Value>>(&text);
            same::<(u8, Option<String>)>(&text);
            same::<Option<i8>>(&text);
            same::<f64>(&text);
            same::<char>(&text);
            same::<EventEntry>(&text);
        }
    }

    #[test]
    fn chosen_values_are_the_same() {
        for value in [
            json!("unit"),
            json!({"number": -5}),
            json!({"number": 5, "unit": null}),
            json!({"pair": [1, "x"]}),
            json!({"pair": [1]}),
            json!({"pair": [1, "x", 2]}),
            json!({"fields": {"a": null, "b": 1}}),
            json!({"fields": {"b": 1.5, "c": 1}}),
            json!({"unit": null}),
            json!({"a": null, "b": ["unit"], "c": {"-4": ["x", null]}, "d": "x"}),
            json!({"c": {"x": ["x", null]}, "d": null}),
            json!(i64::MIN),
            json!(i64::MAX),
            json!("a\0b"),
        ] {
            let text = value.to_string();
            same::<Choice>(&text);
            same::<Mixed>(&text);
            same::<Value>(&text);
            same::<u64>(&text);
            same::<i64>(&text);
        }
        same::<EventEntry>(r#"{"timestamp":1.0,"name":"a","context":null}"#);
        same::<EventEntry>(r#"{"timestamp":1.0,"name":"a","context":{}}"#);
        let jobspec = JobspecBuilder::new(["true", "-x"]).nodes(2).duration(60.0).to_value();
        same::<Value>(&jobspec.to_string());
        same::<Fsd>("\"1.5h\"");
        let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-7"}}],"starttime":1,"expiration":2,"nodelist":["a[0-3]"]}}"#;
        let read: ResourceSet = Json::parse(r).unwrap().read().unwrap();
        assert_eq!(read.to_json(), serde_json::from_str::<ResourceSet>(r).unwrap().to_json());
    }

    #[test]
    fn what_is_nested_too_deeply_is_an_error_as_in_a_text() {
        for depth in [126, 127, 128, 129, 1000] {
            same::<Value>(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
            same::<Value>(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
        }
    }

    #[test]
    fn a_member_outlives_its_object() {
        let object = Json::parse(r#"{"a":{"b":[1,2,"x"]},"t":true,"n":null}"#).unwrap();
        let (inner, yes, no) =
            (object.get("a").unwrap(), object.get("t").unwrap(), object.get("n").unwrap());
        assert!(object.get("z").is_none() && yes.get("a").is_none());
        let copy = object.clone();
        drop(object);
        assert_eq!(inner.read::<Value>(), Ok(json!({"b": [1, 2, "x"]})));
        assert_eq!((yes.read(), no.read()), (Ok(true), Ok(None::<u8>)));
        drop(copy);
        let thread = std::thread::spawn(move || inner.get("b").unwrap().read::<(u8, u8, String)>());
        assert_eq!(thread.join().unwrap(), Ok((1, 2, "x".to_owned())));
        assert!(Json::parse("{").is_none() && Json::from_value(&json!(u64::MAX)).is_none());
    }
}
