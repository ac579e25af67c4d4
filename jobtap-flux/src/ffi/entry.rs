//! The functions that Flux calls: the init function, the callbacks of handlers, watchers, futures and requests, and
//! the destructor.
//!
//! Each catches panics, since unwinding into C would end the broker. The adapter catches a plugin's panic itself,
//! so a panic that gets here is a defect of the adapter. A gate then refuses.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use jobtap_core::host::panic_text;
use jobtap_core::job::Uid;
use jobtap_core::plugin::{Cred, Level};

use super::plugin::{Plugin, Ready, input_of, set_error, set_out, set_priority, string};
use super::sys::{
    self, Broker, FutureHandle, Message, MessageHandler, PluginArgs, PluginHandle, Reactor, Watcher,
};
use crate::adapter::{self, Adapter, Answer, LoadError};
use crate::flux::Flux;
use crate::inbox::Inbox;

/// The name of the aux item that owns a loaded file, whose destructor is [`on_end`].
const AUX: &CStr = c"jobtap-flux";

/// A loaded file. An aux item of the plugin handle owns it.
struct Loaded {
    adapter: Adapter<Plugin>,
    inbox: Arc<Inbox>,
}

/// Identifies a version of a file.
#[derive(Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl FileId {
    fn read(path: &str) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        let modified = (file.mtime(), file.mtime_nsec());
        Some(Self { device: file.dev(), inode: file.ino(), modified, size: file.size() })
    }
}

/// `flux_plugin_init`: loads the plugins of this file.
///
/// # Safety
/// `handle` is the handle with which Flux has called `flux_plugin_init`.
#[must_use]
pub unsafe fn init(handle: *mut c_void, expected: &[&str]) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let handle = NonNull::new(handle.cast::<PluginHandle>());
        // SAFETY: the caller guarantees that the handle is Flux's. `load` makes the plugin part of an aux item, which
        // Flux destroys before the handle.
        let plugin = handle.and_then(|handle| unsafe { Plugin::new(handle) }.ok())?;
        // SAFETY: the caller guarantees that Flux is calling `flux_plugin_init` with this handle.
        unsafe { load(plugin, expected) }.ok()
    }));
    match result {
        Ok(Some(())) => 0,
        Ok(None) | Err(_) => -1,
    }
}

/// Checks the file, attaches it to the plugin handle and registers its handlers.
///
/// # Safety
/// Flux is calling `flux_plugin_init` with the handle of `plugin`.
unsafe fn load(plugin: Plugin, expected: &[&str]) -> Result<(), ()> {
    let linked = adapter::linked(expected)
        .and_then(|linked| check_file(&plugin.path()).map(|()| linked))
        .map_err(|error| plugin.log(Level::Error, &format!("jobtap: {error}")))?;
    if let [only] = &*linked {
        plugin.set_name(only.name.strip_prefix('.').unwrap_or(only.name));
    }
    if let Some(mode) = adapter::load_order(&linked) {
        // This can't fail, since `load_order` returns only modes that Flux knows.
        let _ = plugin.set_load_sort_order(mode);
    }
    let inbox = Inbox::new()
        .map(Arc::new)
        .map_err(|error| plugin.log(Level::Error, &format!("jobtap: no eventfd: {error}")))?;
    let adapter = Adapter::new(plugin, linked, Arc::clone(&inbox));
    // The aux item owns it from here on.
    let loaded = Box::into_raw(Box::new(Loaded { adapter, inbox }));
    // SAFETY: `loaded` was just made. It is freed only by `on_end`, which Flux calls on this thread after this
    // function, or below if Flux doesn't take it; `kept` isn't used after that.
    let kept = unsafe { &*loaded };
    let flux = kept.adapter.flux();
    flux.set_argument(loaded.cast());
    // SAFETY: Flux calls `on_end` once and on this thread, as `on_end` requires.
    if unsafe { flux.own(AUX, loaded.cast(), on_end) }.is_err() {
        // SAFETY: Flux hasn't taken the value, so nothing else frees or uses it.
        drop(unsafe { Box::from_raw(loaded) });
        return Err(());
    }
    // From here on an error leads to `on_end`, since Flux destroys the handle if `flux_plugin_init` fails.
    let fail = |text: String| flux.log(Level::Error, &format!("jobtap: {text}"));
    flux.watch(kept.inbox.event().as_raw_fd())
        .map_err(|errno| fail(format!("watcher: {errno}")))?;
    flux.follow_resources();
    kept.adapter.register().map_err(|error| fail(error.to_string()))
}

/// Keeps the file in memory as long as the broker runs, and refuses a file that was replaced since it was first loaded.
///
/// The file's threads may keep running after an unload, and the destructors of their thread-local values are code of
/// the file. For these the loader keeps the file in most cases, but not in all. Since the file stays in memory, it
/// isn't read again when it is loaded again: a rebuilt file with the same name would silently run the old code.
fn check_file(path: &str) -> Result<(), LoadError> {
    static LOADED: OnceLock<Option<FileId>> = OnceLock::new();
    let now = FileId::read(path);
    if *LOADED.get_or_init(|| FileId::read(path)) != now {
        return Err(LoadError::Replaced { path: path.to_owned() });
    }
    if let Ok(path) = CString::new(path) {
        let flags = sys::RTLD_NOW | sys::RTLD_NOLOAD | sys::RTLD_NODELETE;
        // SAFETY: the file is already loaded, so `dlopen` runs no code and only marks it. The reference is never
        // released, which is intended.
        let _ = unsafe { sys::dlopen(path.as_ptr(), flags) };
    }
    Ok(())
}

/// Runs `call` with the loaded file. Returns `None` if it panics.
///
/// # Safety
/// `argument` is null or a `Loaded` that `on_end` hasn't freed.
unsafe fn with<R>(argument: *mut c_void, call: impl FnOnce(&Loaded) -> R) -> Option<R> {
    // SAFETY: the caller guarantees that it is valid. Until `on_end` frees it, there are only shared references to it.
    let loaded = unsafe { argument.cast::<Loaded>().as_ref() }?;
    match catch_unwind(AssertUnwindSafe(|| call(loaded))) {
        Ok(result) => Some(result),
        Err(panic) => {
            let text = panic_text(&*panic);
            let log = || {
                let text = format!("jobtap: a defect of the adapter: it panicked: {text}");
                loaded.adapter.flux().log(Level::Error, &text);
            };
            let _ = catch_unwind(AssertUnwindSafe(log));
            None
        }
    }
}

/// Flux calls a topic.
pub(super) extern "C" fn on_call(
    _: *mut PluginHandle,
    topic: *const c_char,
    args: *mut PluginArgs,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: Flux passes a NUL-terminated topic, arguments that are valid during this call, and the argument with
    // which the handler was added, which isn't freed before the handle is destroyed.
    let answer = unsafe {
        with(argument, |loaded| {
            let topic = CStr::from_ptr(topic).to_str().unwrap_or_default();
            loaded.adapter.call(topic, input_of(args).as_ref())
        })
    };
    let answer = answer.unwrap_or_else(|| Answer {
        refusal: Some("jobtap: a defect of the adapter, please report it".to_owned()),
        ..Answer::default()
    });
    let Answer { refusal, priority, out } = answer;
    // SAFETY: the arguments are still valid.
    unsafe {
        if let Some(priority) = priority {
            let _ = set_priority(args, priority);
        }
        for (key, value) in &out {
            let _ = set_out(args, key, value);
        }
        match refusal {
            None => 0,
            Some(text) => {
                set_error(args, &text);
                -1
            }
        }
    }
}

/// The timer has fired.
pub(super) extern "C" fn on_timer(
    _: *mut Reactor,
    _: *mut Watcher,
    _: c_int,
    argument: *mut c_void,
) {
    // SAFETY: `Plugin::close` destroys the watcher before its argument is freed.
    let _ = unsafe { with(argument, |loaded| loaded.adapter.timer()) };
}

/// The inbox contains work.
pub(super) extern "C" fn on_wake(
    _: *mut Reactor,
    _: *mut Watcher,
    _: c_int,
    argument: *mut c_void,
) {
    // SAFETY: `Plugin::close` destroys the watcher before its argument is freed.
    let _ = unsafe { with(argument, |loaded| loaded.adapter.wake()) };
}

/// A future is ready.
pub(super) extern "C" fn on_future(future: *mut FutureHandle, argument: *mut c_void) {
    // SAFETY: `Plugin::close` destroys the future before its argument is freed, and `future` is the one that is ready.
    let _ = unsafe {
        with(argument, |loaded| match loaded.adapter.flux().ready(future) {
            Ready::Committed(result) => loaded.adapter.committed(result),
            Ready::Failed(text) => loaded.adapter.flux().log(Level::Warning, &text),
            Ready::Answered(key, response) => loaded.adapter.answered(key, response),
            Ready::Resources(value) => loaded.adapter.set_resources(&value),
            Ready::Nothing => {}
        })
    };
}

/// A client has sent a request to a plugin service.
pub(super) extern "C" fn on_request(
    broker: *mut Broker,
    _: *mut MessageHandler,
    message: *const Message,
    argument: *mut c_void,
) {
    let (mut topic, mut payload) = (ptr::null(), ptr::null());
    let mut cred = sys::MessageCred::default();
    // SAFETY: Flux passes a broker handle and a request that are valid during this call, and the argument with which
    // the service was registered, which isn't freed before the handle is destroyed. The texts live as long as the
    // request and are copied.
    let answered = unsafe {
        if sys::flux_request_decode(message, &raw mut topic, &raw mut payload) < 0
            || sys::flux_msg_get_cred(message, &raw mut cred) < 0
        {
            let _ = sys::flux_respond_error(broker, message, EPROTO, ptr::null());
            return;
        }
        let streaming = sys::flux_msg_is_streaming(message);
        with(argument, |loaded| {
            let topic = string(topic).unwrap_or_default();
            let payload = string(payload).and_then(|text| serde_json::from_str(&text).ok());
            let payload = payload.unwrap_or(serde_json::Value::Null);
            let owner = cred.rolemask & sys::FLUX_ROLE_OWNER != 0;
            let cred = Cred { userid: Uid(cred.userid), owner };
            if let Some(to) = loaded.adapter.flux().keep(message) {
                loaded.adapter.request(to, &topic, cred, payload, streaming);
            }
        })
    };
    if answered.is_none() {
        // SAFETY: the broker handle and the request are still valid.
        let _ = unsafe { sys::flux_respond_error(broker, message, EPROTO, ptr::null()) };
    }
}

/// Protocol error.
const EPROTO: c_int = 71;

/// Flux destroys the plugin handle, since the file is removed or the job manager ends.
pub(super) extern "C" fn on_end(argument: *mut c_void) {
    // SAFETY: the argument is the value of the aux item, which `load` has made by `Box::into_raw`. Flux calls this
    // once and, except during `unload`, no callback with this argument any more. So it can be freed after `unload`.
    unsafe {
        let _ = with(argument, |loaded| loaded.adapter.unload());
        let loaded = Box::from_raw(argument.cast::<Loaded>());
        let _ = catch_unwind(AssertUnwindSafe(|| drop(loaded)));
    }
}
