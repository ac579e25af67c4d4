//! What the adapter needs of Flux, as a safe trait that names the functions of libflux.
//!
//! In a broker they are the real ones ([`ffi`](crate::ffi)). In unit tests they are those of a double that
//! records the calls, so that the adapter's rules are tested where there is no Flux.

use std::ffi::CStr;
use std::{fmt, io};

use jobtap_core::host::ReplyTo;
use jobtap_core::job::JobId;
use jobtap_core::plugin::Level;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::runtime::Runtime;
pub use crate::runtime::Workers;

/// A JSON value that Flux lends.
pub trait Lend: Clone + Send + 'static {
    /// Reads the value.
    ///
    /// # Errors
    /// Why it isn't a `T`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, String>;

    /// The member of an object.
    fn get(&self, key: &str) -> Option<Self>;

    /// The member of an object, if it is an integer. Each call has some that are read this way.
    fn integer(&self, key: &CStr) -> Option<i64>;
}

/// The number of an error, of errno.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// No such file or directory: in Flux also an unknown or inactive job, or a missing key.
    pub const ENOENT: Errno = Errno(2);
    /// Input/output error.
    pub const EIO: Errno = Errno(5);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// Function not implemented.
    pub const ENOSYS: Errno = Errno(38);
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// The functions of Flux. `job` is never the job manager's "current job": the adapter passes ids.
pub trait Flux: 'static {
    /// The JSON values of this Flux.
    type Json: Lend;

    /// `flux_reactor_now`: the time at which the reactor's present turn began, in UNIX seconds.
    fn now(&self) -> f64;

    /// `flux_attr_get`: an attribute of the broker.
    fn attribute(&self, name: &str) -> Option<String>;

    /// `flux_plugin_get_conf`: what was given when the plugin was loaded.
    fn given(&self) -> Option<Value>;

    /// `flux_log`
    fn log(&self, level: Level, text: &str);

    /// `flux_plugin_add_handler`, for the adapter's one callback.
    ///
    /// # Errors
    /// That of the function.
    fn add_handler(&self, topic: &str) -> Result<(), Errno>;

    /// `flux_jobtap_service_register_ex`: the service `job-manager.PLUGIN.METHOD`.
    ///
    /// # Errors
    /// That of the function.
    fn service_register(&self, plugin: &str, method: &str, guests: bool) -> Result<(), Errno>;

    /// `flux_jobtap_job_lookup`: the arguments that a callback about this job would have.
    ///
    /// # Errors
    /// That of the function.
    fn job_lookup(&self, job: JobId) -> Result<Self::Json, Errno>;

    /// `flux_jobtap_job_subscribe`
    ///
    /// # Errors
    /// That of the function.
    fn job_subscribe(&self, job: JobId) -> Result<(), Errno>;

    /// `flux_jobtap_dependency_add`
    ///
    /// # Errors
    /// That of the function.
    fn dependency_add(&self, job: JobId, description: &str) -> Result<(), Errno>;

    /// `flux_jobtap_dependency_remove`
    ///
    /// # Errors
    /// That of the function.
    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno>;

    /// `flux_jobtap_event_post_pack`
    ///
    /// # Errors
    /// That of the function; EINVAL for a context that jansson can't hold.
    fn event_post(
        &self,
        job: JobId,
        name: &str,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Errno>;

    /// `flux_jobtap_prolog_finish`
    ///
    /// # Errors
    /// That of the function.
    fn prolog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno>;

    /// `flux_jobtap_epilog_finish`
    ///
    /// # Errors
    /// That of the function.
    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno>;

    /// `flux_jobtap_raise_exception`
    ///
    /// # Errors
    /// That of the function.
    fn raise_exception(
        &self,
        job: JobId,
        kind: &str,
        severity: u8,
        note: &str,
    ) -> Result<(), Errno>;

    /// `flux_jobtap_reprioritize_job`
    ///
    /// # Errors
    /// That of the function.
    fn reprioritize_job(&self, job: JobId, priority: u32) -> Result<(), Errno>;

    /// `flux_jobtap_reprioritize_all`
    ///
    /// # Errors
    /// That of the function.
    fn reprioritize_all(&self) -> Result<(), Errno>;

    /// `flux_jobtap_job_set_flag`
    ///
    /// # Errors
    /// That of the function.
    fn job_set_flag(&self, job: JobId, flag: &str) -> Result<(), Errno>;

    /// `flux_rpc`: a request whose failure is logged, as that of `what`. Nothing else waits for its response.
    fn rpc(&self, topic: &str, payload: &Value, what: String);

    /// `flux_kvs_lookup`: reads a key, and waits for it. `None` when there is no such key.
    ///
    /// # Errors
    /// Why it can't be read.
    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, String>;

    /// `flux_kvs_commit`: writes values. The adapter's `committed` is called when that is done, but for an
    /// error. Only one is under way at a time.
    ///
    /// # Errors
    /// Why it can't be sent.
    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), String>;

    /// `flux_kvs_commit`, and waits for it; before that, for one that is under way.
    ///
    /// # Errors
    /// Why it has failed.
    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), String>;

    /// `flux_timer_watcher_reset`: calls the adapter's `timer` after these seconds; never with `None`.
    fn set_timer(&self, after: Option<f64>);

    /// `flux_respond`. `is_last` says that there will be no other response to this request.
    fn respond(&self, to: ReplyTo, payload: &Value, is_last: bool);

    /// `flux_respond_error`: the last response.
    fn respond_error(&self, to: ReplyTo, errno: i32, text: &str);

    /// Starts what runs beside the callbacks.
    ///
    /// # Errors
    /// When the system has no thread left.
    fn workers(&self) -> io::Result<Box<dyn Workers>> {
        Ok(Box::new(Runtime::start()?))
    }
}
