//! The environment that a job was submitted with, or that a plugin has given it. It is in the store alone: it is large, and
//! only a job that starts needs it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jobtap_core::engine::ENVIRONMENT;
use jobtap_core::job::JobId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::missing;
use crate::daemon::records::Records;
use crate::rpc::RpcError;
use crate::store::{Found, Key, request};

/// Environment variables by name.
pub(super) type Variables = BTreeMap<String, String>;

/// Reads environments. It remembers the last one that several jobs share, such as the elements of an array: they start one
/// after the other, and each would have it read and parsed again, which takes a good part of the time for a short job.
#[derive(Default)]
pub(in crate::daemon) struct Environments {
    shared: Option<(Key, Arc<Variables>)>,
}

impl Environments {
    /// The variables of a job. What isn't a text is left out.
    ///
    /// # Errors
    /// The store doesn't have them, or they are damaged.
    pub(super) fn get(&mut self, records: &Records, id: JobId) -> Result<Arc<Variables>, RpcError> {
        let (source, found) = find(records, id)?;
        let key = match found {
            Found::Value(value) => return Ok(Arc::new(variables(source, &value)?)),
            Found::Shared(key) => key,
        };
        // The instance's keys about an array are written once, and its id is never used again.
        if let Some((known, variables)) = &self.shared
            && *known == key
        {
            return Ok(Arc::clone(variables));
        }
        let variables = Arc::new(variables(source, &shared(records, source, &key)?)?);
        self.shared = Some((key, Arc::clone(&variables)));
        Ok(variables)
    }
}

/// The environment of a job, also what isn't a text.
pub(in crate::daemon) fn environment_of(
    records: &Records,
    id: JobId,
) -> Result<Map<String, Value>, RpcError> {
    let (source, found) = find(records, id)?;
    let value = match found {
        Found::Value(value) => value,
        Found::Shared(key) => shared(records, source, &key)?,
    };
    match parse(source, &text(source, &value)?)? {
        Value::Object(environment) => Ok(environment),
        _ => Ok(Map::new()),
    }
}

/// The key that has the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The request of the user.
    Submitted,
    /// The one that a plugin has written.
    Changed,
}

impl Source {
    fn key(self) -> &'static str {
        match self {
            Self::Submitted => Key::J,
            Self::Changed => ENVIRONMENT,
        }
    }

    fn damaged(self, error: impl std::fmt::Display) -> RpcError {
        RpcError::proto(format!("the stored {} is damaged: {error}", self.key()))
    }
}

fn find(records: &Records, id: JobId) -> Result<(Source, Found), RpcError> {
    for source in [Source::Changed, Source::Submitted] {
        if let Some(found) = records.find(id, source.key())? {
            return Ok((source, found));
        }
    }
    Err(missing(Key::J))
}

fn shared(records: &Records, source: Source, key: &Key) -> Result<Vec<u8>, RpcError> {
    records.stored(key)?.ok_or_else(|| missing(source.key()))
}

/// The JSON text with the environment in a stored value.
fn text(source: Source, stored: &[u8]) -> Result<Cow<'_, str>, RpcError> {
    let text = std::str::from_utf8(stored).map_err(|error| source.damaged(error))?;
    match (source, request::jobspec_in(text)) {
        (Source::Changed, _) => Ok(text.into()),
        (Source::Submitted, Some(jobspec)) => Ok(jobspec.into()),
        // A token that was signed elsewhere.
        (Source::Submitted, None) => {
            request::jobspec_of(text).map(Cow::Owned).ok_or_else(|| missing(Key::J))
        }
    }
}

fn variables(source: Source, stored: &[u8]) -> Result<Variables, RpcError> {
    let text = text(source, stored)?;
    // Without a tree of values, which takes longer, unless there are other values than texts.
    if let Ok(variables) = parse(source, &text) {
        return Ok(variables);
    }
    let environment: Map<String, Value> = parse(source, &text)?;
    let texts = |(name, value)| match value {
        Value::String(value) => Some((name, value)),
        _ => None,
    };
    Ok(environment.into_iter().filter_map(texts).collect())
}

fn parse<T: DeserializeOwned + Default>(source: Source, text: &str) -> Result<T, RpcError> {
    let parsed = match source {
        Source::Changed => serde_json::from_str(text),
        Source::Submitted => serde_json::from_str(text)
            .map(|submitted: Submitted<T>| submitted.attributes.system.environment),
    };
    parsed.map_err(|error| source.damaged(error))
}

/// The part of a submitted jobspec that isn't in the stored one. The rest is not made into values.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned + Default")]
struct Submitted<T> {
    #[serde(default)]
    attributes: SubmittedAttributes<T>,
}

#[derive(Default, Deserialize)]
#[serde(bound = "T: DeserializeOwned + Default")]
struct SubmittedAttributes<T> {
    #[serde(default)]
    system: SubmittedSystem<T>,
}

#[derive(Default, Deserialize)]
#[serde(bound = "T: DeserializeOwned + Default")]
struct SubmittedSystem<T> {
    #[serde(default)]
    environment: T,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Op, Store, shared};

    const REQUEST: &str = "jobtap.array.9.J";

    fn put(key: Key, value: String) -> Op {
        Op::Put { key, value: value.into_bytes() }
    }

    fn submitted(environment: &Value) -> String {
        let jobspec = json!({"version": 1, "attributes": {"system": {"environment": environment}}});
        request::unsigned(0, jobspec.to_string())
    }

    fn records(ops: Vec<Op>) -> (Records, Arc<MemoryStore>) {
        let store = Arc::new(MemoryStore::default());
        store.commit(ops).unwrap();
        (Records::new(Arc::clone(&store) as Arc<dyn Store>, "/".as_ref()), store)
    }

    fn of(id: u64, name: &str) -> Key {
        Key::job(id, name).unwrap()
    }

    #[test]
    fn texts_are_variables_and_what_a_plugin_wrote_is_preferred() {
        let (records, _) = records(vec![
            put(of(1, Key::J), submitted(&json!({"A": "1", "B": 2}))),
            put(of(2, Key::J), submitted(&json!({"A": "1"}))),
            put(of(2, ENVIRONMENT), json!({"C": "3"}).to_string()),
        ]);
        let mut environments = Environments::default();
        let mut get = |id| environments.get(&records, JobId::new(id));
        assert_eq!(*get(1).unwrap(), [("A".to_owned(), "1".to_owned())].into());
        assert_eq!(*get(2).unwrap(), [("C".to_owned(), "3".to_owned())].into());
        assert!(get(3).unwrap_err().to_string().contains("J is missing"));
        let all = environment_of(&records, JobId::new(1)).unwrap();
        assert_eq!(Value::Object(all), json!({"A": "1", "B": 2}));
    }

    #[test]
    fn jobs_that_share_an_environment_have_it_read_once() {
        let refer = || shared::refer_to(REQUEST);
        let request = Key::instance(REQUEST).unwrap();
        let (records, store) = records(vec![
            put(request.clone(), submitted(&json!({"A": "1"}))),
            put(of(1, Key::J), refer()),
            put(of(2, Key::J), refer()),
            put(of(3, Key::J), submitted(&json!({"A": "3"}))),
        ]);
        let mut environments = Environments::default();
        let first = environments.get(&records, JobId::new(1)).unwrap();
        assert_eq!(first["A"], "1");
        assert_eq!(environments.get(&records, JobId::new(3)).unwrap()["A"], "3");
        store.commit(vec![Op::Remove { key: request }]).unwrap();
        let second = environments.get(&records, JobId::new(2)).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        // Another reader has nothing to remember.
        assert!(Environments::default().get(&records, JobId::new(2)).is_err());
    }
}
