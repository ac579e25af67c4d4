//! The plugins that come with every jobtap manager, written against the public SDK.
//!
//! `use jobtap_builtins as _;` links them. Their names begin with a dot; they are called before all
//! others, so that a site's plugin has the last word.

#[cfg(feature = "dependency-after")]
mod dependency_after;
#[cfg(feature = "priority-default")]
mod priority_default;

#[cfg(feature = "dependency-after")]
pub use dependency_after::DependencyAfter;
#[cfg(feature = "priority-default")]
pub use priority_default::PriorityDefault;
