//! Runs jobtap plugins inside of a Flux job manager.
//!
//! A plugin crate knows topics and no host. A wrapper crate of three lines makes a file of one or several
//! plugin crates that `flux jobtap load` takes, as it takes one in C:
//!
//! ```ignore
//! use fairshare as _;
//! use limits as _;
//! jobtap_flux::export!(["limits", "fairshare"]);
//! ```
//!
//! It is a `cdylib`. Flux's functions are resolved when the broker loads it, so nothing of Flux is needed to
//! build it.
//!
//! # How a call goes
//! Flux calls one function of this crate for each topic that the plugins handle ([`ffi`]). The arguments are
//! read from jansson's values without a text in between, and only as far as a handler asks for them. The
//! [`adapter`] calls the handlers by the rules of every host ([`jobtap_core::host::Host`]): what a handler
//! asks for is carried out when it has returned, before the next one is called.
//!
//! # What a panic does
//! It is caught. A gate (`job.validate`, `job.create`, `job.dependency.*`, `job.update.*`, `conf.update`) then
//! refuses; elsewhere the job goes on and the log names plugin and topic. A plugin that panics three times in
//! a minute is not called any more until it is loaded anew. What unsafe code of a plugin does, such as a write
//! out of bounds, can't be caught: it ends the broker, as that of a plugin in C does.
//!
//! # What differs from our own manager
//! - `async` handlers begin at once and not after their events are durable, which Flux tells no plugin.
//!   `job.validate` can't be `async`.
//! - Data of plugins is stored some milliseconds after the events of the callback: see `adapter/data.rs`.
//! - A job that is accepted is shown in DEPEND, though Flux keeps it in NEW until its submission is stored.
//!   What timers and other jobs' handlers ask for on it is carried out then.
//! - The text of a refusal is cut by Flux at 159 bytes.
//! - Annotations of `cx.annotate` are lost at a restart, as Flux's are. Those from later work, or for another job
//!   than that of the callback, are memos for Flux: it shows them below `user`.
//! - A job's submit flags are known after a restart only. Resources can't be retained, and nothing can be
//!   stored in a job's guest directory.
//! - An event that is posted in the last ten milliseconds before the file is loaded may be missing from what
//!   a plugin sees of a job, since Flux has not stored it yet.

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

/// What [`export!`] expands to.
#[doc(hidden)]
pub mod __private {
    pub use crate::ffi::init;
}

/// Makes a wrapper crate a plugin of Flux with these jobtap plugins, in this order; `before` and `after` that
/// they declare go first. A plugin that isn't linked is an error when the file is loaded.
///
/// ```ignore
/// use fairshare as _; // Without this the linker drops the crate.
/// jobtap_flux::export!(["fairshare"]);
/// ```
#[macro_export]
macro_rules! export {
    ([$($name:literal),* $(,)?]) => {
        /// Is called by Flux when it loads this file.
        #[unsafe(no_mangle)]
        pub extern "C" fn flux_plugin_init(plugin: *mut ::core::ffi::c_void) -> ::core::ffi::c_int {
            // SAFETY: Flux calls this function, with the handle of the plugin.
            unsafe { $crate::__private::init(plugin, &[$($name),*]) }
        }
    };
}
