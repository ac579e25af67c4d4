//! The plugins and schedulers that are linked into a binary, checked and in their order.

use std::collections::BTreeMap;

use super::descriptor::{Load, PluginDescriptor};
use super::order::{Placement, arrange};
use crate::SDK_VERSION;
use crate::sched::{OWN, SchedulerDescriptor};

/// The plugins that a manager can load. Those with the same [`Load`] are loaded in the order of this
/// list.
///
/// The stack is in loading order, so a plugin that is loaded by name or by the configuration may come
/// after one that it precedes here.
///
/// The order is a matter of policy, since the last plugin that sets a priority decides. Builtins (dotted
/// names) come first, then the others. Among them the declared `before` and `after` decide, then the
/// manager's sequence, then the names. So the order never depends on how the linker laid out the binary.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    plugins: Vec<&'static PluginDescriptor>,
    schedulers: Vec<&'static SchedulerDescriptor>,
}

/// Why a set of linked plugins can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two plugins have the same name.
    #[error(
        "two plugins are named {name:?}: one of crate {first}, one of crate {second}; link only one of them or rename one"
    )]
    Duplicate {
        /// The name.
        name: &'static str,
        /// The crate of one.
        first: &'static str,
        /// The crate of the other.
        second: &'static str,
    },
    /// A plugin that was compiled with another version of the SDK.
    #[error(
        "plugin {name:?} was compiled with jobtap-core {sdk}, this manager has {SDK_VERSION}: build both with one version"
    )]
    Sdk {
        /// The plugin.
        name: &'static str,
        /// Its SDK.
        sdk: &'static str,
    },
    /// Two schedulers have the same name.
    #[error(
        "two schedulers are named {name:?}: one of crate {first}, one of crate {second}; link only one of them or rename one"
    )]
    DuplicateScheduler {
        /// The name.
        name: &'static str,
        /// The crate of one.
        first: &'static str,
        /// The crate of the other.
        second: &'static str,
    },
    /// Declared orders that contradict each other.
    #[error("the plugins {} are each declared to come before the other: drop one `before` or `after`", .names.join(", "))]
    Cycle {
        /// The plugins in the cycle.
        names: Vec<&'static str>,
    },
}

impl Registry {
    /// The plugins linked into this binary.
    ///
    /// The linker drops a crate that no code names, without a warning: `use my_plugin as _;` keeps it.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn linked() -> Result<Self, RegistryError> {
        Self::linked_in(&[])
    }

    /// The plugins linked into this binary, with a [`sequence`](RegistryBuilder::sequence).
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn linked_in(sequence: &[String]) -> Result<Self, RegistryError> {
        let builder = Self::builder().plugins(super::backend::linked()).sequence(sequence);
        builder.schedulers(super::backend::linked_schedulers()).build()
    }

    /// A registry of plugins that are listed by hand, for tests.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// All plugins, in order.
    pub fn plugins(&self) -> impl Iterator<Item = &'static PluginDescriptor> + '_ {
        self.plugins.iter().copied()
    }

    /// The plugins with [`Load::Auto`], in order.
    pub fn auto(&self) -> impl Iterator<Item = &'static PluginDescriptor> + '_ {
        self.plugins().filter(|plugin| plugin.load == Load::Auto)
    }

    /// The plugins with [`Load::Last`], in order.
    pub fn last(&self) -> impl Iterator<Item = &'static PluginDescriptor> + '_ {
        self.plugins().filter(|plugin| plugin.load == Load::Last)
    }

    /// The plugins with [`Load::Configured`], in order.
    pub fn configured(&self) -> impl Iterator<Item = &'static PluginDescriptor> + '_ {
        self.plugins().filter(|plugin| plugin.load == Load::Configured)
    }

    /// A plugin by its name.
    pub fn find(&self, name: &str) -> Option<&'static PluginDescriptor> {
        self.plugins().find(|plugin| plugin.name == name)
    }

    /// All schedulers: those that come with jobtap, then those of linked crates.
    pub fn schedulers(&self) -> impl Iterator<Item = &'static SchedulerDescriptor> + '_ {
        OWN.iter().chain(self.schedulers.iter().copied())
    }

    /// A scheduler by its name.
    pub fn find_scheduler(&self, name: &str) -> Option<&'static SchedulerDescriptor> {
        self.schedulers().find(|scheduler| scheduler.name == name)
    }
}

/// Makes a [`Registry`].
#[derive(Debug, Default)]
pub struct RegistryBuilder {
    plugins: Vec<&'static PluginDescriptor>,
    sequence: Vec<String>,
    schedulers: Vec<&'static SchedulerDescriptor>,
}

impl RegistryBuilder {
    /// Adds a plugin: `Registry::builder().plugin(descriptor_of::<MyPlugin>())`.
    pub fn plugin(mut self, plugin: &'static PluginDescriptor) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Adds several plugins.
    pub fn plugins(mut self, plugins: impl IntoIterator<Item = &'static PluginDescriptor>) -> Self {
        self.plugins.extend(plugins);
        self
    }

    /// Sets the order of plugins for which `before` and `after` say nothing: those named here, then the
    /// others by name.
    ///
    /// ```
    /// use jobtap_core::host::Registry;
    ///
    /// let registry = Registry::builder().sequence(["limits", "fairshare"]).build();
    /// assert!(registry.is_ok());
    /// ```
    pub fn sequence<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.sequence = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds schedulers to those that come with jobtap.
    pub fn schedulers(
        mut self,
        schedulers: impl IntoIterator<Item = &'static SchedulerDescriptor>,
    ) -> Self {
        self.schedulers.extend(schedulers);
        self
    }

    /// Checks and orders the plugins and schedulers.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn build(self) -> Result<Registry, RegistryError> {
        let mut by_name: BTreeMap<&'static str, &'static PluginDescriptor> = BTreeMap::new();
        for plugin in self.plugins {
            // cargo links two versions of this crate into one binary without a warning.
            if plugin.sdk != SDK_VERSION {
                return Err(RegistryError::Sdk { name: plugin.name, sdk: plugin.sdk });
            }
            if let Some(other) = by_name.insert(plugin.name, plugin) {
                return Err(RegistryError::Duplicate {
                    name: plugin.name,
                    first: other.crate_name,
                    second: plugin.crate_name,
                });
            }
        }
        let sequence: Vec<&str> = self.sequence.iter().map(String::as_str).collect();
        let plugins = order(by_name, &sequence)?;
        Ok(Registry { plugins, schedulers: check_schedulers(self.schedulers)? })
    }
}

/// Orders the plugins: see [`Registry`].
fn order(
    mut left: BTreeMap<&'static str, &'static PluginDescriptor>,
    sequence: &[&str],
) -> Result<Vec<&'static PluginDescriptor>, RegistryError> {
    let place = |plugin: &&'static PluginDescriptor| Placement {
        name: plugin.name,
        before: plugin.before.to_vec(),
        after: plugin.after.to_vec(),
    };
    let places: Vec<Placement<'static>> = left.values().map(place).collect();
    let names = arrange(&places, sequence).map_err(|names| RegistryError::Cycle { names })?;
    Ok(names.into_iter().filter_map(|name| left.remove(name)).collect())
}

/// Checks that each scheduler has this SDK and a name of its own, and sorts them by name.
fn check_schedulers(
    linked: Vec<&'static SchedulerDescriptor>,
) -> Result<Vec<&'static SchedulerDescriptor>, RegistryError> {
    let mut by_name: BTreeMap<&str, &SchedulerDescriptor> = BTreeMap::new();
    for scheduler in OWN.iter().chain(linked.iter().copied()) {
        let SchedulerDescriptor { name, crate_name: second, sdk, .. } = scheduler;
        if *sdk != SDK_VERSION {
            return Err(RegistryError::Sdk { name, sdk });
        }
        if let Some(SchedulerDescriptor { crate_name: first, .. }) = by_name.insert(name, scheduler)
        {
            return Err(RegistryError::DuplicateScheduler { name, first, second });
        }
    }
    let mut linked = linked;
    linked.sort_by_key(|scheduler| scheduler.name);
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ConfError;

    const fn plugin(
        name: &'static str,
        before: &'static [&'static str],
        after: &'static [&'static str],
    ) -> PluginDescriptor {
        PluginDescriptor {
            name,
            crate_name: "test",
            crate_version: "0",
            authors: "",
            license: "",
            sdk: SDK_VERSION,
            load: Load::Auto,
            before,
            after,
            load_order: crate::host::IntroductionOrder::ById,
            schema: || None,
            reads: |_| false,
            new: |_| Err(ConfError::new("a test does not build it")),
            handlers: &[],
        }
    }

    fn names(plugins: &[&'static PluginDescriptor]) -> Result<Vec<&'static str>, RegistryError> {
        let registry = Registry::builder().plugins(plugins.iter().copied()).build()?;
        Ok(registry.plugins().map(|p| p.name).collect())
    }

    static A: PluginDescriptor = plugin("a", &[], &["c"]);
    static B: PluginDescriptor = plugin("b", &["c"], &["not-linked"]);
    static C: PluginDescriptor = plugin("c", &[], &[]);
    static DOT_X: PluginDescriptor = plugin(".x", &[], &[".y"]);
    static DOT_Y: PluginDescriptor = plugin(".y", &[], &[]);
    static D: PluginDescriptor = plugin("d", &["e"], &[]);
    static E: PluginDescriptor = plugin("e", &["d"], &[]);

    #[test]
    fn the_order_does_not_depend_on_the_linker() {
        let want = vec![".y", ".x", "b", "c", "a"];
        assert_eq!(names(&[&A, &B, &C, &DOT_X, &DOT_Y]).unwrap(), want);
        assert_eq!(names(&[&DOT_Y, &C, &DOT_X, &B, &A]).unwrap(), want);
    }

    #[test]
    fn a_declared_order_overrides_the_sequence() {
        let registry = Registry::builder().plugins([&A, &B, &C, &DOT_X, &DOT_Y]);
        let registry = registry.sequence(["a", "c", "b", ".x"]).build().unwrap();
        let names: Vec<_> = registry.plugins().map(|p| p.name).collect();
        assert_eq!(names, [".y", ".x", "b", "c", "a"]);
        let registry = Registry::builder().plugins([&DOT_Y, &C, &E]).sequence(["e", "c"]);
        let names: Vec<_> = registry.build().unwrap().plugins().map(|p| p.name).collect();
        assert_eq!(names, [".y", "e", "c"]);
    }

    #[test]
    fn two_plugins_of_one_name_are_refused() {
        let error = names(&[&A, &A]).unwrap_err();
        assert!(error.to_string().starts_with("two plugins are named \"a\""), "{error}");
    }

    #[test]
    fn contradicting_orders_are_refused() {
        let error = names(&[&D, &E, &C]).unwrap_err();
        assert_eq!(error, RegistryError::Cycle { names: vec!["d", "e"] });
    }

    #[test]
    fn another_sdk_is_refused() {
        static OLD: PluginDescriptor = PluginDescriptor { sdk: "0.0.1", ..plugin("old", &[], &[]) };
        let error = names(&[&OLD]).unwrap_err();
        assert!(error.to_string().contains("jobtap-core 0.0.1"), "{error}");
    }

    static MINE: SchedulerDescriptor = SchedulerDescriptor {
        name: "mine",
        crate_name: "site",
        crate_version: "0",
        sdk: SDK_VERSION,
        new: |_| Err(crate::sched::TableError::new("a test does not make it")),
    };
    static EASY: SchedulerDescriptor = SchedulerDescriptor { name: "easy", ..MINE };
    static OLD_SCHEDULER: SchedulerDescriptor = SchedulerDescriptor { sdk: "0.0.1", ..MINE };

    #[test]
    fn two_schedulers_of_one_name_are_refused() {
        assert_eq!(check_schedulers(vec![&MINE]).unwrap().len(), 1);
        let error = check_schedulers(vec![&MINE, &MINE]).unwrap_err().to_string();
        assert!(
            error.starts_with("two schedulers are named \"mine\": one of crate site"),
            "{error}"
        );
        let error = check_schedulers(vec![&EASY]).unwrap_err();
        let (name, first, second) = ("easy", "jobtap-core", "site");
        assert_eq!(error, RegistryError::DuplicateScheduler { name, first, second });
        assert!(matches!(check_schedulers(vec![&OLD_SCHEDULER]), Err(RegistryError::Sdk { .. })));
    }
}
