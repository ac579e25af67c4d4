//! JSON and YAML, for `slurm.to_json`, `slurm.from_json`, `slurm.to_yaml` and `slurm.from_yaml`.

use std::fmt;

use mlua::{Lua, Table, Value as LuaValue};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::yaml;

/// How deep tables and documents may nest in Slurm.
const MAX_DEPTH: usize = 16;

/// How deep they may nest in the module cjson.
const MAX_DEPTH_OF_CJSON: usize = 100;

/// How many values a document may have. A table counts wherever it stands: those that others share are written each
/// time, and so are the anchors of YAML.
const MAX_VALUES: usize = 200_000;

/// How many bytes the texts of a document may have, and a document that is read.
const MAX_BYTES: usize = 4 << 20;

/// A format of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
    /// JSON as the module cjson has it: it nests deeper, and null is a value.
    Cjson,
}

/// Why a value can't be written as a document, or a document can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Yaml(#[from] serde_norway::Error),
    #[error("nested more than {0} levels deep")]
    TooDeep(usize),
    #[error("more than {MAX_VALUES} values or {MAX_BYTES} bytes")]
    TooLarge,
    /// A value of this type of Lua.
    #[error("a {0} can't be written")]
    Value(&'static str),
    /// A key of this type of Lua.
    #[error("a key that is a {0} can't be written")]
    Key(&'static str),
    #[error(transparent)]
    Lua(#[from] mlua::Error),
}

impl Form {
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "yaml" => Self::Yaml,
            "cjson" => Self::Cjson,
            _ => Self::Json,
        }
    }

    /// Writes a value of Lua as a document.
    ///
    /// # Errors
    /// The value can't be written: it nests too deep, is too large, or is a function, for example.
    pub(super) fn write(self, value: &LuaValue) -> Result<String, DocumentError> {
        let value = self.value_of(value, 0, &mut Budget::default())?;
        Ok(match self {
            Self::Json | Self::Cjson => serde_json::to_string(&value)?,
            Self::Yaml => yaml::written(&value),
        })
    }

    /// Reads a document as a value of Lua.
    ///
    /// # Errors
    /// The text is not a document of this form, it nests too deep, or it is too large.
    pub(super) fn read(self, lua: &Lua, text: &str) -> Result<LuaValue, DocumentError> {
        if text.len() > MAX_BYTES {
            return Err(DocumentError::TooLarge);
        }
        let mut budget = Budget::default();
        let seed = Within(&mut budget);
        let value = match self {
            Self::Json | Self::Cjson => {
                let mut document = serde_json::Deserializer::from_str(text);
                let value = seed.deserialize(&mut document)?;
                document.end()?;
                value
            }
            Self::Yaml => seed.deserialize(serde_norway::Deserializer::from_str(text))?,
        };
        self.to_lua(lua, &value, 0)
    }

    fn nested(self, depth: usize) -> Result<usize, DocumentError> {
        let most = if self == Self::Cjson { MAX_DEPTH_OF_CJSON } else { MAX_DEPTH };
        if depth < most { Ok(depth + 1) } else { Err(DocumentError::TooDeep(most)) }
    }

    fn value_of(
        self,
        value: &LuaValue,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Value, DocumentError> {
        budget.take_value()?;
        Ok(match value {
            LuaValue::Nil => Value::Null,
            value if value.is_null() => Value::Null,
            LuaValue::Boolean(boolean) => Value::Bool(*boolean),
            LuaValue::Integer(integer) => (*integer).into(),
            LuaValue::Number(number) => from_number(*number),
            LuaValue::String(text) => {
                budget.take_bytes(text.as_bytes().len())?;
                Value::String(text.to_string_lossy())
            }
            LuaValue::Table(table) => self.table_of(table, self.nested(depth)?, budget)?,
            other => return Err(DocumentError::Value(other.type_name())),
        })
    }

    /// A table whose only keys are the indices from 1 up is a list, and so is an empty one, but not in cjson.
    fn table_of(
        self,
        table: &Table,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Value, DocumentError> {
        let length = table.raw_len();
        let mut list = Vec::new();
        let mut object = Map::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, value) = pair?;
            let value = self.value_of(&value, depth, budget)?;
            let name = match key {
                LuaValue::String(name) => {
                    budget.take_bytes(name.as_bytes().len())?;
                    name.to_string_lossy()
                }
                LuaValue::Integer(index)
                    if object.is_empty()
                        && index == list.len() as i64 + 1
                        && list.len() < length =>
                {
                    list.push(value);
                    continue;
                }
                LuaValue::Integer(index) => index.to_string(),
                LuaValue::Number(number) => number.to_string(),
                other => return Err(DocumentError::Key(other.type_name())),
            };
            // It is no list: its elements so far have their indices as names.
            let elements = list.drain(..).enumerate();
            object.extend(elements.map(|(index, element)| ((index + 1).to_string(), element)));
            object.insert(name, value);
        }
        let is_list = !list.is_empty() || (object.is_empty() && self != Self::Cjson);
        Ok(if is_list { Value::Array(list) } else { Value::Object(object) })
    }

    fn to_lua(self, lua: &Lua, value: &Value, depth: usize) -> Result<LuaValue, DocumentError> {
        Ok(match value {
            Value::Null if self == Self::Cjson => LuaValue::NULL,
            Value::Null => LuaValue::Nil,
            Value::Bool(boolean) => LuaValue::Boolean(*boolean),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => LuaValue::Integer(integer),
                (None, number) => LuaValue::Number(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => LuaValue::String(lua.create_string(text)?),
            Value::Array(list) => {
                let depth = self.nested(depth)?;
                let values = list.iter().map(|value| self.to_lua(lua, value, depth));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                LuaValue::Table(lua.create_sequence_from(values)?)
            }
            Value::Object(object) => {
                let depth = self.nested(depth)?;
                let entries = object
                    .iter()
                    .map(|(key, value)| Ok((key.as_str(), self.to_lua(lua, value, depth)?)));
                let entries = entries.collect::<Result<Vec<_>, DocumentError>>()?;
                LuaValue::Table(lua.create_table_from(entries)?)
            }
        })
    }
}

/// What a document may still have.
struct Budget {
    values: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { values: MAX_VALUES, bytes: MAX_BYTES }
    }
}

impl Budget {
    fn take_value(&mut self) -> Result<(), DocumentError> {
        self.values = self.values.checked_sub(1).ok_or(DocumentError::TooLarge)?;
        Ok(())
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), DocumentError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(DocumentError::TooLarge)?;
        Ok(())
    }
}

/// Reads a value within a budget: a short text of YAML can stand for a large value.
struct Within<'b>(&'b mut Budget);

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.take_value().map_err(D::Error::custom)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Value, E> {
        Ok(Value::Bool(boolean))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.take_bytes(text.len()).map_err(E::custom)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(Within(&mut *self.0))? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            self.0.take_bytes(name.len()).map_err(A::Error::custom)?;
            object.insert(name, entries.next_value_seed(Within(&mut *self.0))?);
        }
        Ok(Value::Object(object))
    }
}

/// An integral number is written without a fraction, since Lua 5.1 has no integer type.
fn from_number(number: f64) -> Value {
    let integral = number.trunc() == number && number.abs() < 9e15;
    match integral {
        true => Value::from(number as i64),
        false => Number::from_f64(number).map_or(Value::Null, Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(form: Form, text: &str) -> Result<String, DocumentError> {
        let lua = Lua::new();
        form.write(&form.read(&lua, text)?)
    }

    #[test]
    fn documents_are_read_and_written() {
        let text = r#"{"list":[1,2.5,"x"],"yes":true}"#;
        let lua = Lua::new();
        let value = Form::Json.read(&lua, text).unwrap();
        let table = value.as_table().unwrap();
        assert_eq!(table.get::<Table>("list").unwrap().raw_len(), 3);
        assert!(table.get::<bool>("yes").unwrap());
        assert_eq!(round(Form::Json, "[1,[2,{}],\"a\"]").unwrap(), "[1,[2,[]],\"a\"]");
        assert_eq!(round(Form::Cjson, "[{}]").unwrap(), "[{}]");
        let yaml = "%YAML 1.1\n--- !!seq\n- !!float 1.000000\n- !!map\n  !!str a: !!str x\n...\n";
        assert_eq!(round(Form::Yaml, "- 1\n- a: x\n").unwrap(), yaml);
        assert_eq!(round(Form::Yaml, yaml).unwrap(), yaml);
        let three = lua.load("return {4 / 2, [2] = 1}").eval::<LuaValue>().unwrap();
        assert_eq!(Form::Json.write(&three).unwrap(), "[2,1]");
    }

    #[test]
    fn cjson_nests_deeper_and_has_a_null() {
        let deep = "[".repeat(50) + "null" + &"]".repeat(50);
        assert_eq!(round(Form::Cjson, &deep).unwrap(), deep);
        assert!(round(Form::Json, &deep).is_err());
    }

    #[test]
    fn what_stands_for_too_much_is_refused() {
        let lua = Lua::new();
        let written = |form: Form, script: &str| form.write(&lua.load(script).eval().unwrap());
        let shared = "local t = {} for _ = 1, 90 do t = {t, t} end return t";
        let limit = "more than 200000 values or 4194304 bytes";
        assert_eq!(written(Form::Cjson, shared).unwrap_err().to_string(), limit);
        let texts = "local s, t = ('x'):rep(1000000), {} for i = 1, 5 do t[i] = s end return t";
        assert_eq!(written(Form::Json, texts).unwrap_err().to_string(), limit);
        let long = "return ('x'):rep(4000000)";
        assert_eq!(written(Form::Json, long).unwrap().len(), 4_000_002);
        let spaces = " ".repeat(MAX_BYTES) + "1";
        assert_eq!(round(Form::Json, &spaces).unwrap_err().to_string(), limit);
        assert!(round(Form::Json, &format!("[{}1]", "1,".repeat(MAX_VALUES))).is_err());
        let list = |item: &str| format!("[{}]", vec![item; 1000].join(","));
        let anchors = format!("a: &a {}\nb: {}\n", list("x"), list("*a"));
        let refused = round(Form::Yaml, &anchors).unwrap_err().to_string();
        assert!(refused.contains(limit), "{refused}");
    }

    #[test]
    fn a_table_with_other_keys_than_indices_is_an_object() {
        let lua = Lua::new();
        let mixed = lua.load("return {1, {2}, x = 3}").eval::<LuaValue>().unwrap();
        assert_eq!(Form::Json.write(&mixed).unwrap(), r#"{"1":1,"2":[2],"x":3}"#);
    }

    #[test]
    fn what_nests_too_deep_or_is_no_document_is_refused() {
        let deep = "[".repeat(17) + &"]".repeat(17);
        let refused = round(Form::Json, &deep).unwrap_err().to_string();
        assert_eq!(refused, "nested more than 16 levels deep");
        assert!(round(Form::Json, "{").is_err());
        let lua = Lua::new();
        let endless = lua.load("local t = {} t.t = t return t").eval::<LuaValue>().unwrap();
        assert!(matches!(Form::Json.write(&endless), Err(DocumentError::TooDeep(16))));
        let function = lua.load("return {print}").eval::<LuaValue>().unwrap();
        let refused = Form::Json.write(&function).unwrap_err().to_string();
        assert_eq!(refused, "a function can't be written");
    }
}
