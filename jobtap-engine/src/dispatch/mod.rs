//! Plugins: which are loaded, how their handlers are called, and what they ask for.
//!
//! A topic is *dispatched*: the handlers of all plugins are called in stack order, and what a handler
//! has asked for is carried out before the next one is called.
//!
//! | file | what it holds |
//! |---|---|
//! | `call` | the one place where the engine calls handlers |
//! | `buffer` | what handlers ask for during one callback |
//! | `pushing` | dispatches, put on the agenda with the shadows |
//! | `frames` | one dispatch from the first handler to the last, with failures and suspension |
//! | `chains` | requests in Slurm's terms, which one handler passes on to the next |
//! | `outcome` | what follows from priorities, annotations and resources that handlers return |
//! | `host`, `checks` | what a handler can read, and which of its calls are legal now |
//! | `overlay` | what a callback has asked for, shown to it on the jobs |
//! | `commands` | what handlers asked for, carried out |
//! | `async_work`, `remote` | asynchronous handlers at work on jobs; work that comes back to a plugin |
//! | `dependencies`, `schemes`, `priorities` | how plugins are asked about dependencies and for priorities |
//! | `perilogs`, `retention` | prologs and epilogs of plugins; resources that they retain |
//! | `loading`, `patterns`, `removal`, `introduction` | plugins that come and go, and how they meet existing jobs |
//! | `resubmission` | jobs that are submitted again |
//! | `prep` | Slurm's prologs and epilogs, and what follows from their failure |
//! | `faulted` | plugins that keep panicking |
//! | `shadow` | plugins that are called alongside the live ones, and decide nothing |

pub(super) mod async_work;
pub(super) mod buffer;
pub(super) mod call;
pub(super) mod chains;
pub(super) mod checks;
pub(super) mod commands;
pub(super) mod dependencies;
pub(super) mod faulted;
pub(super) mod frames;
pub(super) mod host;
pub(super) mod introduction;
pub(super) mod loading;
pub(super) mod outcome;
pub(super) mod overlay;
mod patterns;
pub(super) mod perilogs;
pub(super) mod prep;
pub(super) mod priorities;
pub(super) mod pushing;
pub(super) mod remote;
pub(super) mod removal;
pub(super) mod resubmission;
pub(super) mod retention;
pub(super) mod schemes;
pub(super) mod shadow;

pub use commands::INSTANCE_DATA;
pub use loading::PluginStatus;
pub use shadow::{ShadowDifference, ShadowReport, ShadowUser};
