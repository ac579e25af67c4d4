//! R as JSON (RFC 20). There is one canonical form, so that equal sets have equal texts.

use super::ResourceSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::fmt;

impl ResourceSet {
    /// The canonical JSON value: entries with equal children share one rank idset, entries are
    /// ordered by first rank, both times are written, unset ones as 0. Hosts are written when every
    /// rank has one.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut execution = Map::new();
        let r_lite: Vec<Value> = self
            .map
            .groups()
            .into_iter()
            .map(|(ranks, children)| {
                let children: Map<String, Value> = children
                    .iter()
                    .map(|(kind, ids)| (kind.to_owned(), ids.to_string().into()))
                    .collect();
                json!({"rank": ranks.to_string(), "children": children})
            })
            .collect();
        execution.insert("R_lite".to_owned(), r_lite.into());
        let hosts = self.nodelist();
        if !hosts.is_empty() && hosts.len() == self.nnodes() {
            execution.insert("nodelist".to_owned(), json!([hosts.to_string()]));
        }
        if let Some(nslots) = self.nslots {
            execution.insert("nslots".to_owned(), nslots.into());
        }
        let properties: Map<String, Value> = self
            .properties()
            .into_iter()
            .map(|(name, ranks)| (name, ranks.to_string().into()))
            .collect();
        if !properties.is_empty() {
            execution.insert("properties".to_owned(), properties.into());
        }
        for (key, seconds) in [("starttime", self.starttime), ("expiration", self.expiration)] {
            execution.insert(key.to_owned(), seconds.unwrap_or_default().into());
        }
        let mut r = Map::new();
        r.insert("version".to_owned(), 1.into());
        r.insert("execution".to_owned(), execution.into());
        if let Some(scheduling) = self.scheduling() {
            r.insert("scheduling".to_owned(), scheduling.clone());
        }
        r.into()
    }

    /// The canonical JSON text on one line; see [`ResourceSet::to_value`].
    #[must_use]
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }
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

#[cfg(test)]
mod tests {
    use super::super::sample::{build, model};
    use super::*;
    use proptest::prelude::*;

    fn set(value: Value) -> ResourceSet {
        ResourceSet::from_value(&value).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc_reads_back() {
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
                r#""children":{"core":"0-47","gpu":"0-7"}}],"nodelist":["node[186-189]"],"#,
                r#""nslots":32,"starttime":1676560542.0,"expiration":1676562342.0}}"#
            )
        );
        assert_eq!(r.to_json().parse(), Ok(r));
    }

    #[test]
    fn the_canonical_text_is_kept_as_it_is() {
        let text = concat!(
            r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","#,
            r#""children":{"core":"0-3","gpu":"0"}},{"rank":"9","children":{"core":"0"}}],"#,
            r#""nodelist":["n[0-1,9]"],"nslots":9,"properties":{"ssd@x":"0,9"},"#,
            r#""starttime":1700000000.0,"expiration":1700003600.0},"#,
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
    fn an_empty_set_is_fine() {
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
        fn any_set_reads_back(ids in model(), start in 0.0f64..4e9, length in 1.0f64..1e6, slots in 0u64..9) {
            let mut r = build(&ids);
            r.set_times(start, start + length).unwrap();
            r.set_nslots(slots);
            prop_assert_eq!(r.to_json().parse(), Ok(r));
        }
    }
}
