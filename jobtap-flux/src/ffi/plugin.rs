//! Implements the safe trait [`Flux`] with the functions of libflux.
//!
//! A string or a value whose pointer is passed to C lives until the call has returned, and Flux copies what it keeps.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use jobtap_core::host::{ReplyTo, RpcKey, RpcRequest};
use jobtap_core::job::JobId;
use jobtap_core::plugin::{Level, ServiceError};
use serde_json::{Map, Value};

use super::entry;
use super::json::Json;
use super::sys::{self, Broker, FutureHandle, Message, PluginArgs, PluginHandle, Watcher};
use crate::flux::{Errno, Flux, KvsError};

/// The timeout of a look-up or a last commit, in seconds. The KVS answers within a millisecond. If it doesn't answer,
/// the instance is ending and must not hang in a plugin.
const PATIENCE: f64 = 30.0;

/// A plugin handle of Flux, and the watchers, futures and requests that belong to it.
///
/// It is created in `flux_plugin_init` and dropped in the destructor of an aux item of the handle, so the plugin
/// handle and the broker handle are valid as long as this value exists.
#[derive(Debug)]
pub(crate) struct Plugin {
    handle: NonNull<PluginHandle>,
    broker: NonNull<Broker>,
    /// The argument of all callbacks: the `Loaded` that owns this. Null until that has its final address.
    argument: Cell<*mut c_void>,
    timer: Cell<*mut Watcher>,
    wake: Cell<*mut Watcher>,
    /// The futures whose continuation hasn't run yet, and their purpose.
    futures: RefCell<HashMap<*mut FutureHandle, Waiting>>,
    /// The futures of plugins' requests, by their keys.
    requested: RefCell<HashMap<RpcKey, *mut FutureHandle>>,
    /// The requests to which the last response hasn't been sent. Each holds a reference to its message.
    requests: RefCell<HashMap<ReplyTo, NonNull<Message>>>,
    next_request: Cell<u64>,
}

/// The purpose of a future.
#[derive(Debug)]
enum Waiting {
    /// A commit.
    Commit,
    /// A request whose response is ignored; an error is logged with this text.
    Rpc(String),
    /// A request of a plugin to a service.
    Service(RpcKey),
    /// A read of a key in the KVS by a plugin.
    Kvs(RpcKey),
    /// A watch on the instance's resources.
    Resources,
}

/// The result of a future.
pub(super) enum Ready {
    /// A commit has succeeded or failed.
    Committed(Result<(), KvsError>),
    /// A request has failed: the text is to be logged.
    Failed(String),
    /// A request of a plugin has its response.
    Answered(RpcKey, Result<Value, ServiceError>),
    /// The instance's resources have changed.
    Resources(Value),
    /// There is nothing to do.
    Nothing,
}

fn c_string(text: &str) -> CString {
    // Truncate at a NUL, which a C string can't contain.
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Copies a C string; `None` for null.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
pub(super) unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` isn't null, so the caller guarantees a NUL-terminated string.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The system's last error.
fn errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(Errno::EINVAL.0))
}

fn check(result: c_int) -> Result<(), Errno> {
    match result {
        0.. => Ok(()),
        _ => Err(errno()),
    }
}

/// Describes the error of a future or, if it has none, the system's last error.
///
/// # Safety
/// `future` is valid.
unsafe fn error_of(future: *mut FutureHandle) -> String {
    let errno = errno();
    // SAFETY: the caller guarantees that the future is valid. The text, which the future owns, is copied at once.
    let text = unsafe {
        match sys::flux_future_has_error(future) {
            true => string(sys::flux_future_error_string(future)),
            false => None,
        }
    };
    text.unwrap_or_else(|| errno.to_string())
}

/// The response that a future of a plugin's request has.
///
/// # Safety
/// `future` is valid and ready, and `waiting` says how it was made.
unsafe fn response(future: *mut FutureHandle, waiting: &Waiting) -> Result<Value, ServiceError> {
    let mut text = ptr::null();
    // SAFETY: the caller guarantees that the future is valid. The text, which the future owns, is copied at once.
    unsafe {
        let result = match waiting {
            Waiting::Kvs(_) => sys::flux_kvs_lookup_get(future, &raw mut text),
            _ => sys::flux_rpc_get(future, &raw mut text),
        };
        if result < 0 {
            let Errno(number) = errno();
            return Err(ServiceError::new(number, error_of(future)));
        }
        let text = string(text);
        match (waiting, text) {
            // A value may be empty, and a response may have no payload.
            (Waiting::Kvs(_), text) => Ok(Value::String(text.unwrap_or_default())),
            (_, None) => Ok(Value::Null),
            (_, Some(text)) => serde_json::from_str(&text)
                .map_err(|error| ServiceError::new(Errno::EPROTO.0, error.to_string())),
        }
    }
}

impl Plugin {
    /// Wraps a plugin handle.
    ///
    /// # Safety
    /// `handle` is the handle with which Flux has called `flux_plugin_init`, and the result is dropped before Flux
    /// destroys the handle.
    pub(super) unsafe fn new(handle: NonNull<PluginHandle>) -> Result<Self, Errno> {
        // SAFETY: the caller guarantees that the handle is valid.
        let broker = unsafe { sys::flux_jobtap_get_flux(handle.as_ptr()) };
        let broker = NonNull::new(broker).ok_or_else(errno)?;
        Ok(Self {
            handle,
            broker,
            argument: Cell::new(ptr::null_mut()),
            timer: Cell::new(ptr::null_mut()),
            wake: Cell::new(ptr::null_mut()),
            futures: RefCell::default(),
            requested: RefCell::default(),
            requests: RefCell::default(),
            next_request: Cell::new(0),
        })
    }

    fn p(&self) -> *mut PluginHandle {
        self.handle.as_ptr()
    }

    fn h(&self) -> *mut Broker {
        self.broker.as_ptr()
    }

    pub(super) fn set_argument(&self, argument: *mut c_void) {
        self.argument.set(argument);
    }

    /// Attaches a value to the handle: Flux calls `free` with it when it destroys the handle.
    ///
    /// # Safety
    /// It is sound to call `free` with `value` once, on this thread, when the handle is destroyed.
    pub(super) unsafe fn own(
        &self,
        key: &CStr,
        value: *mut c_void,
        free: sys::Free,
    ) -> Result<(), Errno> {
        // SAFETY: the handle is valid, Flux copies the key, and the caller guarantees that `free` may be called.
        check(unsafe { sys::flux_plugin_aux_set(self.p(), key.as_ptr(), value, Some(free)) })
    }

    /// Returns the path of the loaded file.
    pub(super) fn path(&self) -> String {
        // SAFETY: the handle is valid, and the text is copied.
        unsafe { string(sys::flux_plugin_get_path(self.p())) }.unwrap_or_default()
    }

    /// `flux_plugin_set_name`
    pub(super) fn set_name(&self, name: &str) {
        // SAFETY: the handle and the name are valid; Flux copies the name. It fails only if memory is exhausted.
        let _ = unsafe { sys::flux_plugin_set_name(self.p(), c_string(name).as_ptr()) };
    }

    /// `flux_jobtap_set_load_sort_order`
    pub(super) fn set_load_sort_order(&self, mode: &str) -> Result<(), Errno> {
        let mode = c_string(mode);
        // SAFETY: the handle and the mode are valid; Flux copies the mode.
        check(unsafe { sys::flux_jobtap_set_load_sort_order(self.p(), mode.as_ptr()) })
    }

    /// Creates the timer and the watcher of the inbox.
    pub(super) fn watch(&self, inbox: c_int) -> Result<(), Errno> {
        let argument = self.argument.get();
        // SAFETY: the broker handle is valid and has a reactor. `close` destroys the watchers before their argument,
        // the `Loaded` that owns this, is freed. `inbox` lives as long, since the `Loaded` owns it too. A watcher that
        // can't be created is null and isn't started.
        unsafe {
            let reactor = sys::flux_get_reactor(self.h());
            let timer =
                sys::flux_timer_watcher_create(reactor, 0.0, 0.0, entry::on_timer, argument);
            self.timer.set(timer);
            let wake = sys::flux_fd_watcher_create(
                reactor,
                inbox,
                sys::FLUX_POLLIN,
                entry::on_wake,
                argument,
            );
            self.wake.set(wake);
            if timer.is_null() || wake.is_null() {
                return Err(errno());
            }
            sys::flux_watcher_start(wake);
        }
        Ok(())
    }

    /// Starts a watch on the instance's resources in the KVS.
    pub(super) fn follow_resources(&self) {
        let flags = sys::FLUX_KVS_WATCH | sys::FLUX_KVS_WAITCREATE;
        // SAFETY: the broker handle and the key are valid, and null means the default namespace.
        let future =
            unsafe { sys::flux_kvs_lookup(self.h(), ptr::null(), flags, c"resource.R".as_ptr()) };
        if let Err(errno) = self.then(future, Waiting::Resources) {
            self.log(Level::Error, &format!("resource.R: {errno}"));
        }
    }

    /// Registers `on_future` as the continuation of a future and keeps the future until it is called. If that fails, it
    /// destroys the future. Call this right after the function that makes the future: for a null future it returns the
    /// error of that function.
    fn then(&self, future: *mut FutureHandle, waiting: Waiting) -> Result<(), Errno> {
        if future.is_null() {
            return Err(errno());
        }
        // SAFETY: the future isn't null and is ours. `ready`, `kvs_commit_and_wait` or `close` destroys it before its
        // argument is freed.
        let result =
            unsafe { sys::flux_future_then(future, -1.0, entry::on_future, self.argument.get()) };
        if result < 0 {
            let error = errno();
            // SAFETY: the future is ours and isn't in `futures`, so it is destroyed once.
            unsafe { sys::flux_future_destroy(future) };
            return Err(error);
        }
        if let Waiting::Service(key) | Waiting::Kvs(key) = waiting {
            self.requested.borrow_mut().insert(key, future);
        }
        self.futures.borrow_mut().insert(future, waiting);
        Ok(())
    }

    /// Takes the result of a future that is ready.
    ///
    /// # Safety
    /// `future` is the one with which Flux has called `on_future`.
    pub(super) unsafe fn ready(&self, future: *mut FutureHandle) -> Ready {
        let Some(waiting) = self.futures.borrow_mut().remove(&future) else {
            return Ready::Nothing;
        };
        if let Waiting::Resources = waiting {
            let mut text = ptr::null();
            // SAFETY: the future was in `futures`, so it is valid. Its text is valid until the future is reset, and is
            // copied before. If the future is destroyed, it is no longer in `futures`.
            let value = unsafe {
                let result = sys::flux_kvs_lookup_get(future, &raw mut text);
                if result < 0 {
                    sys::flux_future_destroy(future);
                    // There is no resource.R, or the instance is ending.
                    return Ready::Nothing;
                }
                let value = string(text).and_then(|text| serde_json::from_str(&text).ok());
                sys::flux_future_reset(future);
                value
            };
            self.futures.borrow_mut().insert(future, Waiting::Resources);
            return value.map_or(Ready::Nothing, Ready::Resources);
        }
        if let Waiting::Service(key) | Waiting::Kvs(key) = waiting {
            self.requested.borrow_mut().remove(&key);
            // SAFETY: as below.
            let response = unsafe {
                let response = response(future, &waiting);
                sys::flux_future_destroy(future);
                response
            };
            return Ready::Answered(key, response);
        }
        // SAFETY: the future was in `futures`, so it is valid. It isn't any more, so it is destroyed once.
        let result = unsafe {
            let result = match sys::flux_future_get(future, ptr::null_mut()) {
                0.. => Ok(()),
                _ => Err(error_of(future)),
            };
            sys::flux_future_destroy(future);
            result
        };
        match (waiting, result) {
            (Waiting::Commit, result) => Ready::Committed(result.map_err(KvsError::Refused)),
            (Waiting::Rpc(what), Err(error)) => Ready::Failed(format!("{what}: {error}")),
            _ => Ready::Nothing,
        }
    }

    /// Keeps a request until the last response to it is sent.
    ///
    /// # Safety
    /// `message` is valid during this call.
    pub(super) unsafe fn keep(&self, message: *const Message) -> Option<ReplyTo> {
        let to = ReplyTo(self.next_request.get());
        self.next_request.set(to.0 + 1);
        // SAFETY: the caller guarantees that the message is valid. This takes a reference of our own.
        let message = unsafe { sys::flux_msg_incref(message) };
        self.requests.borrow_mut().insert(to, NonNull::new(message.cast_mut())?);
        Some(to)
    }

    fn with_request(&self, to: ReplyTo, is_last: bool, call: impl FnOnce(*const Message)) {
        let found = match is_last {
            true => self.requests.borrow_mut().remove(&to),
            false => self.requests.borrow().get(&to).copied(),
        };
        let Some(message) = found else { return };
        call(message.as_ptr());
        if is_last {
            // SAFETY: this releases the reference that `keep` has taken. The request isn't in the map any more.
            unsafe { sys::flux_msg_decref(message.as_ptr()) };
        }
    }

    fn commit(&self, values: &[(String, String)]) -> Result<*mut FutureHandle, KvsError> {
        // SAFETY: the transaction isn't null and is ours, and is destroyed once, at the end. Flux copies the keys, the
        // values, and what the commit needs from the transaction.
        unsafe {
            let txn = sys::flux_kvs_txn_create();
            if txn.is_null() {
                return Err(errno().into());
            }
            let mut failed = None;
            for (key, value) in values {
                let (c_key, c_value) = (c_string(key), c_string(value));
                if sys::flux_kvs_txn_put(txn, 0, c_key.as_ptr(), c_value.as_ptr()) < 0 {
                    failed = Some(KvsError::Put { key: key.clone(), errno: errno() });
                    break;
                }
            }
            let future = match &failed {
                None => sys::flux_kvs_commit(self.h(), ptr::null(), 0, txn),
                Some(_) => ptr::null_mut(),
            };
            let error = errno();
            sys::flux_kvs_txn_destroy(txn);
            match future.is_null() {
                true => Err(failed.unwrap_or(error.into())),
                false => Ok(future),
            }
        }
    }

    /// Destroys the futures and watchers and drops the requests. After this, Flux calls nothing for them.
    pub(super) fn close(&self) {
        for (future, waiting) in self.futures.borrow_mut().drain() {
            // SAFETY: each future is ours and is destroyed once, since it isn't in the map any more.
            unsafe {
                if let Waiting::Resources = waiting {
                    let _ = sys::flux_kvs_lookup_cancel(future);
                }
                sys::flux_future_destroy(future);
            }
        }
        for watcher in [self.timer.take(), self.wake.take()] {
            if !watcher.is_null() {
                // SAFETY: the watcher is ours and is destroyed once, since it isn't in its cell any more.
                unsafe {
                    sys::flux_watcher_stop(watcher);
                    sys::flux_watcher_destroy(watcher);
                }
            }
        }
        for (_, message) in self.requests.borrow_mut().drain() {
            // SAFETY: this releases the reference that `keep` has taken, once.
            unsafe { sys::flux_msg_decref(message.as_ptr()) };
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.close();
    }
}

impl Flux for Plugin {
    type Json = Json;

    fn now(&self) -> f64 {
        // SAFETY: the broker handle is valid and has a reactor.
        unsafe { sys::flux_reactor_now(sys::flux_get_reactor(self.h())) }
    }

    fn attribute(&self, name: &str) -> Option<String> {
        // SAFETY: the broker handle and the name are valid; the result is copied.
        unsafe { string(sys::flux_attr_get(self.h(), c_string(name).as_ptr())) }
    }

    fn given(&self) -> Option<Value> {
        // SAFETY: the handle is valid, and the text is copied.
        let text = unsafe { string(sys::flux_plugin_get_conf(self.p())) };
        serde_json::from_str(&text?).ok()
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Error => 3,
            Level::Warning => 4,
            Level::Info => 6,
            Level::Debug => 7,
        };
        let text = c_string(text);
        // SAFETY: the broker handle is valid, and "%s" takes one string.
        let _ = unsafe { sys::flux_log(self.h(), level, c"%s".as_ptr(), text.as_ptr()) };
    }

    fn add_handler(&self, topic: &str) -> Result<(), Errno> {
        let topic = c_string(topic);
        // SAFETY: the handle and the topic are valid; Flux copies the topic. The argument lives until Flux destroys the
        // handle's aux items, after which it calls no handler.
        check(unsafe {
            sys::flux_plugin_add_handler(
                self.p(),
                topic.as_ptr(),
                entry::on_call,
                self.argument.get(),
            )
        })
    }

    fn service_register(&self, plugin: &str, method: &str, guests: bool) -> Result<(), Errno> {
        // Flux names a service after the plugin handle, which may contain several of our plugins. So give it the name
        // of this plugin for a moment.
        // SAFETY: the handle is valid, and the text is copied.
        let name = unsafe { string(sys::flux_plugin_get_name(self.p())) };
        self.set_name(plugin.strip_prefix('.').unwrap_or(plugin));
        let c_method = c_string(method);
        let method = if method.is_empty() { ptr::null() } else { c_method.as_ptr() };
        let roles = if guests { sys::FLUX_ROLE_USER } else { 0 };
        // SAFETY: the handle is valid, and the method is valid or null; Flux copies it. The argument lives until Flux
        // destroys the handle's aux items, during which it dispatches no message.
        let registered = check(unsafe {
            sys::flux_jobtap_service_register_ex(
                self.p(),
                method,
                roles,
                entry::on_request,
                self.argument.get(),
            )
        });
        if let Some(name) = name {
            self.set_name(&name);
        }
        registered
    }

    fn job_lookup(&self, job: JobId) -> Result<Json, Errno> {
        // SAFETY: the handle is valid. The arguments aren't null and are ours: they are destroyed once, after
        // `input_of` has taken a reference of its own to their object.
        unsafe {
            let args = sys::flux_jobtap_job_lookup(self.p(), job.as_u64());
            if args.is_null() {
                return Err(errno());
            }
            let input = input_of(args);
            sys::flux_plugin_arg_destroy(args);
            input.ok_or(Errno::EINVAL)
        }
    }

    fn job_subscribe(&self, job: JobId) -> Result<(), Errno> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::flux_jobtap_job_subscribe(self.p(), job.as_u64()) })
    }

    fn dependency_add(&self, job: JobId, description: &str) -> Result<(), Errno> {
        let description = c_string(description);
        // SAFETY: the handle and the description are valid; Flux copies the description.
        check(unsafe {
            sys::flux_jobtap_dependency_add(self.p(), job.as_u64(), description.as_ptr())
        })
    }

    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno> {
        let description = c_string(description);
        // SAFETY: as in `dependency_add`.
        check(unsafe {
            sys::flux_jobtap_dependency_remove(self.p(), job.as_u64(), description.as_ptr())
        })
    }

    fn event_post(
        &self,
        job: JobId,
        name: &str,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Errno> {
        let name = c_string(name);
        let Some(context) = context else {
            // SAFETY: as in `dependency_add`; a null format means an event without a context.
            return check(unsafe {
                sys::flux_jobtap_event_post_pack(self.p(), job.as_u64(), name.as_ptr(), ptr::null())
            });
        };
        let text = serde_json::to_string(context).map_err(|_| Errno::EINVAL)?;
        let context = Json::parse(&text).ok_or(Errno::EINVAL)?;
        // SAFETY: as in `dependency_add`. "O" takes a reference of its own to `context`, which lives until the call has
        // returned.
        check(unsafe {
            sys::flux_jobtap_event_post_pack(
                self.p(),
                job.as_u64(),
                name.as_ptr(),
                c"O".as_ptr(),
                context.as_ptr(),
            )
        })
    }

    fn prolog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        let description = c_string(description);
        // SAFETY: as in `dependency_add`.
        check(unsafe {
            sys::flux_jobtap_prolog_finish(self.p(), job.as_u64(), description.as_ptr(), status)
        })
    }

    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        let description = c_string(description);
        // SAFETY: as in `dependency_add`.
        check(unsafe {
            sys::flux_jobtap_epilog_finish(self.p(), job.as_u64(), description.as_ptr(), status)
        })
    }

    fn raise_exception(
        &self,
        job: JobId,
        kind: &str,
        severity: u8,
        note: &str,
    ) -> Result<(), Errno> {
        let (kind, note) = (c_string(kind), c_string(note));
        // SAFETY: as in `dependency_add`; "%s" takes one string.
        check(unsafe {
            sys::flux_jobtap_raise_exception(
                self.p(),
                job.as_u64(),
                kind.as_ptr(),
                c_int::from(severity),
                c"%s".as_ptr(),
                note.as_ptr(),
            )
        })
    }

    fn reprioritize_job(&self, job: JobId, priority: u32) -> Result<(), Errno> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::flux_jobtap_reprioritize_job(self.p(), job.as_u64(), priority) })
    }

    fn reprioritize_all(&self) -> Result<(), Errno> {
        // SAFETY: the handle is valid.
        check(unsafe { sys::flux_jobtap_reprioritize_all(self.p()) })
    }

    fn job_set_flag(&self, job: JobId, flag: &str) -> Result<(), Errno> {
        let flag = c_string(flag);
        // SAFETY: as in `dependency_add`.
        check(unsafe { sys::flux_jobtap_job_set_flag(self.p(), job.as_u64(), flag.as_ptr()) })
    }

    fn rpc(&self, topic: &str, payload: &Value, what: String) {
        let (topic, payload) = (c_string(topic), c_string(&payload.to_string()));
        // SAFETY: the broker handle, the topic and the payload are valid; Flux copies both texts.
        let future = unsafe {
            sys::flux_rpc(self.h(), topic.as_ptr(), payload.as_ptr(), sys::FLUX_NODEID_ANY, 0)
        };
        if let Err(errno) = self.then(future, Waiting::Rpc(what.clone())) {
            self.log(Level::Error, &format!("{what}: {errno}"));
        }
    }

    fn send(&self, key: RpcKey, request: &RpcRequest) -> Result<(), Errno> {
        // SAFETY: the broker handle and the texts are valid, and Flux copies the texts; null means the default
        // namespace.
        unsafe {
            match request {
                RpcRequest::Service { topic, payload } => {
                    let (topic, payload) = (c_string(topic), c_string(&payload.to_string()));
                    let node = sys::FLUX_NODEID_ANY;
                    let future = sys::flux_rpc(self.h(), topic.as_ptr(), payload.as_ptr(), node, 0);
                    self.then(future, Waiting::Service(key))
                }
                RpcRequest::Kvs { key: name } => {
                    let name = c_string(name);
                    let future = sys::flux_kvs_lookup(self.h(), ptr::null(), 0, name.as_ptr());
                    self.then(future, Waiting::Kvs(key))
                }
            }
        }
    }

    fn cancel(&self, key: RpcKey) {
        let Some(future) = self.requested.borrow_mut().remove(&key) else { return };
        if self.futures.borrow_mut().remove(&future).is_some() {
            // SAFETY: the future was in `futures`, so it is valid. It isn't any more, so it is destroyed once. Flux
            // frees its matchtag when the response comes, and drops that.
            unsafe { sys::flux_future_destroy(future) };
        }
    }

    fn send_no_response(&self, topic: &str, payload: &Value) -> Result<(), Errno> {
        let (topic, payload) = (c_string(topic), c_string(&payload.to_string()));
        let (node, flags) = (sys::FLUX_NODEID_ANY, sys::FLUX_RPC_NORESPONSE);
        // SAFETY: the broker handle and the texts are valid, and Flux copies the texts. The future is ours, and is
        // destroyed once.
        unsafe {
            let future = sys::flux_rpc(self.h(), topic.as_ptr(), payload.as_ptr(), node, flags);
            if future.is_null() {
                return Err(errno());
            }
            sys::flux_future_destroy(future);
        }
        Ok(())
    }

    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, KvsError> {
        let key = c_string(key);
        let mut text = ptr::null();
        // SAFETY: the broker handle and the key are valid. The future isn't null and is ours: it is destroyed once,
        // after its text has been copied. While this waits, Flux dispatches no other message, so it calls nothing of
        // ours.
        unsafe {
            let future = sys::flux_kvs_lookup(self.h(), ptr::null(), 0, key.as_ptr());
            if future.is_null() {
                return Err(errno().into());
            }
            let waited = sys::flux_future_wait_for(future, PATIENCE);
            let result = match waited {
                0.. => sys::flux_kvs_lookup_get(future, &raw mut text),
                failed => failed,
            };
            let found = match result {
                0.. => Ok(Some(string(text).unwrap_or_default())),
                _ if errno() == Errno::ENOENT => Ok(None),
                _ => Err(KvsError::Refused(error_of(future))),
            };
            sys::flux_future_destroy(future);
            found
        }
    }

    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), KvsError> {
        let future = self.commit(values)?;
        Ok(self.then(future, Waiting::Commit)?)
    }

    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), KvsError> {
        let mut waited = Ok(());
        let pending: Vec<*mut FutureHandle> = {
            let mut futures = self.futures.borrow_mut();
            let commits = futures.extract_if(|_, waiting| matches!(waiting, Waiting::Commit));
            commits.map(|(future, _)| future).collect()
        };
        let last = match values.is_empty() {
            true => Ok(None),
            false => self.commit(values).map(Some),
        };
        // The pending ones are waited for and destroyed also if the last one can't be sent: Flux would call their
        // continuations when this plugin is unloaded.
        let sent = last.as_ref().ok().copied().flatten();
        for future in pending.into_iter().chain(sent) {
            // SAFETY: each future is ours and is destroyed once: it isn't in the map any more, or never was.
            unsafe {
                if sys::flux_future_wait_for(future, PATIENCE) < 0
                    || sys::flux_future_get(future, ptr::null_mut()) < 0
                {
                    waited = Err(KvsError::Refused(error_of(future)));
                }
                sys::flux_future_destroy(future);
            }
        }
        last.and(waited)
    }

    fn set_timer(&self, after: Option<f64>) {
        let timer = self.timer.get();
        if timer.is_null() {
            return;
        }
        // SAFETY: the watcher is ours and isn't null. Flux requires that a timer is stopped when it is reset.
        unsafe {
            sys::flux_watcher_stop(timer);
            if let Some(after) = after {
                sys::flux_timer_watcher_reset(timer, after, 0.0);
                sys::flux_watcher_start(timer);
            }
        }
    }

    fn respond(&self, to: ReplyTo, payload: &Value, is_last: bool) {
        let payload = c_string(&payload.to_string());
        self.with_request(to, is_last, |message| {
            // SAFETY: `with_request` releases the reference to the message only after this call, and Flux copies the
            // payload. The call fails if the client has disconnected.
            let _ = unsafe { sys::flux_respond(self.h(), message, payload.as_ptr()) };
        });
    }

    fn respond_error(&self, to: ReplyTo, errno: i32, text: &str) {
        let c_text = c_string(text);
        let text = if text.is_empty() { ptr::null() } else { c_text.as_ptr() };
        self.with_request(to, true, |message| {
            // SAFETY: as in `respond`; null means that there is no text.
            let _ = unsafe { sys::flux_respond_error(self.h(), message, errno, text) };
        });
    }
}

/// Returns the input object of a callback's arguments.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn input_of(args: *mut PluginArgs) -> Option<Json> {
    let mut raw: *mut sys::RawJson = ptr::null_mut();
    // SAFETY: the caller guarantees that `args` is valid. "o" lends the object, to which `borrowed` takes a reference
    // at once.
    unsafe {
        let flags = sys::FLUX_PLUGIN_ARG_IN;
        match sys::flux_plugin_arg_unpack(args, flags, c"o".as_ptr(), &raw mut raw) {
            0.. => Json::borrowed(raw),
            _ => None,
        }
    }
}

/// Sets a member of the output object of a callback. Returns whether that was possible.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn set_out(args: *mut PluginArgs, key: &str, value: &Value) -> bool {
    let (key, flags) = (c_string(key), sys::FLUX_PLUGIN_ARG_OUT);
    let Some(json) = Json::from_value(value) else { return false };
    // SAFETY: the caller guarantees that `args` is valid. "{s:o}" takes a key, which is copied, and a reference, which
    // `into_raw` hands over.
    unsafe {
        sys::flux_plugin_arg_pack(args, flags, c"{s:o}".as_ptr(), key.as_ptr(), json.into_raw())
            >= 0
    }
}

/// Sets the priority in the output object of a callback. Returns whether that was possible.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn set_priority(args: *mut PluginArgs, priority: i64) -> bool {
    let flags = sys::FLUX_PLUGIN_ARG_OUT;
    // SAFETY: the caller guarantees that `args` is valid. "{s:I}" takes a key and a 64-bit integer.
    unsafe {
        sys::flux_plugin_arg_pack(args, flags, c"{s:I}".as_ptr(), c"priority".as_ptr(), priority)
            >= 0
    }
}

/// Sets the text of a refusal in the output object of a callback.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn set_error(args: *mut PluginArgs, text: &str) {
    let (text, flags) = (c_string(text), sys::FLUX_PLUGIN_ARG_OUT);
    // SAFETY: the caller guarantees that `args` is valid. "{s:s}" takes a key and a string, and copies both.
    let _ = unsafe {
        sys::flux_plugin_arg_pack(args, flags, c"{s:s}".as_ptr(), c"errmsg".as_ptr(), text.as_ptr())
    };
}
