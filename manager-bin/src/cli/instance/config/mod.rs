//! `config`: prints, replaces or changes the manager's configuration.

mod check;

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use jobtap_core::job::Fsd;
use serde_json::Value;

use crate::cli::common::message::{CliError, Prog, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::daemon::config::{self, ConfigError};
use crate::files::input;
use crate::rpc::service::Service;
use crate::rpc::services::config::{Get, Load, Loaded, Reload};
use crate::shown;

const COMMAND: &str = "config";

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Print the configuration, or a value of it
    Get(GetArgs),
    /// Replace the configuration
    Load(LoadArgs),
    /// Load the configuration files and options of the manager's start again
    Reload,
    /// Change one value
    Set(SetArgs),
    /// Remove one value
    Unset(UnsetArgs),
    /// Show the mistakes in configuration files, each at its line
    Check(check::CheckArgs),
}

/// Options and arguments of `config get`.
#[derive(Debug, clap::Args)]
struct GetArgs {
    /// Required type: string, integer, real, boolean, object, array, any, fsd, fsd-integer, fsd-real
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Print no error if the value is not set
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print this if the value is not set
    #[arg(short = 'd', long, value_name = "VALUE")]
    default: Option<String>,
    /// Read this file or directory instead of the manager's configuration
    #[arg(short = 'c', long, value_name = "PATH")]
    config_path: Option<PathBuf>,
    /// Dotted name [default: the whole configuration]
    #[arg(value_name = "KEY")]
    key: Option<String>,
}

/// Arguments of `config load`.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// TOML or JSON file, or a directory of such files [default: stdin]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
}

/// Options and arguments of `config set`.
#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Type of VALUE, as for get; without it, that of the present value, or JSON or a string for a new key
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Dotted name
    #[arg(value_name = "KEY")]
    key: String,
    /// New value
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: String,
}

/// Arguments of `config unset`.
#[derive(Debug, clap::Args)]
struct UnsetArgs {
    /// Dotted name
    #[arg(value_name = "KEY")]
    key: String,
}

/// Runs the command.
pub(crate) fn run(args: ConfigArgs) -> ExitCode {
    session::run(COMMAND, Family::Compiled, async {
        match args.command {
            ConfigCommand::Get(args) => get(&args).await,
            ConfigCommand::Load(args) => {
                change("load", Load(read(&args).map_err(CliError::failure)?)).await
            }
            ConfigCommand::Reload => change("reload", Reload {}).await,
            ConfigCommand::Set(args) => set(&args).await,
            ConfigCommand::Unset(args) => unset(&args).await,
            ConfigCommand::Check(args) => check::run(&args),
        }
    })
}

/// Sends a request that changes the configuration, and reports what has no effect, or not yet. Errors name the
/// subcommand.
async fn change(
    subcommand: &str,
    request: impl Service<Response = Loaded>,
) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let response = client.call(request).await;
    let loaded = response.map_err(|error| CliError::failure(format!("{subcommand}: {error}")))?;
    let prog = Prog::current();
    for note in loaded.notes {
        let line = prog.warning(COMMAND, format_args!("{subcommand}: {note}"));
        session::print_message(&shown::lines(&line));
    }
    Ok(0)
}

async fn set(args: &SetArgs) -> Result<u8, CliError> {
    let kind: Option<Kind> = args.kind.as_deref().map(str::parse).transpose()?;
    // The configuration is read, changed and loaded as a whole: a change by another client in between is
    // lost.
    let mut config = Client::connect().await?.call(Get {}).await?;
    let kind = kind.or_else(|| find(&config, &args.key).map(Kind::from_value)).unwrap_or(Kind::Any);
    let value = kind.read(&args.value).map_err(CliError::failure)?;
    let nested = config::nest(&args.key, value)
        .ok_or_else(|| CliError::failure(format!("set: {} is not a dotted name", args.key)))?;
    config::merge(&mut config, nested);
    change("set", Load(config)).await
}

async fn unset(args: &UnsetArgs) -> Result<u8, CliError> {
    let mut config = Client::connect().await?.call(Get {}).await?;
    match remove(&mut config, &args.key) {
        true => change("unset", Load(config)).await,
        // As in Flux, this is not an error: the value is unset, as requested.
        false => Ok(0),
    }
}

/// Removes the value with a dotted name. Returns false if there was none.
fn remove(config: &mut Value, key: &str) -> bool {
    let (table, name) = match key.rsplit_once('.') {
        Some((path, name)) => {
            let pointer = format!("/{}", path.replace('.', "/"));
            (config.pointer_mut(&pointer), name)
        }
        None => (Some(config), key),
    };
    let table = table.and_then(Value::as_object_mut);
    table.is_some_and(|table| table.shift_remove(name).is_some())
}

/// Why the configuration to load can't be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    /// There is no such file. In Flux's words.
    #[error("Error parsing config: stat: {}: {}", path.display(), system_text(reason))]
    NoFile { path: PathBuf, reason: io::Error },
    #[error("Error parsing config: {0}")]
    File(ConfigError),
    #[error("stdin: {0}")]
    Stdin(io::Error),
    #[error("TOML parse error: {0}")]
    StdinText(ConfigError),
}

fn read(args: &LoadArgs) -> Result<Value, ReadError> {
    if let Some(path) = &args.path {
        return config::load(path).map_err(|error| match error {
            ConfigError::Read { path, reason } if reason.kind() == ErrorKind::NotFound => {
                ReadError::NoFile { path, reason }
            }
            error => ReadError::File(error),
        });
    }
    let text = input::stdin_text().map_err(ReadError::Stdin)?;
    config::parse("stdin", &text).map_err(ReadError::StdinText)
}

async fn get(args: &GetArgs) -> Result<u8, CliError> {
    let kind: Kind = args.kind.as_deref().unwrap_or("any").parse()?;
    let config = match &args.config_path {
        Some(path) => config::load(path).map_err(CliError::failure)?,
        None => Client::connect().await?.call(Get {}).await?,
    };
    let (key, found) = match &args.key {
        None => ("", Some(&config)),
        Some(key) => (key.as_str(), named(&config, key)?),
    };
    let text = match (found, &args.default) {
        (Some(value), _) => kind
            .show(value)
            .ok_or_else(|| CliError::failure(format!("{key} does not have the requested type")))?,
        (None, Some(default)) => default.clone(),
        (None, None) if args.quiet => return Ok(1),
        (None, None) => return Err(CliError::failure(format!("{key} is not set"))),
    };
    session::print(&format!("{text}\n"))?;
    Ok(0)
}

/// The value with a dotted name. As in Flux, an empty part of the name is an error if the table before it exists; a
/// name below a table that doesn't exist is simply not set.
fn named<'a>(config: &'a Value, key: &str) -> Result<Option<&'a Value>, CliError> {
    let mut value = config;
    for part in key.split('.') {
        if part.is_empty() {
            return Err(CliError::failure(format!("{key}: Invalid argument")));
        }
        match value.get(part) {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn find<'a>(config: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(config, |inner, part| inner.get(part))
}

/// A text that can't be parsed as the type of this name.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("Error parsing {0}")]
struct NotOfType(&'static str);

/// The types of `--type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Text,
    Integer,
    Real,
    Boolean,
    Object,
    Array,
    Fsd,
    FsdInteger,
    FsdReal,
}

impl std::str::FromStr for Kind {
    type Err = CliError;

    fn from_str(text: &str) -> Result<Self, CliError> {
        Ok(match text {
            "any" => Kind::Any,
            "string" => Kind::Text,
            "integer" => Kind::Integer,
            "real" => Kind::Real,
            "boolean" => Kind::Boolean,
            "object" => Kind::Object,
            "array" => Kind::Array,
            "fsd" => Kind::Fsd,
            "fsd-integer" => Kind::FsdInteger,
            "fsd-real" => Kind::FsdReal,
            _ => return Err(CliError::failure(format!("Unknown type: {text}"))),
        })
    }
}

impl Kind {
    /// The type of a value.
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Kind::Any,
            Value::Bool(_) => Kind::Boolean,
            Value::Number(number) if number.is_f64() => Kind::Real,
            Value::Number(_) => Kind::Integer,
            Value::String(_) => Kind::Text,
            Value::Array(_) => Kind::Array,
            Value::Object(_) => Kind::Object,
        }
    }

    /// Parses a text as this type. The text of the error is Flux's.
    fn read(self, text: &str) -> Result<Value, NotOfType> {
        let json = serde_json::from_str::<Value>(text).ok();
        let quoted = json.clone().filter(Value::is_string);
        let (value, what) = match self {
            Kind::Any => (json.or_else(|| Some(text.into())), "value"),
            Kind::Text => (quoted.or_else(|| Some(text.into())), "string"),
            Kind::Fsd | Kind::FsdInteger | Kind::FsdReal => {
                (quoted.or_else(|| Some(text.into())), "Flux Standard Duration")
            }
            // A whole number is a real value too.
            Kind::Real => (text.parse::<f64>().ok().map(Value::from), "real value"),
            Kind::Integer => (json, "integer value"),
            Kind::Boolean => (json, "boolean value"),
            Kind::Object => (json, "json object"),
            Kind::Array => (json, "json array"),
        };
        value.filter(|value| self.show(value).is_some()).ok_or(NotOfType(what))
    }

    /// The text of a value: a string without quotes, any other value as JSON. `None` if the value doesn't have this
    /// type.
    fn show(self, value: &Value) -> Option<String> {
        let fsd = || value.as_str().and_then(|text| text.parse::<Fsd>().ok());
        let bare = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let fits = match self {
            Kind::Any => true,
            Kind::Text => value.is_string(),
            Kind::Integer => value.is_i64() || value.is_u64(),
            Kind::Real => value.is_f64(),
            Kind::Boolean => value.is_boolean(),
            Kind::Object => value.is_object(),
            Kind::Array => value.is_array(),
            Kind::Fsd => fsd().is_some(),
            Kind::FsdInteger => return fsd().map(|fsd| format!("{:.0}", fsd.as_secs().trunc())),
            Kind::FsdReal => return fsd().map(|fsd| format!("{:.6}", fsd.as_secs())),
        };
        fits.then(bare)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn show(kind: &str, value: Value) -> Option<String> {
        kind.parse::<Kind>().unwrap().show(&value)
    }

    #[test]
    fn strings_are_printed_without_quotes() {
        assert_eq!(show("any", json!("a b")).unwrap(), "a b");
        assert_eq!(show("any", json!({"a": [1]})).unwrap(), r#"{"a":[1]}"#);
        assert_eq!(show("boolean", json!(true)).unwrap(), "true");
    }

    #[test]
    fn an_empty_part_of_a_name_is_no_name_where_its_table_is_there() {
        let config = json!({"a": {"b": 1}});
        for bad in ["", ".", ".a", "a.", "a..b"] {
            let text = format!("{bad}: Invalid argument");
            assert_eq!(named(&config, bad).unwrap_err().text, text);
        }
        for (key, found) in [("a.b", Some(json!(1))), ("a.c", None), ("c.", None), ("c..d", None)] {
            assert_eq!(named(&config, key).unwrap(), found.as_ref(), "{key}");
        }
    }

    #[test]
    fn a_value_must_have_the_requested_type() {
        assert_eq!(show("integer", json!(1.5)), None);
        assert_eq!(show("string", json!(1)), None);
        assert_eq!(show("fsd", json!("1.5m")).unwrap(), "1.5m");
        assert_eq!(show("fsd-integer", json!("1.5m")).unwrap(), "90");
        assert_eq!(show("fsd-real", json!("0.5s")).unwrap(), "0.500000");
        assert_eq!(show("fsd", json!("soon")), None);
        assert_eq!("nosuch".parse::<Kind>().unwrap_err().text, "Unknown type: nosuch");
    }

    #[test]
    fn a_text_is_parsed_as_the_requested_type() {
        let read = |kind: &str, text: &str| kind.parse::<Kind>().unwrap().read(text);
        for (kind, text, value) in [
            ("any", "5", json!(5)),
            ("any", "5m", json!("5m")),
            ("string", "5", json!("5")),
            ("string", "\"5\"", json!("5")),
            ("real", "5", json!(5.0)),
            ("fsd", "5m", json!("5m")),
            ("array", "[1]", json!([1])),
        ] {
            assert_eq!(read(kind, text), Ok(value), "{kind}");
        }
        for (kind, text, what) in [
            ("integer", "5.5", "integer value"),
            ("real", "x", "real value"),
            ("boolean", "1", "boolean value"),
            ("object", "[]", "json object"),
            ("array", "{}", "json array"),
            ("fsd", "soon", "Flux Standard Duration"),
        ] {
            let error = read(kind, text).unwrap_err().to_string();
            assert_eq!(error, format!("Error parsing {what}"), "{kind}");
        }
    }

    #[test]
    fn a_present_value_says_which_type_a_new_one_has() {
        for value in [json!(true), json!(5), json!(1.5), json!("x"), json!([1]), json!({"a": 1})] {
            let shown = Kind::from_value(&value).show(&value).unwrap();
            assert_eq!(Kind::from_value(&value).read(&shown), Ok(value));
        }
        assert_eq!(Kind::from_value(&json!("10m")).read("5"), Ok(json!("5")));
        assert!(Kind::from_value(&json!(5)).read("nosuch").is_err());
    }

    #[test]
    fn a_value_is_removed_by_its_dotted_name() {
        let mut config = json!({"a": {"b": 1, "c": 2}, "d": 3});
        assert!(remove(&mut config, "a.b") && remove(&mut config, "d"));
        assert!(!remove(&mut config, "a.x") && !remove(&mut config, "x.y"));
        assert_eq!(config, json!({"a": {"c": 2}}));
    }

    #[test]
    fn a_value_is_found_by_its_dotted_name() {
        let config = json!({"a": {"b": 1}});
        assert_eq!(find(&config, "a.b"), Some(&json!(1)));
        assert_eq!(find(&config, "a.c"), None);
        assert_eq!(find(&config, "a.b.c"), None);
    }
}
