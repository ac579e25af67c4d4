//! The functions behind the safe trait [`Flux`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use jobtap_core::host::ReplyTo;
use jobtap_core::job::JobId;
use jobtap_core::plugin::Level;
use serde_json::{Map, Value};

use super::entry;
use super::json::Json;
use super::sys::{self, Broker, FutureHandle, Message, PluginArgs, PluginHandle, Watcher};
use crate::flux::{Errno, Flux};

/// How long a look-up or a last commit may take. The KVS answers within a millisecond; without it the
/// instance is at its end, and must not hang in a plugin.
const PATIENCE: f64 = 30.0;

/// A plugin handle of Flux, and what belongs to it.
///
/// It is made in `flux_plugin_init` and dropped in the destructor of an aux item of the handle, so that the
/// handle and the broker's are valid as long as it is.
#[derive(Debug)]
pub(crate) struct Plugin {
    handle: NonNull<PluginHandle>,
    broker: NonNull<Broker>,
    /// What callbacks get as their argument: the `Loaded` that owns this. Null until that is in its place.
    argument: Cell<*mut c_void>,
    timer: Cell<*mut Watcher>,
    wake: Cell<*mut Watcher>,
    /// Futures with a continuation that has not run, and what they are.
    futures: RefCell<HashMap<*mut FutureHandle, Waiting>>,
    /// Requests that have not had their last response.
    requests: RefCell<HashMap<ReplyTo, NonNull<Message>>>,
    next_request: Cell<u64>,
}

/// What a future is for.
#[derive(Debug)]
enum Waiting {
    /// A commit.
    Commit,
    /// A request that only its failure is logged of, as this.
    Rpc(String),
    /// The instance's resources, which are followed.
    Resources,
}

/// What a future has come to.
pub(super) enum Ready {
    /// A commit.
    Committed(Result<(), String>),
    /// Something to log.
    Failed(String),
    /// The instance's resources.
    Resources(Value),
    /// Nothing.
    Nothing,
}

fn c_string(text: &str) -> CString {
    // Cut at a NUL, which no text for C can have.
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// # Safety
/// `text` is null or a string that ends with NUL.
pub(super) unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
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

/// # Safety
/// `future` is valid.
unsafe fn error_of(future: *mut FutureHandle) -> String {
    let errno = errno();
    // SAFETY: the caller says that it is valid; the text is copied at once.
    let text = unsafe {
        match sys::flux_future_has_error(future) {
            true => string(sys::flux_future_error_string(future)),
            false => None,
        }
    };
    text.unwrap_or_else(|| errno.to_string())
}

impl Plugin {
    /// # Safety
    /// `handle` is the handle that `flux_plugin_init` was called with, and this is dropped before it ends.
    pub(super) unsafe fn new(handle: NonNull<PluginHandle>) -> Result<Self, Errno> {
        // SAFETY: the caller says that the handle is valid.
        let broker = unsafe { sys::flux_jobtap_get_flux(handle.as_ptr()) };
        let broker = NonNull::new(broker).ok_or_else(errno)?;
        Ok(Self {
            handle,
            broker,
            argument: Cell::new(ptr::null_mut()),
            timer: Cell::new(ptr::null_mut()),
            wake: Cell::new(ptr::null_mut()),
            futures: RefCell::default(),
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

    /// Ties a value to the handle: `free` is called with it when Flux destroys the handle.
    ///
    /// # Safety
    /// `free` may be called with `value`, once and on this thread.
    pub(super) unsafe fn own(
        &self,
        key: &CStr,
        value: *mut c_void,
        free: sys::Free,
    ) -> Result<(), Errno> {
        // SAFETY: the handle is valid, Flux copies the key, and the caller answers for the rest.
        check(unsafe { sys::flux_plugin_aux_set(self.p(), key.as_ptr(), value, Some(free)) })
    }

    /// The file that was loaded.
    pub(super) fn path(&self) -> String {
        // SAFETY: the handle is valid, and the text is copied.
        unsafe { string(sys::flux_plugin_get_path(self.p())) }.unwrap_or_default()
    }

    /// `flux_plugin_set_name`
    pub(super) fn set_name(&self, name: &str) {
        // SAFETY: both are valid; Flux copies the name. It fails only without memory.
        let _ = unsafe { sys::flux_plugin_set_name(self.p(), c_string(name).as_ptr()) };
    }

    /// `flux_jobtap_set_load_sort_order`
    pub(super) fn set_load_sort_order(&self, mode: &str) -> Result<(), Errno> {
        let mode = c_string(mode);
        // SAFETY: both are valid; Flux copies the mode.
        check(unsafe { sys::flux_jobtap_set_load_sort_order(self.p(), mode.as_ptr()) })
    }

    /// Makes the timer, and the watcher of the inbox.
    pub(super) fn watch(&self, inbox: c_int) -> Result<(), Errno> {
        let argument = self.argument.get();
        // SAFETY: the broker's handle is valid and has a reactor. The watchers are destroyed in `drop`, before
        // their argument ends, which owns this. `inbox` lives as long as the argument, which owns it too.
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

    /// Follows the instance's resources in the KVS.
    pub(super) fn follow_resources(&self) {
        let flags = sys::FLUX_KVS_WATCH | sys::FLUX_KVS_WAITCREATE;
        // SAFETY: the broker's handle is valid, null is the default namespace, and Flux copies the key.
        let future =
            unsafe { sys::flux_kvs_lookup(self.h(), ptr::null(), flags, c"resource.R".as_ptr()) };
        self.then(future, Waiting::Resources);
    }

    /// Has `on_future` called for a future, and keeps it until then.
    fn then(&self, future: *mut FutureHandle, waiting: Waiting) -> bool {
        if future.is_null() {
            return false;
        }
        // SAFETY: the future is new. It is destroyed in `drop` or in `ready`, so before its argument ends.
        let result =
            unsafe { sys::flux_future_then(future, -1.0, entry::on_future, self.argument.get()) };
        if result < 0 {
            // SAFETY: it is ours, and nothing else has it.
            unsafe { sys::flux_future_destroy(future) };
            return false;
        }
        self.futures.borrow_mut().insert(future, waiting);
        true
    }

    /// A future is ready.
    ///
    /// # Safety
    /// `future` is the one that `on_future` was called with.
    pub(super) unsafe fn ready(&self, future: *mut FutureHandle) -> Ready {
        let Some(waiting) = self.futures.borrow_mut().remove(&future) else {
            return Ready::Nothing;
        };
        if let Waiting::Resources = waiting {
            let mut text = ptr::null();
            // SAFETY: the future is valid; the text is valid until it is reset, and copied before.
            let value = unsafe {
                let result = sys::flux_kvs_lookup_get(future, &raw mut text);
                if result < 0 {
                    sys::flux_future_destroy(future);
                    // Without resource.R, or when the instance is at its end.
                    return Ready::Nothing;
                }
                let value = string(text).and_then(|text| serde_json::from_str(&text).ok());
                sys::flux_future_reset(future);
                value
            };
            self.futures.borrow_mut().insert(future, Waiting::Resources);
            return value.map_or(Ready::Nothing, Ready::Resources);
        }
        // SAFETY: the future is valid, and was taken out of `futures`, so that it is destroyed once.
        let result = unsafe {
            let result = match sys::flux_future_get(future, ptr::null_mut()) {
                0.. => Ok(()),
                _ => Err(error_of(future)),
            };
            sys::flux_future_destroy(future);
            result
        };
        match (waiting, result) {
            (Waiting::Commit, result) => Ready::Committed(result),
            (Waiting::Rpc(what), Err(error)) => Ready::Failed(format!("{what}: {error}")),
            _ => Ready::Nothing,
        }
    }

    /// Keeps a request until its last response.
    ///
    /// # Safety
    /// `message` is valid for the time of this call.
    pub(super) unsafe fn keep(&self, message: *const Message) -> Option<ReplyTo> {
        let to = ReplyTo(self.next_request.get());
        self.next_request.set(to.0 + 1);
        // SAFETY: the caller says that it is valid; this takes a reference of our own.
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
            // SAFETY: the reference that `keep` took, which is out of the map.
            unsafe { sys::flux_msg_decref(message.as_ptr()) };
        }
    }

    fn commit(&self, values: &[(String, String)]) -> Result<*mut FutureHandle, String> {
        // SAFETY: the transaction is ours and destroyed at the end; Flux copies keys and values, and what it
        // needs of the transaction.
        unsafe {
            let txn = sys::flux_kvs_txn_create();
            if txn.is_null() {
                return Err(errno().to_string());
            }
            let mut failed = None;
            for (key, value) in values {
                let (c_key, c_value) = (c_string(key), c_string(value));
                if sys::flux_kvs_txn_put(txn, 0, c_key.as_ptr(), c_value.as_ptr()) < 0 {
                    failed = Some(format!("{key}: {}", errno()));
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
                true => Err(failed.unwrap_or_else(|| error.to_string())),
                false => Ok(future),
            }
        }
    }

    /// Destroys the futures, watchers and requests. What has not come by then does not come any more.
    pub(super) fn close(&self) {
        for (future, waiting) in self.futures.borrow_mut().drain() {
            // SAFETY: each is ours, and is destroyed once, since it is out of the map.
            unsafe {
                if let Waiting::Resources = waiting {
                    let _ = sys::flux_kvs_lookup_cancel(future);
                }
                sys::flux_future_destroy(future);
            }
        }
        for watcher in [self.timer.take(), self.wake.take()] {
            if !watcher.is_null() {
                // SAFETY: ours, and taken out of its cell.
                unsafe {
                    sys::flux_watcher_stop(watcher);
                    sys::flux_watcher_destroy(watcher);
                }
            }
        }
        for (_, message) in self.requests.borrow_mut().drain() {
            // SAFETY: the reference that `keep` took.
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
        // SAFETY: the broker's handle is valid and has a reactor.
        unsafe { sys::flux_reactor_now(sys::flux_get_reactor(self.h())) }
    }

    fn attribute(&self, name: &str) -> Option<String> {
        // SAFETY: both are valid; the text is copied.
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
        // SAFETY: the broker's handle is valid, and "%s" takes one string.
        let _ = unsafe { sys::flux_log(self.h(), level, c"%s".as_ptr(), text.as_ptr()) };
    }

    fn add_handler(&self, topic: &str) -> Result<(), Errno> {
        let topic = c_string(topic);
        // SAFETY: all are valid; Flux copies the topic. The argument lives until the handle's aux items are
        // destroyed, and Flux calls no handler then.
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
        // Flux names a service after the plugin's handle, which may stand for several of ours.
        // SAFETY: the handle is valid, and the text is copied.
        let name = unsafe { string(sys::flux_plugin_get_name(self.p())) };
        self.set_name(plugin.strip_prefix('.').unwrap_or(plugin));
        let c_method = c_string(method);
        let method = if method.is_empty() { ptr::null() } else { c_method.as_ptr() };
        let roles = if guests { sys::FLUX_ROLE_USER } else { 0 };
        // SAFETY: all are valid; Flux copies the method. The argument lives until the handle's aux items are
        // destroyed, and Flux dispatches no message meanwhile.
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
        // SAFETY: the handle is valid. The arguments are ours: their object is lent by "o", a reference of our
        // own is taken, and then they are destroyed.
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
        // SAFETY: all are valid; Flux copies the text. So for the functions below.
        check(unsafe {
            sys::flux_jobtap_dependency_add(self.p(), job.as_u64(), description.as_ptr())
        })
    }

    fn dependency_remove(&self, job: JobId, description: &str) -> Result<(), Errno> {
        let description = c_string(description);
        // SAFETY: see `dependency_add`.
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
            // SAFETY: see `dependency_add`; a null format is an event without a context.
            return check(unsafe {
                sys::flux_jobtap_event_post_pack(self.p(), job.as_u64(), name.as_ptr(), ptr::null())
            });
        };
        let text = serde_json::to_string(context).map_err(|_| Errno::EINVAL)?;
        let context = Json::parse(&text).ok_or(Errno::EINVAL)?;
        // SAFETY: as above. "O" takes a reference of its own to the value, which this keeps until then.
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
        // SAFETY: see `dependency_add`.
        check(unsafe {
            sys::flux_jobtap_prolog_finish(self.p(), job.as_u64(), description.as_ptr(), status)
        })
    }

    fn epilog_finish(&self, job: JobId, description: &str, status: i32) -> Result<(), Errno> {
        let description = c_string(description);
        // SAFETY: see `dependency_add`.
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
        // SAFETY: see `dependency_add`; "%s" takes one string.
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
        // SAFETY: see `dependency_add`.
        check(unsafe { sys::flux_jobtap_job_set_flag(self.p(), job.as_u64(), flag.as_ptr()) })
    }

    fn rpc(&self, topic: &str, payload: &Value, what: String) {
        let (topic, payload) = (c_string(topic), c_string(&payload.to_string()));
        // SAFETY: the broker's handle is valid; Flux copies topic and payload.
        let future = unsafe {
            sys::flux_rpc(self.h(), topic.as_ptr(), payload.as_ptr(), sys::FLUX_NODEID_ANY, 0)
        };
        if !self.then(future, Waiting::Rpc(what.clone())) {
            self.log(Level::Error, &format!("{what}: {}", errno()));
        }
    }

    fn kvs_lookup(&self, key: &str) -> Result<Option<String>, String> {
        let key = c_string(key);
        let mut text = ptr::null();
        // SAFETY: the broker's handle is valid, Flux copies the key, and the future is ours: its text is copied
        // before it is destroyed. The wait handles no other message, so that nothing is called back meanwhile.
        unsafe {
            let future = sys::flux_kvs_lookup(self.h(), ptr::null(), 0, key.as_ptr());
            if future.is_null() {
                return Err(errno().to_string());
            }
            let waited = sys::flux_future_wait_for(future, PATIENCE);
            let result = match waited {
                0.. => sys::flux_kvs_lookup_get(future, &raw mut text),
                failed => failed,
            };
            let found = match result {
                0.. => Ok(Some(string(text).unwrap_or_default())),
                _ if errno() == Errno::ENOENT => Ok(None),
                _ => Err(error_of(future)),
            };
            sys::flux_future_destroy(future);
            found
        }
    }

    fn kvs_commit(&self, values: &[(String, String)]) -> Result<(), String> {
        let future = self.commit(values)?;
        match self.then(future, Waiting::Commit) {
            true => Ok(()),
            false => Err(errno().to_string()),
        }
    }

    fn kvs_commit_and_wait(&self, values: &[(String, String)]) -> Result<(), String> {
        let mut waited = Ok(());
        let pending: Vec<*mut FutureHandle> = {
            let mut futures = self.futures.borrow_mut();
            let commits = futures.extract_if(|_, waiting| matches!(waiting, Waiting::Commit));
            commits.map(|(future, _)| future).collect()
        };
        let last = match values.is_empty() {
            true => None,
            false => Some(self.commit(values)?),
        };
        for future in pending.into_iter().chain(last) {
            // SAFETY: each is ours, and is destroyed once: it is out of the map, or was never in it.
            unsafe {
                if sys::flux_future_wait_for(future, PATIENCE) < 0
                    || sys::flux_future_get(future, ptr::null_mut()) < 0
                {
                    waited = Err(error_of(future));
                }
                sys::flux_future_destroy(future);
            }
        }
        waited
    }

    fn set_timer(&self, after: Option<f64>) {
        let timer = self.timer.get();
        if timer.is_null() {
            return;
        }
        // SAFETY: the watcher is ours. A timer is reset while it is stopped.
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
            // SAFETY: the message is one that is kept; Flux copies the payload. It fails when the client has gone.
            let _ = unsafe { sys::flux_respond(self.h(), message, payload.as_ptr()) };
        });
    }

    fn respond_error(&self, to: ReplyTo, errno: i32, text: &str) {
        let c_text = c_string(text);
        let text = if text.is_empty() { ptr::null() } else { c_text.as_ptr() };
        self.with_request(to, true, |message| {
            // SAFETY: as above; null is no text.
            let _ = unsafe { sys::flux_respond_error(self.h(), message, errno, text) };
        });
    }
}

/// The object of a call's arguments.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn input_of(args: *mut PluginArgs) -> Option<Json> {
    let mut raw: *mut sys::RawJson = ptr::null_mut();
    // SAFETY: the caller says that it is valid; "o" lends the object, of which a reference is taken at once.
    unsafe {
        let flags = sys::FLUX_PLUGIN_ARG_IN;
        match sys::flux_plugin_arg_unpack(args, flags, c"o".as_ptr(), &raw mut raw) {
            0.. => Json::borrowed(raw),
            _ => None,
        }
    }
}

/// Sets a member of the arguments that a call returns.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn set_out(args: *mut PluginArgs, key: &str, value: &Value) -> bool {
    let (key, flags) = (c_string(key), sys::FLUX_PLUGIN_ARG_OUT);
    let Some(json) = Json::of(value) else { return false };
    // SAFETY: the caller says that it is valid; "{s:o}" takes a key, which is copied, and a reference that is
    // given up.
    unsafe {
        sys::flux_plugin_arg_pack(args, flags, c"{s:o}".as_ptr(), key.as_ptr(), json.into_raw())
            >= 0
    }
}

/// Sets the priority that a call returns.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn set_priority(args: *mut PluginArgs, priority: i64) -> bool {
    let flags = sys::FLUX_PLUGIN_ARG_OUT;
    // SAFETY: the caller says that it is valid; "{s:I}" takes a key and a 64-bit integer.
    unsafe {
        sys::flux_plugin_arg_pack(args, flags, c"{s:I}".as_ptr(), c"priority".as_ptr(), priority)
            >= 0
    }
}

/// Sets the text with which a call refuses.
///
/// # Safety
/// `args` is valid.
pub(super) unsafe fn set_error(args: *mut PluginArgs, text: &str) {
    let (text, flags) = (c_string(text), sys::FLUX_PLUGIN_ARG_OUT);
    // SAFETY: the caller says that it is valid; "{s:s}" takes a key and a string, and copies both.
    let _ = unsafe {
        sys::flux_plugin_arg_pack(args, flags, c"{s:s}".as_ptr(), c"errmsg".as_ptr(), text.as_ptr())
    };
}
