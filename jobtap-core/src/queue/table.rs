//! Reading tables of the configuration in which nothing may be left over, with Flux's words for what
//! is wrong.

use serde_json::{Map, Value};

use super::error::QueueConfigError;

/// One table of the configuration, and what it is called in messages.
#[derive(Debug, Clone)]
pub(super) struct Table<'a> {
    pub(super) name: String,
    entries: &'a Map<String, Value>,
}

impl<'a> Table<'a> {
    /// The table `name`, which may have these keys and no others.
    pub(super) fn read(
        name: impl Into<String>,
        value: &'a Value,
        keys: &[&str],
    ) -> Result<Self, QueueConfigError> {
        let name = name.into();
        let Value::Object(entries) = value else {
            let text = format!("Expected object, got {}", kind(value));
            return Err(QueueConfigError::Table { table: name, text });
        };
        let table = Self { name, entries };
        let unknown = |key: &&String| !keys.contains(&key.as_str());
        let left: Vec<&str> = entries.keys().filter(unknown).map(String::as_str).collect();
        if left.is_empty() {
            return Ok(table);
        }
        let text = format!("{} object item(s) left unpacked: {}", left.len(), left.join(", "));
        Err(table.refuse(text))
    }

    /// What stands under a key.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.entries.get(key)
    }

    /// The table under a key, named `name` in messages.
    pub(super) fn inner(
        &self,
        key: &str,
        name: impl Into<String>,
        keys: &[&str],
    ) -> Result<Option<Table<'a>>, QueueConfigError> {
        self.get(key).map(|value| Table::read(name, value, keys)).transpose()
    }

    /// A list of texts under a key; `text` says what is wrong if it is none.
    pub(super) fn strings(
        &self,
        key: &str,
        text: &str,
    ) -> Result<Option<Vec<String>>, QueueConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let item = |value: &Value| value.as_str().map(str::to_owned);
        let list = value.as_array().and_then(|list| list.iter().map(item).collect());
        list.map(Some).ok_or_else(|| self.refuse(text))
    }

    /// The error that something in this table is wrong.
    pub(super) fn refuse(&self, text: impl Into<String>) -> QueueConfigError {
        QueueConfigError::Table { table: self.name.clone(), text: text.into() }
    }
}

/// The kind of a JSON value in the words of the library that Flux reads it with.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(number) if number.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
