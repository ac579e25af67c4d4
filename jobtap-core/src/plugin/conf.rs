//! Typed configuration: a plugin's own table, and named keys of the whole instance's.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::ConfError;

/// A plugin's own configuration, for `#[init]`: the `conf` given at load over the table
/// `[plugins.NAME]`.
///
/// `C` says what may stand there; use `#[serde(deny_unknown_fields)]` so that a misspelt key is an
/// error and not a default.
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

/// The whole instance's configuration, for `conf.update`: `C` names the keys that the plugin reads.
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
        C::read(conf).map(InstanceConf)
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
    /// Reads it.
    ///
    /// # Errors
    /// What serde finds, which names the key.
    fn read(table: &Value) -> Result<Self, ConfError>;
}

#[diagnostic::do_not_recommend]
impl<C: DeserializeOwned> ConfTable for C {
    fn read(table: &Value) -> Result<Self, ConfError> {
        C::deserialize(table).map_err(ConfError::from)
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
}

impl<P, C: ConfTable> FromInit<P> for Conf<C> {
    fn from_init(args: &InitArgs<'_>) -> Result<Self, ConfError> {
        C::read(args.conf)
            .map(Conf)
            .map_err(|error| ConfError::new(format!("[plugins.{}]: {error}", args.name)))
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
