//! Typed configuration: a plugin's own table, and named keys of the instance's configuration.

mod error;
mod limits;
#[cfg(test)]
mod messages;
mod read;
#[cfg(test)]
mod samples;
mod schema;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::limits::PolicyLimits;
use self::read::UnknownKeys;
use super::remote::handle::{Remote, SamePlugin};
use crate::host::{ConfError, InitArgs};

/// A plugin's own configuration, as a parameter of `#[init]` and of handlers of `conf.update`: the table
/// `[plugins.NAME]`, overridden key by key by the `conf` that is given when the plugin is loaded or reloaded.
///
/// A handler of `conf.update` takes it to follow a `config reload` while it keeps its state. Without one, a
/// plugin keeps the settings of `#[init]` until `jobtap plugin reload`, and the manager's log says so.
///
/// `C` is any type that is `Deserialize`. A key that a struct doesn't have is refused, and each error
/// names its place:
///
/// ```text
/// [plugins.fairshare]: unknown key "weigths"; did you mean "weights"?
/// [plugins.fairshare]: weights.age: invalid type: string "x", expected f64
/// [plugins.fairshare]: missing key "half_life"
/// ```
///
/// A struct with a `#[serde(flatten)]` field accepts every key. So do the insides of
/// `#[serde(untagged)]` and `#[serde(tag = "..")]` enums, unless they say `deny_unknown_fields`.
///
/// A type that is also [`JsonSchema`] documents its settings: see [`Conf::schema`].
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Deserialize)]
/// struct Settings {
///     half_life: Fsd,
///     #[serde(default)]
///     max_share: Option<u32>,
/// }
///
/// struct Fairshare {
///     settings: Settings,
/// }
///
/// #[jobtap_plugin(name = "fairshare")]
/// impl Fairshare {
///     #[init]
///     fn new(settings: Conf<Settings>) -> Self {
///         Self { settings: settings.into_inner() }
///     }
///
///     #[on("job.state.priority", "job.priority.get")]
///     fn priority(&self, _job: &Job) -> Priority {
///         Priority::new(self.settings.max_share.unwrap_or(self.settings.half_life.as_secs() as u32))
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conf<C>(C);

impl<C> Conf<C> {
    /// The configuration.
    pub fn into_inner(self) -> C {
        self.0
    }
}

impl<C: JsonSchema> Conf<C> {
    /// The JSON Schema (draft 2020-12) of the table, as `jobtap plugin schema` prints it.
    ///
    /// `#[derive(JsonSchema)]` makes it from the fields, their comments and their serde attributes. It omits
    /// names that `#[serde(alias = "..")]` adds.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    /// use schemars::JsonSchema;
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Settings {
    ///     /// Tasks that a job may have.
    ///     max: u8,
    ///     #[serde(default)]
    ///     verbose: bool,
    /// }
    ///
    /// let schema = Conf::<Settings>::schema();
    /// assert_eq!(schema["properties"]["max"]["description"], "Tasks that a job may have.");
    /// assert_eq!(schema["required"], json!(["max"]));
    /// assert_eq!(schema["additionalProperties"], json!(false));
    /// ```
    pub fn schema() -> Value {
        schema::generate::<C>()
    }
}

impl<C> std::ops::Deref for Conf<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

/// The configuration of the whole instance, as a parameter of `#[init]` and of handlers of `conf.update`.
/// `C` names the keys that the plugin reads.
///
/// Other keys are accepted on every level, since they belong to the manager and to other plugins,
/// unless `C` says `#[serde(deny_unknown_fields)]`.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default, Deserialize)]
/// struct Watched {
///     #[serde(default)]
///     site: Site,
/// }
///
/// #[derive(Default, Deserialize)]
/// struct Site {
///     #[serde(default)]
///     max_nodes: Option<u64>,
/// }
///
/// #[derive(Default)]
/// struct Limit {
///     site: Site,
/// }
///
/// #[jobtap_plugin(name = "limit")]
/// impl Limit {
///     #[on("conf.update")]
///     fn conf(&mut self, conf: InstanceConf<Watched>) {
///         self.site = conf.into_inner().site;
///     }
///
///     #[on("job.validate")]
///     fn validate(&self, job: &Job) -> Result<(), Reject> {
///         match self.site.max_nodes {
///             Some(max) if job.jobspec().counts().nnodes > max => Err(Reject::new("too many nodes")),
///             _ => Ok(()),
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceConf<C>(C);

impl<C> InstanceConf<C> {
    /// The configuration.
    pub fn into_inner(self) -> C {
        self.0
    }
}

impl<C: ConfTable> InstanceConf<C> {
    pub(crate) fn read(conf: &Value) -> Result<Self, ConfError> {
        C::read_among_others(conf).map(InstanceConf)
    }
}

impl<C: DeserializeOwned> InstanceConf<C> {
    /// Whether `C` has the key at this path.
    pub(crate) fn has(path: &[&str]) -> bool {
        !read::is_unknown_key::<C>(path)
    }
}

impl<C> std::ops::Deref for InstanceConf<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

/// The directory of the instance's configuration, as a parameter of `#[init]`: names of files in a plugin's
/// table are relative to it.
///
/// ```
/// use std::path::{Path, PathBuf};
///
/// use jobtap_core::prelude::*;
/// use jobtap_core::plugin::ConfDirectory;
///
/// struct Rules {
///     file: PathBuf,
/// }
///
/// #[jobtap_plugin(name = "rules")]
/// impl Rules {
///     #[init]
///     fn new(directory: ConfDirectory) -> Result<Self, ConfError> {
///         Ok(Self { file: directory.resolve(Path::new("rules.txt"))? })
///     }
///
///     #[service("file")]
///     fn file(&self) -> String {
///         self.file.display().to_string()
///     }
/// }
/// # use jobtap_core::testing::TestManager;
/// # let mut m = TestManager::new().plugin::<Rules>().config_directory("/etc/site").start();
/// # let file = m.call_service("rules.file", serde_json::json!({})).unwrap();
/// # assert_eq!(file, "/etc/site/rules.txt");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfDirectory(Option<PathBuf>);

impl ConfDirectory {
    /// The directory of the configuration file, or of the last one if there are several; `None` if the
    /// configuration comes from options only.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// The path of a file: an absolute name as it is, any other relative to the directory.
    ///
    /// # Errors
    /// The name is relative and there is no directory.
    pub fn resolve(&self, name: &Path) -> Result<PathBuf, ConfError> {
        match &self.0 {
            _ if name.is_absolute() => Ok(name.to_owned()),
            Some(directory) => Ok(directory.join(name)),
            None => {
                let name = name.display();
                Err(ConfError::new(format!(
                    "{name}: a relative name needs a configuration in a file; write an absolute one"
                )))
            }
        }
    }
}

/// A type that can be read from a table of the configuration: any that is `Deserialize`. A plugin calls these
/// methods itself for tables that it doesn't get through [`Conf`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read from configuration",
    label = "not `Deserialize`",
    note = "derive it: `#[derive(Deserialize)] #[serde(deny_unknown_fields)]`"
)]
pub trait ConfTable: Sized {
    /// Reads a table that belongs to this type alone, so that an unknown key is an error.
    ///
    /// # Errors
    /// The first error, with its place: dotted keys, `[2]` for an element of an array.
    ///
    /// ```
    /// use jobtap_core::plugin::ConfTable;
    /// use serde_json::json;
    ///
    /// #[derive(Debug, serde::Deserialize)]
    /// struct Settings {
    ///     weights: std::collections::BTreeMap<String, f64>,
    /// }
    ///
    /// let error = Settings::read(&json!({"weigths": {}})).unwrap_err();
    /// assert_eq!(error.text(), "unknown key \"weigths\"; did you mean \"weights\"?");
    /// let error = Settings::read(&json!({"weights": {"age": "x"}})).unwrap_err();
    /// assert_eq!(error.text(), "weights.age: invalid type: string \"x\", expected f64");
    /// ```
    fn read(table: &Value) -> Result<Self, ConfError>;

    /// Reads a table that contains keys of others too, and ignores unknown keys.
    ///
    /// # Errors
    /// Those of [`read`](ConfTable::read) except unknown keys.
    fn read_among_others(table: &Value) -> Result<Self, ConfError>;

    /// The unknown keys of a table, which [`read`](ConfTable::read) would refuse: for a plugin that warns of
    /// them, or words the error itself. Empty for a value that isn't a table. Inner tables are not checked.
    ///
    /// ```
    /// use jobtap_core::plugin::ConfTable;
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Settings {
    ///     max: u8,
    /// }
    ///
    /// assert_eq!(Settings::unknown_keys(&json!({"min": 0, "max": "x"})), ["min"]);
    /// ```
    fn unknown_keys(table: &Value) -> Vec<&str>;
}

#[diagnostic::do_not_recommend]
impl<C: DeserializeOwned> ConfTable for C {
    fn read(table: &Value) -> Result<Self, ConfError> {
        read::read(table, UnknownKeys::Refused).map_err(ConfError::from)
    }

    fn read_among_others(table: &Value) -> Result<Self, ConfError> {
        read::read(table, UnknownKeys::Accepted).map_err(ConfError::from)
    }

    fn unknown_keys(table: &Value) -> Vec<&str> {
        let keys = table.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        keys.filter(|key| read::is_unknown_key::<C>(&[*key])).collect()
    }
}

/// Types that `#[init]` of plugin `P` may take.
#[diagnostic::on_unimplemented(
    message = "`#[init]` can't take `{Self}`",
    label = "not a parameter of `#[init]`",
    note = "`#[init]` takes `Conf<C>`, `InstanceConf<C>`, `ConfDirectory` and `Remote<Self>`"
)]
pub trait FromInit<P>: Sized {
    /// Takes the parameter from the arguments of `#[init]`.
    ///
    /// # Errors
    /// When the configuration can't be read as the parameter's type; the text names the table.
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError>;
}

impl<P, C: ConfTable> FromInit<P> for Conf<C> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        Conf::read(args.conf, args.name)
    }
}

impl<C: ConfTable> Conf<C> {
    /// Reads the table of the plugin of this name.
    pub(crate) fn read(table: &Value, name: &str) -> Result<Self, ConfError> {
        C::read(table).map(Conf).map_err(|error| error.in_table(&format!("plugins.{name}")))
    }
}

impl<P, C: ConfTable> FromInit<P> for InstanceConf<C> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        InstanceConf::read(args.instance_conf)
    }
}

impl<P> FromInit<P> for ConfDirectory {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        Ok(Self(args.conf_directory.map(Path::to_owned)))
    }
}

impl<P, Q: SamePlugin<P>> FromInit<P> for Remote<Q> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        Ok(Remote::new(args.remote.clone()))
    }
}

/// Types that `#[init]` of plugin `P` may return.
#[diagnostic::on_unimplemented(
    message = "`#[init]` must return the plugin, not `{Self}`",
    label = "not the plugin",
    note = "return `Self`, or `Result<Self, ConfError>` when it can fail"
)]
pub trait IntoInit<P> {
    /// Converts the return value of `#[init]`.
    ///
    /// # Errors
    /// The error of `#[init]` itself.
    fn into_init(self) -> Result<P, ConfError>;
}

impl<P> IntoInit<P> for P {
    fn into_init(self) -> Result<P, ConfError> {
        Ok(self)
    }
}

impl<P> IntoInit<P> for Result<P, ConfError> {
    fn into_init(self) -> Result<P, ConfError> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::host::{NoReturn, PluginKey, RemoteHandle};

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Settings {
        half_life: u8,
        weights: u8,
    }

    struct Plugin;

    fn init<T: FromInit<Plugin>>(conf: &Value) -> Result<T, ConfError> {
        T::from_init(&InitArgs {
            name: "fairshare",
            conf,
            instance_conf: conf,
            conf_directory: Some(Path::new("/etc/jobtap")),
            remote: RemoteHandle::new(PluginKey(1), "fairshare".into(), Arc::new(NoReturn)),
        })
    }

    #[test]
    fn an_error_in_the_own_table_names_the_table() {
        let conf = json!({"weigths": 1});
        let error = init::<Conf<Settings>>(&conf).unwrap_err();
        assert_eq!(
            error.text(),
            "[plugins.fairshare]: unknown key \"weigths\"; did you mean \"weights\"?"
        );
    }

    #[test]
    fn names_of_files_are_relative_to_the_directory_of_the_configuration() {
        let directory = init::<ConfDirectory>(&json!({})).unwrap();
        let resolved = |directory: &ConfDirectory, name: &str| directory.resolve(Path::new(name));
        assert_eq!(resolved(&directory, "a.lua").unwrap(), Path::new("/etc/jobtap/a.lua"));
        assert_eq!(resolved(&directory, "/b/a.lua").unwrap(), Path::new("/b/a.lua"));
        let none = ConfDirectory(None);
        assert_eq!(resolved(&none, "/b").unwrap(), Path::new("/b"));
        assert_eq!(
            resolved(&none, "a").unwrap_err().text(),
            "a: a relative name needs a configuration in a file; write an absolute one"
        );
    }

    #[test]
    fn the_instance_configuration_may_have_other_keys() {
        let conf = json!({"half_life": 1, "weights": 2, "policy": {}});
        assert_eq!(init::<InstanceConf<Settings>>(&conf).unwrap().weights, 2);
        let error = init::<InstanceConf<Settings>>(&json!({"weigths": 1})).unwrap_err();
        assert_eq!(error.text(), "missing key \"half_life\"");
    }

    #[test]
    fn unknown_keys_are_those_that_a_struct_would_refuse() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct Outer {
            #[serde(rename = "inner-table", alias = "inner")]
            table: Settings,
            list: Vec<Settings>,
        }
        let conf = json!({"inner-table": {"no": 1}, "inner": 5, "list": null, "lst": 1, "No": {}});
        assert_eq!(Outer::unknown_keys(&conf), ["lst", "No"]);
        assert!(Outer::unknown_keys(&json!([1])).is_empty());
        // A map accepts every key.
        assert!(<Map<String, Value>>::unknown_keys(&conf).is_empty());
        assert!(<Option<std::collections::BTreeMap<String, u8>>>::unknown_keys(&conf).is_empty());
        assert_eq!(<Option<Outer>>::unknown_keys(&conf), ["lst", "No"]);
    }
}
