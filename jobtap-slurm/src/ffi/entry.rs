//! The functions that Slurm calls. They catch panics, which would otherwise end the daemon.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use jobtap_core::host::{HostKind, panic_text};
use jobtap_core::plugin::Level;
use jobtap_core::slurm::errno::SLURM_ERROR;
use jobtap_core::topic::TopicId;

use super::daemon::{Known, Loader, node_name, register_callbacks, user_name};
use super::layout;
use super::memory::{free, read_text, text};
use super::structures::{InMemory, job_record, member_number, member_text, member_texts};
use crate::daemon::{Daemon, Part};
use crate::job_submit::{self, Decision};
use crate::prep::{self, Controller, FAILED, NodeJob, Where};
use crate::registry::linked;
use crate::worker::Plugins;

/// The plugins of this file, between `init` and `fini`.
struct Loaded {
    plugins: Plugins,
    /// Only in a PrEp plugin.
    controller: Option<Controller>,
}

static LOADED: Mutex<Option<Arc<Loaded>>> = Mutex::new(None);

fn loaded() -> Option<Arc<Loaded>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs the body of a function that Slurm calls. Returns `otherwise` if it panics.
fn guarded<R>(what: &str, otherwise: R, run: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => {
            let text = format!("jobtap: {what}: panicked: {}", panic_text(&*panic));
            Loader.log(Level::Error, &text);
            otherwise
        }
    }
}

/// Keeps this file in memory until the daemon ends: its threads may still be running when Slurm unloads it.
fn keep_loaded() {
    // SAFETY: `info` may be zeroed, and `dladdr` fills it for an address in this file; the file name lives as long as
    // the file is loaded. With RTLD_NOLOAD, `dlopen` runs no code: it only adds RTLD_NODELETE to the loaded file.
    unsafe {
        let mut info = std::mem::zeroed::<libc::Dl_info>();
        let address = (&raw const LOADED).cast::<c_void>();
        if libc::dladdr(address, &raw mut info) != 0 && !info.dli_fname.is_null() {
            let flags = libc::RTLD_LAZY | libc::RTLD_NODELETE | libc::RTLD_NOLOAD;
            libc::dlopen(info.dli_fname, flags);
        }
    }
}

/// Sets a panic hook that logs the location of a panic to the daemon's log. The default hook of this file's standard
/// library would write to standard error, which a daemon doesn't have.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" at {at}")).unwrap_or_default();
        Loader.log(Level::Error, &format!("jobtap: panic{place}"));
    }));
}

/// Why a file is refused that was built with Slurm's public headers only.
const NO_SOURCE: &str = "this file was built without Slurm's source, and a plugin in it needs jobs: build it with \
                         SLURM_SOURCE_DIR";

fn init(kind: HostKind, names: &[&str]) -> c_int {
    guarded("init", SLURM_ERROR.code(), || {
        keep_loaded();
        log_panics();
        let result = linked(names).map_err(|error| error.to_string()).and_then(|plugins| {
            let plugins = Plugins::start(kind, Arc::new(Loader), plugins);
            let plugins = plugins.map_err(|error| error.to_string())?;
            // A change is validated with slurmctld's record of the job.
            let needs_source =
                plugins.handles_any(&[TopicId::SlurmJobModify, TopicId::JobValidate]);
            if !layout::HAS_SOURCE && (kind == HostKind::SlurmPrep || needs_source) {
                return Err(NO_SOURCE.to_owned());
            }
            let controller = match kind {
                HostKind::SlurmPrep => {
                    Some(Controller::start(Arc::new(Loader)).map_err(|error| error.to_string())?)
                }
                _ => None,
            };
            Ok(Loaded { plugins, controller })
        });
        match result {
            Ok(new) => {
                *LOADED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(new));
                Loader.log(Level::Info, &format!("jobtap: loaded {}", names.join(", ")));
                0
            }
            Err(text) => {
                Loader.log(Level::Error, &format!("jobtap: {text}"));
                SLURM_ERROR.code()
            }
        }
    })
}

/// `init` of a job_submit plugin. A result other than 0 makes slurmctld's start fail.
pub fn init_job_submit(names: &[&str]) -> c_int {
    init(HostKind::SlurmSubmit, names)
}

/// `init` of a PrEp plugin. A result other than 0 makes the daemon's start fail.
pub fn init_prep(names: &[&str]) -> c_int {
    init(HostKind::SlurmPrep, names)
}

/// `fini`.
pub fn fini() -> c_int {
    guarded("fini", 0, || {
        let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(loaded) = loaded {
            if let Some(controller) = &loaded.controller {
                controller.stop();
            }
            loaded.plugins.stop();
        }
        0
    })
}

/// Returns the refusal for a failure of this crate itself.
fn broken() -> Decision {
    Decision::failed("the site's plugins have failed; please report it")
}

/// `job_submit`.
///
/// # Safety
/// To be called by slurmctld: `descriptor` is its `job_desc_msg_t`, which no other thread uses; `message` is null or
/// points to null or to a text of its allocator; and it holds its locks on configuration, jobs and partitions.
pub unsafe fn job_submit(descriptor: *mut c_void, user: u32, message: *mut *mut c_char) -> c_int {
    let decision = guarded("job_submit", broken(), || {
        let Some(loaded) = loaded() else { return broken() };
        // SAFETY: the caller guarantees that `descriptor` is slurmctld's and that no other thread uses it.
        let mut structure = unsafe { InMemory::descriptor(descriptor) };
        // SAFETY: the same guarantee.
        let job_user = unsafe {
            member_number(descriptor.cast_const().cast(), layout::JOB_DESCRIPTOR, "user_id")
        };
        let job_user = job_user.and_then(|user| u32::try_from(user).ok()).unwrap_or(user);
        let known = Known { user: job_user, submitter: user };
        job_submit::submit(&loaded.plugins, &mut structure, user, &known)
    });
    if let Some(text) = decision.message {
        // SAFETY: the caller guarantees what `add_message` requires of `message`.
        unsafe { add_message(message, &text) };
    }
    decision.code
}

/// Appends a message for the user to the messages of job_submit plugins that were called before.
///
/// # Safety
/// `message` is as [`job_submit`] requires.
unsafe fn add_message(message: *mut *mut c_char, new: &str) {
    if message.is_null() {
        return;
    }
    // SAFETY: the caller guarantees that `message` points to null or a text of the daemon's allocator. The old text is
    // freed only after a new one has replaced it.
    unsafe {
        let old = message.read();
        let all = match read_text(old) {
            Some(before) => format!("{before}\n{new}"),
            None => new.to_owned(),
        };
        if let Some(all) = text(&all.replace('\0', " ")) {
            message.write(all);
            free(old.cast());
        }
    }
}

/// `job_modify`. Before 23.02 slurmctld doesn't pass a `message`, and the parameter has any value.
///
/// # Safety
/// To be called by slurmctld, as [`job_submit`]; `record` is its `job_record_t`.
pub unsafe fn job_modify(
    descriptor: *mut c_void,
    record: *const c_void,
    user: u32,
    message: *mut *mut c_char,
) -> c_int {
    let decision = guarded("job_modify", broken(), || {
        let Some(loaded) = loaded() else { return broken() };
        // SAFETY: the caller guarantees that `descriptor` is slurmctld's and that no other thread uses it.
        let mut structure = unsafe { InMemory::descriptor(descriptor) };
        // SAFETY: the caller guarantees that `record` is slurmctld's, which holds its lock on jobs.
        let record = unsafe { job_record(record) };
        let job_user = record.as_ref().map_or(user, |record| record.user_id);
        let known = Known { user: job_user, submitter: user };
        job_submit::modify(&loaded.plugins, &mut structure, || record, user, &known)
    });
    if let Some(text) = decision.message.filter(|_| layout::RELEASE.modify_has_message) {
        // SAFETY: this release passes a message, and the caller guarantees what `add_message` requires of it.
        unsafe { add_message(message, &text) };
    }
    decision.code
}

/// `prep_p_register_callbacks`.
///
/// # Safety
/// `callbacks` is slurmctld's `prep_callbacks_t`.
pub unsafe fn prep_register_callbacks(callbacks: *const c_void) {
    // SAFETY: the caller guarantees that `callbacks` is slurmctld's.
    guarded("prep_p_register_callbacks", (), || unsafe { register_callbacks(callbacks) });
}

/// Reads a job of slurmd's.
///
/// # Safety
/// `env` points to a `job_env_t` that doesn't change during the call.
unsafe fn node_job(env: *const c_void) -> NodeJob {
    let env = env.cast::<u8>();
    // SAFETY: the caller guarantees that `env` is a `job_env_t`, which has this layout and doesn't change.
    let number = |name| unsafe { member_number(env, layout::JOB_ENV, name) };
    let number = |name| number(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    // SAFETY: the same guarantee.
    let text = |name| unsafe { member_text(env, layout::JOB_ENV, name) };
    let spank = ("spank_job_env", "spank_job_env_size");
    NodeJob {
        id: number("jobid"),
        user: number("uid"),
        group: number("gid"),
        // Until 23.02; later releases look it up.
        user_name: text("user_name").or_else(|| user_name(number("uid"))),
        nodes: text("node_list"),
        partition: text("partition"),
        work_dir: text("work_dir"),
        // SAFETY: the same guarantee, and slurmd sets `spank_job_env_size` to the length of the list.
        spank_job_env: unsafe { member_texts(env, layout::JOB_ENV, spank) },
        node: node_name(),
    }
}

/// Runs slurmd's prolog or epilog and returns its wait status.
///
/// # Safety
/// As for [`prep_prolog`].
unsafe fn on_node(part: Part, env: *const c_void) -> c_int {
    guarded("a hook of slurmd", FAILED, || {
        let Some(loaded) = loaded() else { return FAILED };
        // SAFETY: the caller guarantees that `env` is slurmd's `job_env_t`, which doesn't change during the call.
        prep::on_node(&loaded.plugins, part, unsafe { node_job(env) })
    })
}

/// `prep_p_prolog`.
///
/// # Safety
/// To be called by slurmd: `env` is its `job_env_t`, which doesn't change during the call.
pub unsafe fn prep_prolog(env: *const c_void) -> c_int {
    // SAFETY: both functions have the same contract.
    unsafe { on_node(Part::Prolog, env) }
}

/// `prep_p_epilog`.
///
/// # Safety
/// As for [`prep_prolog`].
pub unsafe fn prep_epilog(env: *const c_void) -> c_int {
    // SAFETY: both functions have the same contract.
    unsafe { on_node(Part::Epilog, env) }
}

/// Starts slurmctld's prolog or epilog. Sets `is_async` if slurmctld has to wait for the callback.
///
/// # Safety
/// As for [`prep_prolog_slurmctld`].
unsafe fn in_controller(part: Part, record: *const c_void, is_async: *mut bool) -> c_int {
    guarded("a hook of slurmctld", SLURM_ERROR.code(), || {
        let Some(loaded) = loaded() else { return SLURM_ERROR.code() };
        let Some(controller) = &loaded.controller else { return SLURM_ERROR.code() };
        // SAFETY: the caller guarantees that `record` is slurmctld's, which holds its lock on jobs. `begin` reads the
        // record before it returns.
        let begun = controller.begin(&loaded.plugins, part, || unsafe { job_record(record) });
        let begun = match begun {
            Ok(begun) => begun,
            Err(mismatch) => {
                Loader.log(Level::Error, &format!("jobtap: {part:?}: {mismatch}"));
                return SLURM_ERROR.code();
            }
        };
        if begun && !is_async.is_null() {
            // SAFETY: `is_async` isn't null, so it points to a variable of slurmctld's.
            unsafe { is_async.write(true) };
        }
        0
    })
}

/// `prep_p_prolog_slurmctld`.
///
/// # Safety
/// To be called by slurmctld: `record` is its `job_record_t`, `is_async` is null or points to a variable, and it holds
/// its lock on jobs.
pub unsafe fn prep_prolog_slurmctld(record: *const c_void, is_async: *mut bool) -> c_int {
    // SAFETY: both functions have the same contract.
    unsafe { in_controller(Part::Prolog, record, is_async) }
}

/// `prep_p_epilog_slurmctld`.
///
/// # Safety
/// As for [`prep_prolog_slurmctld`].
pub unsafe fn prep_epilog_slurmctld(record: *const c_void, is_async: *mut bool) -> c_int {
    // SAFETY: both functions have the same contract.
    unsafe { in_controller(Part::Epilog, record, is_async) }
}

/// `prep_p_required`: sets `required` if a plugin of this file handles the call.
///
/// # Safety
/// `required` is null or points to a variable of the caller.
pub unsafe fn prep_required(call: c_int, required: *mut bool) {
    let (part, at) = match call {
        1 => (Part::Prolog, Where::Node),
        2 => (Part::Epilog, Where::Node),
        3 => (Part::Prolog, Where::Controller),
        4 => (Part::Epilog, Where::Controller),
        _ => return,
    };
    let handled = guarded("prep_p_required", false, || {
        loaded().is_some_and(|loaded| loaded.plugins.handles_any(prep::topics(part, at)))
    });
    // Otherwise left unchanged: another PrEp plugin may have set it.
    if handled && !required.is_null() {
        // SAFETY: `required` isn't null, so the caller guarantees that it points to a variable.
        unsafe { required.write(true) };
    }
}
