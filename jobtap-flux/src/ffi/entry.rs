//! What Flux calls: the init function, callbacks, watchers, requests, and the end.
//!
//! Each catches a panic, since one that unwinds into C would end the broker. A panic of a plugin is caught
//! further inside; one that arrives here is a defect of the adapter, and a gate then refuses.

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

/// The name of the aux item whose destructor is the end of a loaded file.
const AUX: &CStr = c"jobtap-flux";

/// What the broker keeps of a loaded file.
struct Loaded {
    adapter: Adapter<Plugin>,
    inbox: Arc<Inbox>,
}

/// A file as it was when it was loaded first.
#[derive(Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl FileId {
    fn of(path: &str) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        let modified = (file.mtime(), file.mtime_nsec());
        Some(Self { device: file.dev(), inode: file.ino(), modified, size: file.size() })
    }
}

/// `flux_plugin_init`: loads the plugins of this file.
///
/// # Safety
/// `handle` is what Flux called `flux_plugin_init` with.
#[must_use]
pub unsafe fn init(handle: *mut c_void, expected: &[&str]) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let handle = NonNull::new(handle.cast::<PluginHandle>());
        // SAFETY: the caller says that it is Flux's, which destroys the aux item that `load` makes of it before
        // the handle.
        let plugin = handle.and_then(|handle| unsafe { Plugin::new(handle) }.ok())?;
        // SAFETY: as above.
        unsafe { load(plugin, expected) }.ok()
    }));
    match result {
        Ok(Some(())) => 0,
        Ok(None) | Err(_) => -1,
    }
}

/// # Safety
/// The handle of `plugin` is the one that Flux called `flux_plugin_init` with.
unsafe fn load(plugin: Plugin, expected: &[&str]) -> Result<(), ()> {
    let linked = adapter::linked(expected)
        .and_then(|linked| check_file(&plugin.path()).map(|()| linked))
        .map_err(|error| plugin.log(Level::Error, &format!("jobtap: {error}")))?;
    if let [only] = &*linked {
        plugin.set_name(only.name.strip_prefix('.').unwrap_or(only.name));
    }
    if let Some(mode) = adapter::load_order(&linked) {
        // The modes are Flux's.
        let _ = plugin.set_load_sort_order(mode);
    }
    let inbox = Inbox::new()
        .map(Arc::new)
        .map_err(|error| plugin.log(Level::Error, &format!("jobtap: no eventfd: {error}")))?;
    let adapter = Adapter::new(plugin, linked, Arc::clone(&inbox));
    // Owned by the aux item from here on.
    let loaded = Box::into_raw(Box::new(Loaded { adapter, inbox }));
    // SAFETY: just made, and only freed by `on_end`, which Flux calls on this thread.
    let kept = unsafe { &*loaded };
    let flux = kept.adapter.flux();
    flux.set_argument(loaded.cast());
    // SAFETY: the handle is valid. Flux calls the destructor once.
    if unsafe { flux.own(AUX, loaded.cast(), on_end) }.is_err() {
        // SAFETY: Flux has not taken it.
        drop(unsafe { Box::from_raw(loaded) });
        return Err(());
    }
    // From here on an error leads to `on_end`, since Flux destroys a handle whose init has failed.
    let fail = |text: String| flux.log(Level::Error, &format!("jobtap: {text}"));
    flux.watch(kept.inbox.event().as_raw_fd())
        .map_err(|errno| fail(format!("watcher: {errno}")))?;
    flux.follow_resources();
    kept.adapter.register().map_err(|error| fail(error.to_string()))
}

/// Keeps the file in memory for as long as the broker runs, and refuses one that was replaced.
///
/// Its threads may run on after an unload, and what threads have at their end lies in the file. So the loader
/// would keep it in most cases, but not in all. It also means that a file which is loaded again is not read
/// again: a rebuilt one of the same name would silently run the old code.
fn check_file(path: &str) -> Result<(), LoadError> {
    static LOADED: OnceLock<Option<FileId>> = OnceLock::new();
    let now = FileId::of(path);
    if *LOADED.get_or_init(|| FileId::of(path)) != now {
        return Err(LoadError::Replaced { path: path.to_owned() });
    }
    if let Ok(path) = CString::new(path) {
        let flags = sys::RTLD_NOW | sys::RTLD_NOLOAD | sys::RTLD_NODELETE;
        // SAFETY: the file is loaded, so that this runs no code: it only marks it. The reference is not given
        // back, which is the purpose.
        let _ = unsafe { sys::dlopen(path.as_ptr(), flags) };
    }
    Ok(())
}

/// Runs `call` with the loaded file, and catches a panic.
///
/// # Safety
/// `argument` is null or the `Loaded` of callbacks that Flux may still call.
unsafe fn with<R>(argument: *mut c_void, call: impl FnOnce(&Loaded) -> R) -> Option<R> {
    // SAFETY: the caller says so. Only shared references to it exist until `on_end`.
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

/// A callback of a topic.
pub(super) extern "C" fn on_call(
    _: *mut PluginHandle,
    topic: *const c_char,
    args: *mut PluginArgs,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: Flux passes a topic, arguments that are valid for this call, and the argument of the handler.
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
    // SAFETY: as above.
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
    // SAFETY: the argument of the watcher, which is destroyed before it ends.
    let _ = unsafe { with(argument, |loaded| loaded.adapter.timer()) };
}

/// The inbox has work.
pub(super) extern "C" fn on_wake(
    _: *mut Reactor,
    _: *mut Watcher,
    _: c_int,
    argument: *mut c_void,
) {
    // SAFETY: as for the timer.
    let _ = unsafe { with(argument, |loaded| loaded.adapter.wake()) };
}

/// A future is ready.
pub(super) extern "C" fn on_future(future: *mut FutureHandle, argument: *mut c_void) {
    // SAFETY: the argument of the future, which is destroyed before it ends, and the future itself.
    let _ = unsafe {
        with(argument, |loaded| match loaded.adapter.flux().ready(future) {
            Ready::Committed(result) => loaded.adapter.committed(result),
            Ready::Failed(text) => loaded.adapter.flux().log(Level::Warning, &text),
            Ready::Resources(value) => loaded.adapter.set_resources(&value),
            Ready::Nothing => {}
        })
    };
}

/// A request to a service.
pub(super) extern "C" fn on_request(
    broker: *mut Broker,
    _: *mut MessageHandler,
    message: *const Message,
    argument: *mut c_void,
) {
    let (mut topic, mut payload) = (ptr::null(), ptr::null());
    let mut cred = sys::MessageCred::default();
    // SAFETY: Flux passes a request that is valid for this call, and the argument of the handler. The texts live
    // as long as the request, and are copied.
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
        // SAFETY: as above.
        let _ = unsafe { sys::flux_respond_error(broker, message, EPROTO, ptr::null()) };
    }
}

/// Protocol error.
const EPROTO: c_int = 71;

/// Flux destroys the handle: the file is removed, or the job manager ends.
pub(super) extern "C" fn on_end(argument: *mut c_void) {
    // SAFETY: the argument of the aux item. Flux calls nothing of it any more, but for what `unload` itself
    // does; so it is freed afterwards.
    unsafe {
        let _ = with(argument, |loaded| loaded.adapter.unload());
        let loaded = Box::from_raw(argument.cast::<Loaded>());
        let _ = catch_unwind(AssertUnwindSafe(|| drop(loaded)));
    }
}
