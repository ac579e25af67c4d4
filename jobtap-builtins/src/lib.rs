//! The plugins that come with every jobtap manager, written against the public SDK.
//!
//! `use jobtap_builtins as _;` links them. Their names begin with a dot; they are called before all
//! others, so that a site's plugin has the last word.

mod dependency_after;
mod fairshare;
mod licenses;
mod limits;
mod perilog;
mod priority_default;
mod tokens;

pub use dependency_after::DependencyAfter;
pub use fairshare::Fairshare;
pub use licenses::Licenses;
pub use limits::Limits;
pub use perilog::Perilog;
pub use priority_default::PriorityDefault;
