//! Shadows: plugins that are called alongside the live ones, and decide nothing.
//!
//! A shadow is a plugin on a stack of its own. It is called wherever a live plugin of its name is or would be called,
//! with the same job. What it answers and asks for is compared with what the live plugins did at the same moment,
//! recorded, and dropped. What belongs to the shadow alone, such as its data and timers, is separate from that of the
//! live plugins.
//!
//! | file | what it holds |
//! |---|---|
//! | `report` | what is shown about a shadow |
//! | `host` | what a shadow sees of the engine |
//! | `call` | a call of a shadow, and what follows from it for the shadow alone |
//! | `watch` | the shadows in a dispatch to the live plugins |
//! | `notes` | how differences are recorded |
//! | `services` | requests for services, which a shadow sees too |
//! | `introduction` | existing jobs, introduced to a shadow |
//! | `manage` | loading, promotion and demotion |

pub(crate) mod beside_live;
mod call;
mod host;
mod introduction;
pub(crate) mod manage;
pub(crate) mod notes;
mod report;
pub(crate) mod services;

pub(crate) use call::resume;
pub(crate) use report::report;
pub use report::{ShadowDifference, ShadowReport, ShadowUser};
