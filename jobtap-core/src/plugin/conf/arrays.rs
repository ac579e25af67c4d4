//! The schemas of arrays: lists of any length, and tuples.

use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::ReadError;
use super::probe::{Feed, Step};
use super::schema::{Learnt, Place, Schemer, put};

/// Up to which length each element of a tuple is looked at.
const ELEMENTS: usize = 64;

impl<C: DeserializeOwned> Schemer<C> {
    pub(super) fn seq(&self, at: &Place) -> Learnt {
        let first = at.then(Step::Element(Vec::new()));
        let element = self.learn(&first);
        let mut schema = json!({"type": "array"});
        // An array that is read by hand may have a different type at each place.
        let alike = element.samples.first().is_none_or(|sample| {
            let second = at.then(Step::Element(vec![sample.clone()]));
            self.ask(&second, Feed::Nothing).asked == self.ask(&first, Feed::Nothing).asked
        });
        let alike = alike && !self.drops_parts(at, &first, |part| json!([part]));
        if alike && element.schema != json!({}) {
            put(&mut schema, "items", element.schema);
        }
        let one = element.samples.into_iter().next().map(|sample| json!([sample]));
        let samples = self.accepted(at, one.into_iter().chain([json!([])]), 2);
        Learnt { schema, samples }
    }

    pub(super) fn tuple(&self, at: &Place, len: usize) -> Learnt {
        let mut schema = json!({"type": "array", "maxItems": len});
        if len > ELEMENTS {
            let samples = Vec::new();
            return Learnt { schema, samples };
        }
        let mut schemas = Vec::new();
        let mut sample = Vec::new();
        for _ in 0..len {
            if sample.len() < schemas.len() {
                // What comes after an element that has no sample can't be reached.
                break;
            }
            let element = self.learn(&at.then(Step::Element(sample.clone())));
            schemas.push(element.schema);
            sample.extend(element.samples.into_iter().next());
        }
        let too_short = |len: &usize| {
            let short = json!(sample.get(..*len));
            self.ask(at, Feed::Value(&short)).error().is_some_and(ReadError::is_length)
        };
        let min = (0..=sample.len()).take_while(too_short).count();
        if min > 0 {
            put(&mut schema, "minItems", json!(min));
        }
        let alike = schemas.windows(2).all(|pair| pair.first() == pair.last());
        match schemas.first() {
            Some(first) if alike && schemas.len() == len => {
                put(&mut schema, "items", first.clone())
            }
            _ => put(&mut schema, "prefixItems", json!(schemas)),
        }
        let samples = self.accepted(at, [json!(sample)], 1);
        Learnt { schema, samples }
    }
}
