//! Runs jobtap plugins inside a Flux job manager.
//!
//! A plugin crate handles topics and is independent of its host. A wrapper crate of three lines turns one or
//! several plugin crates into a file that `flux jobtap load` loads like a plugin in C:
//!
//! ```ignore
//! use fairshare as _;
//! use limits as _;
//! jobtap_flux::export!(["limits", "fairshare"]);
//! ```
//!
//! It is a `cdylib`. Flux's functions are resolved when the broker loads it, so building it doesn't require
//! Flux.
//!
//! # How a callback works
//! Flux calls one function of this crate for each topic that the plugins handle ([`ffi`]). The arguments are
//! read directly from jansson's values, and only the parts that a handler asks for. The [`adapter`] calls the
//! handlers by the same rules as every host ([`jobtap_core::host::Host`]): a handler's host commands are
//! carried out when it has returned, before the next one is called.
//!
//! # What a panic does
//! A panic is caught. A gate (`job.validate`, `job.create`, `job.dependency.*`, `job.update.*`, `conf.update`)
//! then refuses; elsewhere the job goes on, and the log names the plugin and the topic. A plugin that panics three
//! times in a minute isn't called any more until it is reloaded. Undefined behavior in a plugin's unsafe code, such
//! as a write out of bounds, can't be caught: it can end the broker, as in a plugin in C.
//!
//! # What differs from our own manager
//! - `async` handlers begin at once instead of when their events are durable, which Flux doesn't report to
//!   plugins. `job.validate` can't be `async`.
//! - Data of plugins is stored some milliseconds after the events of the callback: see `adapter/data.rs`.
//! - An accepted job is shown in DEPEND, although Flux keeps it in NEW until its submission is stored.
//!   Commands of timers and of other jobs' handlers for this job are carried out when it is stored.
//! - Flux truncates the text of a refusal to 159 bytes.
//! - Annotations of `cx.annotate` are lost at a restart, as Flux's are. Those from later work, or for another job
//!   than the callback's, are memos in Flux, which shows them below `user`.
//! - A job's submit flags are known only after a restart. Resources can't be retained, and nothing can be
//!   stored in a job's guest directory.
//! - An event that is posted in the last ten milliseconds before the file is loaded may be missing from what
//!   a plugin sees of a job, since Flux hasn't stored it yet.

pub mod adapter;
mod clock;
pub mod ffi;
pub mod flux;
mod inbox;
mod process;
mod runtime;
pub mod testing;

#[cfg(test)]
mod tests;

/// What the expansion of [`export!`] uses.
#[doc(hidden)]
pub mod __private {
    pub use crate::ffi::init;
}

/// Makes a wrapper crate a Flux plugin that contains these jobtap plugins. They are called in this order, unless their
/// `before` and `after` require another. If one isn't linked, the file can't be loaded.
///
/// ```ignore
/// use fairshare as _; // Without this the linker drops the crate.
/// jobtap_flux::export!(["fairshare"]);
/// ```
#[macro_export]
macro_rules! export {
    ([$($name:literal),* $(,)?]) => {
        /// Flux calls this function when it loads the file.
        #[unsafe(no_mangle)]
        pub extern "C" fn flux_plugin_init(plugin: *mut ::core::ffi::c_void) -> ::core::ffi::c_int {
            // SAFETY: only Flux calls this function, with the plugin's handle.
            unsafe { $crate::__private::init(plugin, &[$($name),*]) }
        }
    };
}
