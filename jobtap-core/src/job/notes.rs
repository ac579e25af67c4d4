//! A JSON object that most jobs don't have, in the size of a pointer: a hundred thousand jobs may wait
//! at once.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// See the module.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub(crate) struct Notes(Option<Box<Map<String, Value>>>);

impl Deref for Notes {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Notes {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl From<Map<String, Value>> for Notes {
    fn from(map: Map<String, Value>) -> Self {
        Self((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
