//! R as JSON (RFC 20).
//!
//! Writing gives one canonical form, so that equal sets have equal texts. Reading accepts entries in
//! any order and ranks that occur twice; an error names the path of the value that is wrong.

use super::nodes::{HostMap, Nodes};
use super::rank_map::{RankMap, RankRun};
use super::set::check_property_name;
use super::{Children, Hostlist, Idset, ResourceError, ResourceSet};
use crate::json_text;
use crate::json_type::json_type;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

impl ResourceSet {
    /// The canonical JSON value. Ranks with equal children share one entry, entries are ordered by
    /// their first rank, and unset times are written as 0. Hosts are written if every rank has one.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // The text is JSON. Parsing it fails only if the scheduling data is nested too deeply for a parser, and then R
        // could not be read back after a restart either.
        serde_json::from_str(&self.to_json()).unwrap_or_default()
    }

    /// The canonical JSON text on one line; see [`ResourceSet::to_value`].
    #[must_use]
    pub fn to_json(&self) -> String {
        // Most jobs have a node or two.
        let mut text = Vec::with_capacity(256);
        self.push_json_to(&mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// Appends the JSON text, key by key: R is written for each job, and serde takes four times as long.
    fn push_json_to(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(b"{\"version\":1,\"execution\":{\"R_lite\":[");
        for (i, (ranks, children)) in self.map.groups().into_iter().enumerate() {
            text.extend_from_slice(if i == 0 { b"{\"rank\":" } else { b",{\"rank\":" });
            push_plain(text, &ranks);
            text.extend_from_slice(b",\"children\":{");
            push_members(text, children.iter());
            text.extend_from_slice(b"}}");
        }
        text.push(b']');
        text.extend_from_slice(b",\"starttime\":");
        json_text::push_time(text, self.starttime.unwrap_or_default());
        text.extend_from_slice(b",\"expiration\":");
        json_text::push_time(text, self.expiration.unwrap_or_default());
        if let Some(nslots) = self.nslots {
            text.extend_from_slice(b",\"nslots\":");
            json_text::push_integer(text, nslots);
        }
        let ranks = self.ranks();
        let hosts = self.nodes.hosts.nodelist(&ranks);
        if !hosts.is_empty() && hosts.len() == self.nnodes() {
            text.extend_from_slice(b",\"nodelist\":[");
            json_text::push_string(text, &hosts.to_string());
            text.push(b']');
        }
        let properties = self.nodes.properties_of(&ranks);
        if !properties.is_empty() {
            text.extend_from_slice(b",\"properties\":{");
            push_members(text, properties.iter().map(|(name, ranks)| (name.as_str(), ranks)));
            text.push(b'}');
        }
        text.push(b'}');
        if let Some(scheduling) = self.scheduling() {
            text.extend_from_slice(b",\"scheduling\":");
            json_text::push_value(text, scheduling);
        }
        text.push(b'}');
    }
}

/// Appends the members of an object, each a set of ids.
fn push_members<'m>(text: &mut Vec<u8>, members: impl Iterator<Item = (&'m str, &'m Idset)>) {
    for (i, (name, ids)) in members.enumerate() {
        if i > 0 {
            text.push(b',');
        }
        json_text::push_string(text, name);
        text.push(b':');
        push_plain(text, ids);
    }
}

/// Appends a set of ids as a JSON string, which needs no escapes: it consists of digits, commas and hyphens.
fn push_plain(text: &mut Vec<u8>, ids: &Idset) {
    text.push(b'"');
    ids.pieces(|piece| text.extend_from_slice(piece.as_bytes()));
    text.push(b'"');
}

impl fmt::Display for ResourceSet {
    /// The summary.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

impl Serialize for ResourceSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ResourceSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value).map_err(serde::de::Error::custom)
    }
}

impl ResourceSet {
    /// Reads R (RFC 20, version 1) from a JSON value.
    ///
    /// # Errors
    /// [`ResourceError`] names the path of the value that is missing or wrong.
    pub fn from_value(value: &Value) -> Result<Self, ResourceError> {
        let r = object(value, "")?;
        let version = integer(member(r, "", "version")?, "version")?;
        if version != 1 {
            return Err(ResourceError::Version(version));
        }
        let execution = object(member(r, "", "execution")?, "execution")?;
        let (ranks, map) = parse_r_lite(member(execution, "execution", "R_lite")?)?;
        let hosts = match execution.get("nodelist") {
            Some(nodelist) => parse_nodelist(nodelist, &ranks)?,
            None => HostMap::default(),
        };
        let properties = match execution.get("properties") {
            Some(properties) => parse_properties(properties, &ranks)?,
            None => BTreeMap::new(),
        };
        let mut set = Self::of_parts(map, Nodes { hosts, properties });
        set.nslots = execution.get("nslots").map(parse_nslots).transpose()?;
        set.set_times(time(execution, "starttime")?, time(execution, "expiration")?)?;
        if let Some(scheduling) = r.get("scheduling") {
            object(scheduling, "scheduling")?;
            set.scheduling = Some(Arc::new(scheduling.clone()));
        }
        Ok(set)
    }
}

impl FromStr for ResourceSet {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| ResourceError::Json(error.to_string()))?;
        Self::from_value(&value)
    }
}

/// All ranks of `R_lite`, and the map of those that have any ids.
fn parse_r_lite(value: &Value) -> Result<(Idset, RankMap), ResourceError> {
    let entries = array(value, "execution.R_lite")?;
    let mut pieces = Vec::with_capacity(entries.len());
    let mut ranges = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let path = format!("execution.R_lite[{i}]");
        let entry = object(entry, &path)?;
        let rank_path = format!("{path}.rank");
        let ranks = idset(member(entry, &path, "rank")?, &rank_path)?;
        let children_path = format!("{path}.children");
        let children = parse_children(member(entry, &path, "children")?, &children_path)?;
        let children = Arc::new(children);
        for range in ranks.ranges() {
            let (first, last) = range.into_inner();
            ranges.push((first, last));
            if !children.is_empty() {
                pieces.push(RankRun { first, last, children: children.clone() });
            }
        }
    }
    ranges.sort_unstable();
    let mut named = Idset::new();
    for (first, last) in ranges {
        named.push_run(first, last);
    }
    Ok((named, RankMap::of_pieces(pieces)))
}

fn parse_children(value: &Value, path: &str) -> Result<Children, ResourceError> {
    let mut children = Children::default();
    for (kind, ids) in object(value, path)? {
        children.insert(kind, idset(ids, &format!("{path}.{kind}"))?);
    }
    Ok(children)
}

fn parse_nodelist(value: &Value, ranks: &Idset) -> Result<HostMap, ResourceError> {
    let mut hosts = Hostlist::new();
    for (i, item) in array(value, "execution.nodelist")?.iter().enumerate() {
        let path = format!("execution.nodelist[{i}]");
        let list: Hostlist = string(item, &path)?
            .parse()
            .map_err(|source| ResourceError::Hostlist { path, source })?;
        hosts.append(&list);
    }
    if hosts.len() != ranks.len() {
        return Err(ResourceError::HostCount { hosts: hosts.len(), ranks: ranks.len() });
    }
    Ok(HostMap::zip(ranks, &hosts))
}

fn parse_properties(
    value: &Value,
    ranks: &Idset,
) -> Result<BTreeMap<String, Idset>, ResourceError> {
    let Value::Object(entries) = value else {
        return Err(ResourceError::Properties);
    };
    let mut properties = BTreeMap::new();
    for (name, holders) in entries {
        check_property_name(name)?;
        let text =
            holders.as_str().ok_or_else(|| ResourceError::PropertyValue(holders.to_string()))?;
        let holders: Idset = text.parse().map_err(|_| ResourceError::PropertyRanks {
            idset: text.to_owned(),
            property: name.clone(),
        })?;
        let unknown = holders.difference(ranks);
        if !unknown.is_empty() {
            return Err(ResourceError::UnknownRanks(unknown.to_string()));
        }
        if !holders.is_empty() {
            properties.insert(name.clone(), holders);
        }
    }
    Ok(properties)
}

fn parse_nslots(value: &Value) -> Result<u64, ResourceError> {
    let path = "execution.nslots";
    integer(value, path)?;
    value.as_u64().filter(|nslots| *nslots > 0).ok_or_else(|| ResourceError::Number {
        path: path.to_owned(),
        rule: "must be a positive integer",
        found: value.to_string(),
    })
}

/// A time in seconds, or 0 if the key is absent.
fn time(execution: &Map<String, Value>, key: &str) -> Result<f64, ResourceError> {
    let Some(value) = execution.get(key) else {
        return Ok(0.0);
    };
    value.as_f64().ok_or_else(|| wrong_type(value, &format!("execution.{key}"), "number"))
}

fn member<'a>(
    object: &'a Map<String, Value>,
    path: &str,
    key: &'static str,
) -> Result<&'a Value, ResourceError> {
    object.get(key).ok_or_else(|| ResourceError::Missing { path: path.to_owned(), key })
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, ResourceError> {
    value.as_object().ok_or_else(|| wrong_type(value, path, "object"))
}

fn array<'a>(value: &'a Value, path: &str) -> Result<&'a Vec<Value>, ResourceError> {
    value.as_array().ok_or_else(|| wrong_type(value, path, "array"))
}

fn string<'a>(value: &'a Value, path: &str) -> Result<&'a str, ResourceError> {
    value.as_str().ok_or_else(|| wrong_type(value, path, "string"))
}

/// Reads an integer. One above `i64::MAX` is read as `i64::MAX`.
fn integer(value: &Value, path: &str) -> Result<i64, ResourceError> {
    value
        .as_i64()
        .or_else(|| value.as_u64().map(|_| i64::MAX))
        .ok_or_else(|| wrong_type(value, path, "integer"))
}

fn idset(value: &Value, path: &str) -> Result<Idset, ResourceError> {
    let text = string(value, path)?;
    text.parse().map_err(|source| ResourceError::Idset {
        path: path.to_owned(),
        text: text.to_owned(),
        source,
    })
}

fn wrong_type(value: &Value, path: &str, expected: &'static str) -> ResourceError {
    let found = json_type(value);
    ResourceError::Type { path: path.to_owned(), expected, found }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{build, model};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn set(value: Value) -> ResourceSet {
        ResourceSet::from_value(&value).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_round_trips() {
        let example = json!({
            "version": 1,
            "execution": {
                "R_lite": [{"rank": "19-22", "children": {"core": "0-47", "gpu": "0-7"}}],
                "nodelist": ["node[186-189]"],
                "nslots": 32,
                "starttime": 1_676_560_542,
                "expiration": 1_676_562_342
            }
        });
        let r = set(example);
        assert_eq!((r.nnodes(), r.ncores(), r.ngpus()), (4, 192, 32));
        assert_eq!(r.host(20).unwrap(), "node187");
        assert_eq!(r.nslots(), Some(32));
        assert_eq!(r.expiration(), Some(1_676_562_342.0));
        assert_eq!(
            r.to_json(),
            concat!(
                r#"{"version":1,"execution":{"R_lite":[{"rank":"19-22","#,
                r#""children":{"core":"0-47","gpu":"0-7"}}],"starttime":1676560542.0,"#,
                r#""expiration":1676562342.0,"nslots":32,"nodelist":["node[186-189]"]}}"#
            )
        );
        assert_eq!(r.to_json().parse(), Ok(r));
    }

    #[test]
    fn the_canonical_text_round_trips() {
        let text = concat!(
            r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","#,
            r#""children":{"core":"0-3","gpu":"0"}},{"rank":"9","children":{"core":"0"}}],"#,
            r#""starttime":1700000000.0,"expiration":1700003600.0,"nslots":9,"#,
            r#""nodelist":["n[0-1,9]"],"properties":{"ssd@x":"0,9"}},"#,
            r#""scheduling":{"writer":"fluxion:x","graph":[1,{"a":null}]}}"#
        );
        let r: ResourceSet = text.parse().unwrap();
        assert_eq!(r.to_json(), text);
        assert_eq!(r.summary(), "rank[0-1]/core[0-3],gpu0 rank9/core0");
        assert_eq!(serde_json::from_str::<ResourceSet>(text).unwrap(), r);
        assert_eq!(serde_json::to_string(&r).unwrap(), text);
    }

    #[test]
    fn entries_are_merged_and_grouped() {
        let r = set(json!({"version": 1, "execution": {"R_lite": [
            {"rank": "7", "children": {"core": "0-1", "nic": "0"}},
            {"rank": "0-3", "children": {"core": "1"}},
            {"rank": "2-5", "children": {"core": "0"}},
            {"rank": "0-1", "children": {"core": "0", "gpu": ""}},
            {"rank": "8", "children": {}},
        ], "nodelist": ["a[0-5]", "b7,b8"]}}));
        assert_eq!(r.summary(), "rank[0-3]/core[0-1] rank[4-5]/core0 rank7/core[0-1],nic0");
        assert_eq!(r.nodelist().to_string(), "a[0-5],b7");
        assert_eq!(r.to_json().parse(), Ok(r));
    }

    #[test]
    fn the_empty_set_round_trips() {
        let r = set(json!({"version": 1, "execution": {"R_lite": []}, "scheduling": {"a": 1}}));
        assert!(r.is_empty());
        assert_eq!(
            r.to_json(),
            r#"{"version":1,"execution":{"R_lite":[],"starttime":0.0,"expiration":0.0}}"#
        );
        assert_eq!(r, ResourceSet::new());
    }

    proptest! {
        #[test]
        fn every_set_round_trips(ids in model(), start in 0.0f64..4e9, length in 1.0f64..1e6, slots in 0u64..9) {
            let mut r = build(&ids);
            r.set_times(start, start + length).unwrap();
            r.set_nslots(slots);
            prop_assert_eq!(r.to_json().parse(), Ok(r));
        }
    }

    fn error(value: Value) -> String {
        ResourceSet::from_value(&value).unwrap_err().to_string()
    }

    fn r(execution: Value) -> Value {
        json!({"version": 1, "execution": execution})
    }

    /// R with eleven ranks and one more key.
    fn with(key: &str, value: Value) -> Value {
        let entry = json!([{"rank": "0-10", "children": {"core": "0"}}]);
        r(json!({"R_lite": entry, key: value}))
    }

    #[test]
    fn errors_name_the_missing_key() {
        for (value, message) in [
            (json!(1), "Expected object, got integer"),
            (json!({}), "Object item not found: version"),
            (json!({"version": 2}), "invalid version=2"),
            (json!({"version": 1.5}), "version: Expected integer, got real"),
            (json!({"version": 1}), "Object item not found: execution"),
            (r(json!({})), "execution: Object item not found: R_lite"),
        ] {
            assert_eq!(error(value), message);
        }
        let error = "{".parse::<ResourceSet>().unwrap_err().to_string();
        assert!(error.starts_with("invalid JSON: "), "{error}");
    }

    #[test]
    fn errors_name_the_entry() {
        for (value, message) in [
            (
                r(json!({"R_lite": [{"rank": "0", "children": {}}, {}]})),
                "execution.R_lite[1]: Object item not found: rank",
            ),
            (
                r(json!({"R_lite": [{"rank": "0"}]})),
                "execution.R_lite[0]: Object item not found: children",
            ),
            (
                r(json!({"R_lite": [{"rank": "0", "children": {"core": 4}}]})),
                "execution.R_lite[0].children.core: Expected string, got integer",
            ),
            (
                r(json!({"R_lite": [{"rank": "1-0", "children": {}}]})),
                "execution.R_lite[0].rank: invalid idset '1-0': range '1-0' is out of order",
            ),
        ] {
            assert_eq!(error(value), message);
        }
    }

    #[test]
    fn errors_name_the_key_of_execution() {
        for (value, message) in [
            (
                with("nodelist", json!(["n[0-3]"])),
                "execution.nodelist: 4 hosts for 11 ranks, give one host per rank",
            ),
            (
                with("nodelist", json!(["n", "foo["])),
                "execution.nodelist[1]: invalid hostlist: 'foo[': mismatched, nested or repeated \
                 brackets",
            ),
            (with("nslots", json!(0)), "execution.nslots: must be a positive integer, got 0"),
            (with("starttime", json!("x")), "execution.starttime: Expected number, got string"),
            (
                r(json!({"R_lite": [], "starttime": 20, "expiration": 10.5})),
                "execution.expiration: 10.5 is not after starttime 20",
            ),
        ] {
            assert_eq!(error(value), message);
        }
    }

    #[test]
    fn errors_name_the_property() {
        for (value, message) in [
            (with("properties", json!(1)), "properties must be an object"),
            (with("properties", json!({"foo": 1})), "properties value '1' not a string"),
            (
                with("properties", json!({"fo^o": "1"})),
                "invalid character '^' in property \"fo^o\"",
            ),
            (
                with("properties", json!({"foo": "x-y"})),
                "invalid idset 'x-y' specified for property \"foo\"",
            ),
            (
                with("properties", json!({"foo": "5-30"})),
                "ranks 11-30 not found in target resource list",
            ),
        ] {
            assert_eq!(error(value), message);
        }
    }

    /// JSON that has the keys of R and values that may be wrong.
    fn nearly_r() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[0-9,-]{0,6}".prop_map(Value::from),
            "n\\[[0-9,-]{0,6}\\]".prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-2i64..9).prop_map(Value::from),
            Just(Value::Null),
            Just(json!([])),
        ];
        let children = prop::collection::btree_map("core|gpu|x", leaf.clone(), 0..3);
        let entry = (leaf.clone(), children)
            .prop_map(|(rank, children)| json!({"rank": rank, "children": children}));
        let entries = prop::collection::vec(entry, 0..4);
        let keys = prop::collection::btree_map(
            "nodelist|nslots|starttime|expiration|properties",
            prop_oneof![
                leaf.clone(),
                leaf.clone().prop_map(|list| json!([list])),
                leaf.prop_map(|ranks| json!({"p": ranks})),
            ],
            0..3,
        );
        (entries, keys).prop_map(|(entries, keys)| {
            let mut execution = Map::new();
            execution.insert("R_lite".to_owned(), entries.into());
            execution.extend(keys);
            json!({"version": 1, "execution": execution})
        })
    }

    proptest! {
        #[test]
        fn accepted_json_has_one_canonical_form(value in nearly_r()) {
            if let Ok(r) = ResourceSet::from_value(&value) {
                let text = r.to_json();
                let again: ResourceSet = text.parse().unwrap();
                prop_assert_eq!(again.to_json(), text);
                prop_assert_eq!(again, r);
            }
        }
    }
}
