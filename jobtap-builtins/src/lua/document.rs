//! JSON and YAML, for `slurm.to_json`, `slurm.from_json`, `slurm.to_yaml` and `slurm.from_yaml`.

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

use super::yaml;

/// How deep tables and documents may nest in Slurm.
const MAX_DEPTH: usize = 16;

/// How deep they may nest in the module cjson.
const MAX_DEPTH_OF_CJSON: usize = 100;

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
    /// The value can't be written: it nests too deep, or is a function, for example.
    pub(super) fn write(self, value: &LuaValue) -> Result<String, DocumentError> {
        let value = self.value_of(value, 0)?;
        Ok(match self {
            Self::Json | Self::Cjson => serde_json::to_string(&value)?,
            Self::Yaml => yaml::written(&value),
        })
    }

    /// Reads a document as a value of Lua.
    ///
    /// # Errors
    /// The text is not a document of this form, or it nests too deep.
    pub(super) fn read(self, lua: &Lua, text: &str) -> Result<LuaValue, DocumentError> {
        let value: Value = match self {
            Self::Json | Self::Cjson => serde_json::from_str(text)?,
            Self::Yaml => serde_norway::from_str(text)?,
        };
        self.to_lua(lua, &value, 0)
    }

    fn nested(self, depth: usize) -> Result<usize, DocumentError> {
        let most = if self == Self::Cjson { MAX_DEPTH_OF_CJSON } else { MAX_DEPTH };
        if depth < most { Ok(depth + 1) } else { Err(DocumentError::TooDeep(most)) }
    }

    fn value_of(self, value: &LuaValue, depth: usize) -> Result<Value, DocumentError> {
        Ok(match value {
            LuaValue::Nil => Value::Null,
            value if value.is_null() => Value::Null,
            LuaValue::Boolean(boolean) => Value::Bool(*boolean),
            LuaValue::Integer(integer) => (*integer).into(),
            LuaValue::Number(number) => from_number(*number),
            LuaValue::String(text) => Value::String(text.to_string_lossy()),
            LuaValue::Table(table) => self.table_of(table, self.nested(depth)?)?,
            other => return Err(DocumentError::Value(other.type_name())),
        })
    }

    /// A table whose only keys are the indices from 1 up is a list.
    fn table_of(self, table: &Table, depth: usize) -> Result<Value, DocumentError> {
        let length = table.raw_len();
        let mut list = Vec::new();
        let mut object = Map::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, value) = pair?;
            let value = self.value_of(&value, depth)?;
            let name = match key {
                LuaValue::String(name) => name.to_string_lossy(),
                LuaValue::Integer(index) => {
                    if index == list.len() as i64 + 1 && list.len() < length {
                        list.push(value.clone());
                    }
                    index.to_string()
                }
                LuaValue::Number(number) => number.to_string(),
                other => return Err(DocumentError::Key(other.type_name())),
            };
            object.insert(name, value);
        }
        let is_list = !list.is_empty() && list.len() == object.len();
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
        assert_eq!(round(Form::Json, "[1,[2,{}],\"a\"]").unwrap(), "[1,[2,{}],\"a\"]");
        let yaml = "%YAML 1.1\n--- !!seq\n- !!float 1.000000\n- !!map\n  a: !!str x\n";
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
