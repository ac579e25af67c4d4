//! Typed configuration: a plugin's own table, and named keys of the whole instance's.

mod access;
mod enums;
mod error;
mod probe;
mod read;
#[cfg(test)]
mod samples;
mod schema;
mod tables;
#[cfg(test)]
mod validate;

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::read::Strays;
use super::failure::ConfError;

/// A plugin's own configuration, for `#[init]`: the `conf` given at load over the table
/// `[plugins.NAME]`.
///
/// `C` says what may stand there, by `#[derive(Deserialize)]` and no more. A key that a struct in it
/// doesn't know is refused, and every mistake is told with its place:
///
/// ```text
/// [plugins.fairshare]: unknown key "weigths"; did you mean "weights"?
/// [plugins.fairshare]: weights.age: invalid type: string "x", expected f64
/// [plugins.fairshare]: missing key "half_life"
/// ```
///
/// A struct with a `#[serde(flatten)]` field takes every key, and so does what serde reads by trying:
/// inside `#[serde(untagged)]` and `#[serde(tag = "..")]` enums, write `deny_unknown_fields`.
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

impl<C> std::ops::Deref for Conf<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

/// The whole instance's configuration, for `#[init]` and `conf.update`: `C` names the keys that the
/// plugin reads.
///
/// Other keys may stand beside them on every level, since they are other plugins' and the
/// manager's, unless `C` says `#[serde(deny_unknown_fields)]`.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default, Deserialize)]
/// struct Watched {
///     #[serde(default)]
///     policy: Policy,
/// }
///
/// #[derive(Default, Deserialize)]
/// struct Policy {
///     #[serde(default)]
///     max_nodes: Option<u64>,
/// }
///
/// #[derive(Default)]
/// struct Limit {
///     policy: Policy,
/// }
///
/// #[jobtap_plugin(name = "limit")]
/// impl Limit {
///     #[on("conf.update")]
///     fn conf(&mut self, conf: InstanceConf<Watched>) {
///         self.policy = conf.into_inner().policy;
///     }
///
///     #[on("job.validate")]
///     fn validate(&self, job: &Job) -> Result<(), Reject> {
///         match self.policy.max_nodes {
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

impl<C> std::ops::Deref for InstanceConf<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

/// What `#[init]` is given.
#[derive(Clone)]
pub struct InitArgs<'a> {
    /// The plugin's name, for messages.
    pub name: &'a str,
    /// The plugin's own table, an object.
    pub conf: &'a Value,
    /// The instance's configuration, an object.
    pub instance_conf: &'a Value,
    /// The way back from work outside the manager's thread.
    pub remote: super::remote::RemoteHandle,
}

/// A type that a table of the configuration can be read as: any that is `Deserialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be read from configuration",
    label = "not `Deserialize`",
    note = "derive it: `#[derive(Deserialize)] #[serde(deny_unknown_fields)]`"
)]
pub trait ConfTable: Sized {
    /// Reads it from a table of its own, where a key that it doesn't know is a mistake.
    ///
    /// # Errors
    /// The first mistake, with its place: dotted keys, `[2]` for an element of an array.
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

    /// Reads it from a table where keys of others stand too.
    ///
    /// # Errors
    /// As of [`read`](ConfTable::read), but for the keys that it doesn't know.
    fn read_among_others(table: &Value) -> Result<Self, ConfError>;

    /// What [`read`](ConfTable::read) accepts, as a JSON Schema (draft 2020-12), found by watching
    /// what the type asks of serde.
    ///
    /// It never refuses what the type accepts, but may accept more: what can't be seen that way
    /// (what a text must look like, the insides of `untagged` and `tag`ged enums, the optional keys
    /// of a struct with `flatten`) is left open.
    ///
    /// ```
    /// use jobtap_core::plugin::ConfTable;
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Settings {
    ///     max: u8,
    ///     #[serde(default)]
    ///     verbose: bool,
    /// }
    ///
    /// assert_eq!(
    ///     Settings::schema(),
    ///     json!({
    ///         "type": "object",
    ///         "properties": {
    ///             "max": {"type": "integer", "minimum": 0, "maximum": 255},
    ///             "verbose": {"type": "boolean"}
    ///         },
    ///         "required": ["max"],
    ///         "additionalProperties": false
    ///     })
    /// );
    /// ```
    fn schema() -> Value;
}

#[diagnostic::do_not_recommend]
impl<C: DeserializeOwned> ConfTable for C {
    fn read(table: &Value) -> Result<Self, ConfError> {
        read::read(table, Strays::Refused).map_err(ConfError::from)
    }

    fn read_among_others(table: &Value) -> Result<Self, ConfError> {
        read::read(table, Strays::Accepted).map_err(ConfError::from)
    }

    fn schema() -> Value {
        schema::of::<C>()
    }
}

/// Types that `#[init]` of plugin `P` may take.
#[diagnostic::on_unimplemented(
    message = "`#[init]` can't take `{Self}`",
    label = "not a parameter of `#[init]`",
    note = "`#[init]` takes `Conf<C>`, `InstanceConf<C>` and `Remote<Self>`"
)]
pub trait FromInit<P>: Sized {
    /// Takes the parameter.
    ///
    /// # Errors
    /// When the configuration is not what the type asks for; the text names the table.
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError>;

    /// The JSON Schema (draft 2020-12) of the plugin's own table, of the parameter that reads it.
    fn schema() -> Option<Value> {
        None
    }
}

impl<P, C: ConfTable> FromInit<P> for Conf<C> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        C::read(args.conf)
            .map(Conf)
            .map_err(|error| ConfError::new(format!("[plugins.{}]: {error}", args.name)))
    }

    fn schema() -> Option<Value> {
        Some(C::schema())
    }
}

impl<P, C: ConfTable> FromInit<P> for InstanceConf<C> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        InstanceConf::read(args.instance_conf)
    }
}

impl<P: 'static> FromInit<P> for super::remote::Remote<P> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        Ok(super::remote::Remote::new(args.remote.clone()))
    }
}

/// Types that `#[init]` of plugin `P` may return.
#[diagnostic::on_unimplemented(
    message = "`#[init]` must return the plugin, not `{Self}`",
    label = "not the plugin",
    note = "return `Self`, or `Result<Self, ConfError>` when it can fail"
)]
pub trait IntoInit<P> {
    /// Makes the result.
    ///
    /// # Errors
    /// Those of `#[init]` itself.
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
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Fairshare {
        half_life: crate::job::Fsd,
        weights: Weights,
        #[serde(default)]
        accounts: BTreeMap<String, Vec<Share>>,
        #[serde(default)]
        mode: Mode,
        #[serde(default)]
        by_mode: BTreeMap<Mode, u32>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Weights {
        age: f64,
        #[serde(default, alias = "users")]
        user: Option<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Share {
        name: String,
        share: u32,
    }

    #[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        #[default]
        Fast,
        Slow,
        Limit(u8),
        Between {
            low: u8,
            high: u8,
        },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Closed {
        policy: Option<u8>,
        queues: Option<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
    enum Rule {
        Cap { most: u8 },
    }

    fn valid() -> Value {
        json!({"half_life": "1d", "weights": {"age": 1}})
    }

    /// The text for a valid table with one key put into it, over what may stand there.
    fn refused(key: &str, value: Value) -> String {
        let mut table = valid();
        table[key] = value;
        Fairshare::read(&table).unwrap_err().text().to_owned()
    }

    #[test]
    fn reads_what_the_type_says() {
        let mut table = valid();
        table["accounts"] = json!({"chem": [{"name": "ada", "share": 3}]});
        table["mode"] = json!({"limit": 3});
        table["by_mode"] = json!({"slow": 2});
        let read = Fairshare::read(&table).unwrap();
        assert_eq!(read.weights.age, 1.0);
        assert_eq!(read.accounts["chem"][0].share, 3);
        assert_eq!(read.mode, Mode::Limit(3));
        assert_eq!(read.by_mode[&Mode::Slow], 2);
    }

    #[test]
    fn the_first_word_names_the_table() {
        struct Plugin;
        let args = InitArgs {
            name: "fairshare",
            conf: &json!({"weigths": {}}),
            instance_conf: &json!({"weigths": {}}),
            remote: crate::plugin::RemoteHandle::new(
                crate::plugin::PluginKey(1),
                "fairshare".into(),
                std::sync::Arc::new(Nowhere),
            ),
        };
        struct Nowhere;
        impl crate::plugin::RemoteSink for Nowhere {
            fn send(&self, _: crate::plugin::RemoteCall) {}
        }
        let own = <Conf<Fairshare> as FromInit<Plugin>>::from_init(&args).unwrap_err();
        assert_eq!(
            own.text(),
            "[plugins.fairshare]: unknown key \"weigths\"; did you mean \"weights\"?"
        );
        let whole = <InstanceConf<Fairshare> as FromInit<Plugin>>::from_init(&args).unwrap_err();
        assert_eq!(whole.text(), "missing key \"half_life\"");
        assert!(<Conf<Fairshare> as FromInit<Plugin>>::schema().is_some());
        assert!(<InstanceConf<Fairshare> as FromInit<Plugin>>::schema().is_none());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_or_all() {
        assert_eq!(
            refused("weigths", json!({})),
            "unknown key \"weigths\"; did you mean \"weights\"?"
        );
        assert_eq!(
            refused("preemption", json!(true)),
            "unknown key \"preemption\": the keys are half_life, weights, accounts, mode, by_mode"
        );
        assert_eq!(
            refused("weights", json!({"age": 1, "agee": 2})),
            "unknown key \"weights.agee\"; did you mean \"weights.age\"?"
        );
        assert_eq!(
            refused(
                "accounts",
                json!({"a b": [{"name": "x", "share": 1, "limit": 2}]})
            ),
            "unknown key accounts.\"a b\"[0].limit: the keys are name, share"
        );
        assert_eq!(
            refused("mode", json!({"between": {"low": 1, "hihg": 2}})),
            "unknown key \"mode.between.hihg\"; did you mean \"mode.between.high\"?"
        );
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_nearest_or_all() {
        assert_eq!(
            refused("mode", json!("fsat")),
            "mode: unknown value \"fsat\"; did you mean \"fast\"?"
        );
        assert_eq!(
            refused("mode", json!("whatever")),
            "mode: unknown value \"whatever\": the values are fast, slow, limit, between"
        );
        assert_eq!(
            refused("mode", json!({"limt": 1})),
            "unknown key \"mode.limt\"; did you mean \"mode.limit\"?"
        );
        assert_eq!(
            refused("by_mode", json!({"fsat": 1})),
            "unknown key \"by_mode.fsat\"; did you mean \"by_mode.fast\"?"
        );
    }

    #[test]
    fn every_other_mistake_names_its_place() {
        let cases = [
            (
                "weights",
                json!({"age": "x"}),
                "weights.age: invalid type: string \"x\", expected f64",
            ),
            (
                "weights",
                json!(5),
                "weights: invalid type: integer `5`, expected a table",
            ),
            (
                "weights",
                json!([1, 2]),
                "weights: invalid type: array, expected a table",
            ),
            ("weights", json!({}), "missing key \"weights.age\""),
            (
                "weights",
                json!({"age": 1, "user": 300}),
                "weights.user: invalid value: integer `300`, expected u8",
            ),
            (
                "weights",
                json!({"age": 1, "user": 3, "users": 3}),
                "\"weights.user\" is given twice",
            ),
            (
                "accounts",
                json!({"chem": [{"name": "x", "share": 1}, {"name": 2}]}),
                "accounts.chem[1].name: invalid type: integer `2`, expected a string",
            ),
            (
                "accounts",
                json!({"chem": {}}),
                "accounts.chem: invalid type: table, expected an array",
            ),
            (
                "mode",
                json!(7),
                "mode: invalid type: integer `7`, expected one of fast, slow, limit, between",
            ),
            (
                "mode",
                json!("limit"),
                "mode: \"limit\" needs a value: { limit = .. }",
            ),
            (
                "mode",
                json!({"fast": 1}),
                "mode.fast: invalid type: integer `1`, expected the name alone",
            ),
            (
                "mode",
                json!({"fast": 1, "slow": 2}),
                "mode: invalid length 2, expected one of the keys fast, slow, limit, between",
            ),
        ];
        for (key, value, text) in cases {
            assert_eq!(refused(key, value), text);
        }
        let text = refused("half_life", json!("x"));
        assert!(text.starts_with("half_life: ") && text.len() > 12, "{text}");
    }

    #[test]
    fn a_missing_key_is_not_hidden_by_a_misspelt_one() {
        let error = Fairshare::read(&json!({"half_lfe": 1, "weights": {"age": 1}})).unwrap_err();
        assert_eq!(
            error.text(),
            "unknown key \"half_lfe\"; did you mean \"half_life\"?"
        );
        let error = Fairshare::read(&json!({})).unwrap_err();
        assert_eq!(error.text(), "missing key \"half_life\"");
    }

    #[test]
    fn keys_of_others_may_stand_in_the_whole_configuration() {
        let mut table = valid();
        table["queues"] = json!({});
        table["weights"]["colour"] = json!(1);
        assert_eq!(
            Fairshare::read_among_others(&table).unwrap(),
            Fairshare::read(&valid()).unwrap()
        );
        table["weights"]["age"] = json!(null);
        let error = Fairshare::read_among_others(&table).unwrap_err();
        assert_eq!(
            error.text(),
            "weights.age: invalid type: null, expected f64"
        );
    }

    #[test]
    fn the_author_can_close_a_struct() {
        let text = "unknown key \"polcy\"; did you mean \"policy\"?";
        let table = json!({"polcy": 1});
        assert_eq!(Closed::read(&table).unwrap_err().text(), text);
        assert_eq!(Closed::read_among_others(&table).unwrap_err().text(), text);
        let error = Rule::read(&json!({"kind": "cap", "most": 1, "least": 1})).unwrap_err();
        assert_eq!(
            error.text(),
            "unknown key \"least\"; did you mean \"most\"?"
        );
    }
}
