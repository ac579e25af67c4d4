//! The items that the macros' generated code refers to. They are not part of the public interface: they change with
//! the macros, and this crate depends on exactly one version of those.

#[cfg(feature = "inventory")]
pub use inventory;
#[cfg(feature = "linkme")]
pub use linkme;

pub use std::any::Any;
pub use std::boxed::Box;
pub use std::default::Default;
pub use std::marker::PhantomData;
pub use std::option::Option;
pub use std::result::Result;

pub use crate::SDK_VERSION;
pub use crate::host::linked::descriptor::must_differ;
pub use crate::host::{
    AsyncPolicy, Failure, HandlerEntry, IntroductionOrder, Load, OnRestart, Outcome,
    PluginDescriptor, Role,
};
#[cfg(feature = "linkme")]
pub use crate::host::{JOBTAP_PLUGINS_V1, JOBTAP_SCHEDULERS_V1};
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
pub use crate::host::{Linked, LinkedScheduler};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use crate::plugin::{
    AllHandlersInOneImplBlock, Call, ConfError, DataForm, DataSpec, FromInit, FromTopic, IntoInit,
    IntoOutcome, Plugin, PluginData, PluginInstanceData, Refusal, ServiceError, Upgrade,
    VersionedData, decline, is_concerned, reply, spawn, spawn_service,
};
use crate::plugin::{Conf, InstanceConf, StoredData};

/// Casts the host's instance to the plugin's type.
pub fn downcast<P: 'static>(plugin: &mut dyn Any) -> Result<&mut P, Failure> {
    plugin.downcast_mut().ok_or(Failure::Input("the host gave another plugin's instance"))
}

/// Finds the schema of the table that a parameter of `#[init]` reads, if it reads the plugin's own.
///
/// This is autoref specialization: the traits have methods of the same name, and method lookup on `&&SchemaProbe`
/// takes the first trait whose bounds hold, by the number of references that it has to add or remove. The order is
/// [`DerivedSchema`] (`Conf<C>` with `C: JsonSchema`), [`AnyTable`] (any other `Conf<C>`), [`NoTable`] (any other
/// parameter).
pub struct SchemaProbe<T>(pub PhantomData<fn() -> T>);

/// See [`SchemaProbe`].
pub trait DerivedSchema {
    /// The derived schema.
    fn schema(&self) -> Option<Value>;
}

/// See [`SchemaProbe`].
pub trait AnyTable {
    /// A schema that accepts every table.
    fn schema(&self) -> Option<Value>;
}

/// See [`SchemaProbe`].
pub trait NoTable {
    /// The parameter doesn't read the plugin's own table.
    fn schema(&self) -> Option<Value>;
}

impl<C: JsonSchema> DerivedSchema for &SchemaProbe<Conf<C>> {
    fn schema(&self) -> Option<Value> {
        Some(Conf::<C>::schema())
    }
}

impl<C> AnyTable for &&SchemaProbe<Conf<C>> {
    fn schema(&self) -> Option<Value> {
        Some(json!({"type": "object"}))
    }
}

impl<T> NoTable for SchemaProbe<T> {
    fn schema(&self) -> Option<Value> {
        None
    }
}

/// The schema of the first parameter of `#[init]` that has one. At most one does.
pub struct Schemas(Option<Value>);

#[allow(clippy::new_without_default, reason = "generated code can't name traits of the prelude")]
impl Schemas {
    /// No schema yet.
    pub fn new() -> Self {
        Self(None)
    }

    /// Adds the schema of the next parameter.
    pub fn push(&mut self, schema: Option<Value>) {
        self.0 = self.0.take().or(schema);
    }

    /// Returns the schema.
    pub fn first(self) -> Option<Value> {
        self.0
    }
}

/// Finds whether a parameter reads a key of the instance's configuration: method lookup takes the first trait whose
/// bounds hold, by the number of references that it has to add. The order is [`ReadsInstance`]
/// (`InstanceConf<C>`), [`ReadsNothing`] (any other parameter).
pub struct InstanceProbe<T>(pub PhantomData<fn() -> T>);

/// See [`InstanceProbe`].
pub trait ReadsInstance {
    /// Whether the parameter's type has the key.
    fn reads(&self, key: &[&str]) -> bool;
}

/// See [`InstanceProbe`].
pub trait ReadsNothing {
    /// The parameter doesn't read the instance's configuration.
    fn reads(&self, key: &[&str]) -> bool;
}

impl<C: DeserializeOwned> ReadsInstance for InstanceProbe<InstanceConf<C>> {
    fn reads(&self, key: &[&str]) -> bool {
        InstanceConf::<C>::has(key)
    }
}

impl<T> ReadsNothing for &InstanceProbe<T> {
    fn reads(&self, _: &[&str]) -> bool {
        false
    }
}

/// Boxes a new instance.
pub fn boxed<P: 'static>(plugin: P) -> Box<dyn Any> {
    Box::new(plugin)
}

/// Builds a plugin without `#[init]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has neither an `#[init]` function nor `Default`",
    label = "jobtap can't build this plugin",
    note = "derive `Default`, or mark the function that builds it: `#[init] fn new(conf: Conf<MyConf>) -> Self`"
)]
pub trait BuildDefault: Sized {
    /// A new instance.
    fn build() -> Self;
}

#[diagnostic::do_not_recommend]
impl<P: Default> BuildDefault for P {
    fn build() -> Self {
        P::default()
    }
}

/// Makes the form of a plugin's data. Its bound makes the compiler reject a type that can't be stored.
pub fn form<D: StoredData>(spec: DataSpec<D>) -> DataForm<D> {
    DataForm::new(spec)
}

/// Finds the options of `#[data(..)]` on a type, or the defaults if it has no such attribute: method lookup first
/// tries the trait whose implementing type needs fewer references.
pub struct DataProbe<D>(pub PhantomData<fn() -> D>);

/// See [`DataProbe`].
pub trait DeclaredData<D> {
    /// The options of the attribute.
    fn data_spec(&self) -> DataSpec<D>;
}

/// See [`DataProbe`].
pub trait PlainData<D> {
    /// The default options.
    fn data_spec(&self) -> DataSpec<D>;
}

impl<D: VersionedData> DeclaredData<D> for DataProbe<D> {
    fn data_spec(&self) -> DataSpec<D> {
        D::spec()
    }
}

impl<D> PlainData<D> for &DataProbe<D> {
    fn data_spec(&self) -> DataSpec<D> {
        DataSpec::default()
    }
}

/// Adds a descriptor to the registry, by the backend that this crate was built with.
#[cfg(feature = "linkme")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jobtap_register {
    ($descriptor:expr) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::JOBTAP_PLUGINS_V1)]
            #[linkme(crate = $crate::__private::linkme)]
            static LINKED: &'static $crate::__private::PluginDescriptor = $descriptor;
        };
    };
}

/// Adds a descriptor to the registry, by the backend that this crate was built with.
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __jobtap_register {
    ($descriptor:expr) => {
        $crate::__private::inventory::submit!($crate::__private::Linked($descriptor));
    };
}

/// Adds a scheduler to the registry, by the backend that this crate was built with.
#[cfg(feature = "linkme")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jobtap_register_scheduler {
    ($descriptor:expr) => {
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::JOBTAP_SCHEDULERS_V1)]
            #[linkme(crate = $crate::__private::linkme)]
            static LINKED: &'static $crate::sched::SchedulerDescriptor = $descriptor;
        };
    };
}

/// Adds a scheduler to the registry, by the backend that this crate was built with.
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __jobtap_register_scheduler {
    ($descriptor:expr) => {
        $crate::__private::inventory::submit!($crate::__private::LinkedScheduler($descriptor));
    };
}
