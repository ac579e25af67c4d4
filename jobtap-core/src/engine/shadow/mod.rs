//! Shadows: plugins that are called beside the live ones, and decide nothing.
//!
//! A shadow is a plugin on a stack of its own. Where a live plugin of its name would be called, it is called
//! too, with the same job. What it answers and asks for is compared with what the live plugins did at the same
//! moment, recorded, and dropped. What it keeps for itself, such as data and timers, it keeps apart from the
//! live plugins.
//!
//! | file | what it holds |
//! |---|---|
//! | `shadows` | the part: the shadows, and what each has of its own |
//! | `compare` | where two answers to one call differ |
//! | `record` | the differences so far, in bounded memory |
//! | `report` | what is shown of a shadow |
//! | `budget` | how much time a shadow may take |
//! | `host` | what a shadow sees of the engine |
//! | `call` | a call of a shadow, and what follows from it for the shadow alone |
//! | `watched` | what a dispatch knows of the shadows that it concerns |
//! | `watch` | the shadows in a dispatch to the live plugins |
//! | `later` | what is asked for outside of dispatches, until the other asks for it, too |
//! | `notes` | how differences are recorded |
//! | `services` | requests for services, which a shadow sees too |
//! | `introduction` | the jobs that are there when a shadow is loaded |
//! | `manage` | loading, promotion and the way back |

mod budget;
mod call;
mod compare;
mod host;
mod introduction;
mod later;
pub(super) mod manage;
pub(super) mod notes;
mod record;
mod report;
pub(super) mod services;
mod shadows;
pub(super) mod watch;
mod watched;

pub(super) use call::resume;
pub(super) use report::report;
pub use report::{ShadowDifference, ShadowReport, ShadowUser};
pub(super) use shadows::Shadows;
pub(super) use watched::Watch;
