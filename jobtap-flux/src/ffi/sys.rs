//! The functions of libflux, jansson and libc that this crate calls, declared as in their manual pages.
//!
//! The loader resolves them when Flux loads the plugin: the broker has them all. Types whose members only Flux
//! accesses are opaque here.

use std::ffi::{c_char, c_double, c_int, c_uint, c_void};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            _opaque: [u8; 0],
            // Makes the type neither `Send`, `Sync` nor `Unpin`: Flux owns the value.
            _pinned: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )* };
}
opaque! {
    /// `flux_t`: a handle to the broker.
    Broker
    /// `flux_plugin_t`
    PluginHandle
    /// `flux_plugin_arg_t`
    PluginArgs
    /// `flux_reactor_t`
    Reactor
    /// `flux_watcher_t`
    Watcher
    /// `flux_future_t`
    FutureHandle
    /// `flux_msg_t`
    Message
    /// `flux_msg_handler_t`
    MessageHandler
    /// `flux_kvs_txn_t`
    Transaction
}

/// `json_t`. Its two members are public, and jansson's own inline functions use them.
#[repr(C)]
pub(crate) struct RawJson {
    pub(super) kind: c_int,
    pub(super) refcount: usize,
}

pub(super) const JSON_OBJECT: c_int = 0;
pub(super) const JSON_ARRAY: c_int = 1;
pub(super) const JSON_STRING: c_int = 2;
pub(super) const JSON_INTEGER: c_int = 3;
pub(super) const JSON_REAL: c_int = 4;
pub(super) const JSON_TRUE: c_int = 5;
pub(super) const JSON_FALSE: c_int = 6;
/// Accept values of any kind (not only objects and arrays), and strings that contain NUL.
pub(super) const JSON_LOAD_FLAGS: usize = 0x4 | 0x10;

pub(super) const FLUX_PLUGIN_ARG_IN: c_int = 0;
pub(super) const FLUX_PLUGIN_ARG_OUT: c_int = 1;
pub(super) const FLUX_POLLIN: c_int = 1;
pub(super) const FLUX_NODEID_ANY: u32 = u32::MAX;
pub(super) const FLUX_RPC_NORESPONSE: c_int = 1;
pub(super) const FLUX_KVS_WATCH: c_int = 4;
pub(super) const FLUX_KVS_WAITCREATE: c_int = 8;
pub(super) const FLUX_ROLE_OWNER: u32 = 1;
pub(super) const FLUX_ROLE_USER: u32 = 2;
pub(super) const RTLD_NOW: c_int = 2;
pub(super) const RTLD_NOLOAD: c_int = 4;
pub(super) const RTLD_NODELETE: c_int = 0x1000;

/// `struct flux_msg_cred`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MessageCred {
    pub(super) userid: u32,
    pub(super) rolemask: u32,
}

pub(super) type PluginCallback =
    extern "C" fn(*mut PluginHandle, *const c_char, *mut PluginArgs, *mut c_void) -> c_int;
pub(super) type WatcherCallback = extern "C" fn(*mut Reactor, *mut Watcher, c_int, *mut c_void);
pub(super) type Continuation = extern "C" fn(*mut FutureHandle, *mut c_void);
pub(super) type RequestCallback =
    extern "C" fn(*mut Broker, *mut MessageHandler, *const Message, *mut c_void);
pub(super) type Free = extern "C" fn(*mut c_void);

unsafe extern "C" {
    // flux_plugin_*
    pub(super) fn flux_plugin_get_path(p: *mut PluginHandle) -> *const c_char;
    pub(super) fn flux_plugin_get_name(p: *mut PluginHandle) -> *const c_char;
    pub(super) fn flux_plugin_set_name(p: *mut PluginHandle, name: *const c_char) -> c_int;
    pub(super) fn flux_plugin_get_conf(p: *mut PluginHandle) -> *const c_char;
    pub(super) fn flux_plugin_add_handler(
        p: *mut PluginHandle,
        topic: *const c_char,
        callback: PluginCallback,
        arg: *mut c_void,
    ) -> c_int;
    pub(super) fn flux_plugin_aux_set(
        p: *mut PluginHandle,
        key: *const c_char,
        value: *mut c_void,
        free: Option<Free>,
    ) -> c_int;
    pub(super) fn flux_plugin_arg_unpack(
        args: *mut PluginArgs,
        flags: c_int,
        format: *const c_char,
        ...
    ) -> c_int;
    pub(super) fn flux_plugin_arg_pack(
        args: *mut PluginArgs,
        flags: c_int,
        format: *const c_char,
        ...
    ) -> c_int;
    pub(super) fn flux_plugin_arg_destroy(args: *mut PluginArgs);

    // flux_jobtap_*
    pub(super) fn flux_jobtap_get_flux(p: *mut PluginHandle) -> *mut Broker;
    pub(super) fn flux_jobtap_service_register_ex(
        p: *mut PluginHandle,
        method: *const c_char,
        rolemask: u32,
        callback: RequestCallback,
        arg: *mut c_void,
    ) -> c_int;
    pub(super) fn flux_jobtap_set_load_sort_order(
        p: *mut PluginHandle,
        mode: *const c_char,
    ) -> c_int;
    pub(super) fn flux_jobtap_reprioritize_all(p: *mut PluginHandle) -> c_int;
    pub(super) fn flux_jobtap_reprioritize_job(
        p: *mut PluginHandle,
        id: u64,
        priority: c_uint,
    ) -> c_int;
    pub(super) fn flux_jobtap_dependency_add(
        p: *mut PluginHandle,
        id: u64,
        description: *const c_char,
    ) -> c_int;
    pub(super) fn flux_jobtap_dependency_remove(
        p: *mut PluginHandle,
        id: u64,
        description: *const c_char,
    ) -> c_int;
    pub(super) fn flux_jobtap_job_set_flag(
        p: *mut PluginHandle,
        id: u64,
        flag: *const c_char,
    ) -> c_int;
    pub(super) fn flux_jobtap_raise_exception(
        p: *mut PluginHandle,
        id: u64,
        kind: *const c_char,
        severity: c_int,
        format: *const c_char,
        ...
    ) -> c_int;
    pub(super) fn flux_jobtap_event_post_pack(
        p: *mut PluginHandle,
        id: u64,
        name: *const c_char,
        format: *const c_char,
        ...
    ) -> c_int;
    pub(super) fn flux_jobtap_job_lookup(p: *mut PluginHandle, id: u64) -> *mut PluginArgs;
    pub(super) fn flux_jobtap_job_subscribe(p: *mut PluginHandle, id: u64) -> c_int;
    pub(super) fn flux_jobtap_prolog_finish(
        p: *mut PluginHandle,
        id: u64,
        description: *const c_char,
        status: c_int,
    ) -> c_int;
    pub(super) fn flux_jobtap_epilog_finish(
        p: *mut PluginHandle,
        id: u64,
        description: *const c_char,
        status: c_int,
    ) -> c_int;

    // The broker
    pub(super) fn flux_log(h: *mut Broker, level: c_int, format: *const c_char, ...) -> c_int;
    pub(super) fn flux_attr_get(h: *mut Broker, name: *const c_char) -> *const c_char;
    pub(super) fn flux_get_reactor(h: *mut Broker) -> *mut Reactor;
    pub(super) fn flux_reactor_now(r: *mut Reactor) -> c_double;
    pub(super) fn flux_timer_watcher_create(
        r: *mut Reactor,
        after: c_double,
        repeat: c_double,
        callback: WatcherCallback,
        arg: *mut c_void,
    ) -> *mut Watcher;
    pub(super) fn flux_timer_watcher_reset(w: *mut Watcher, after: c_double, repeat: c_double);
    pub(super) fn flux_fd_watcher_create(
        r: *mut Reactor,
        fd: c_int,
        events: c_int,
        callback: WatcherCallback,
        arg: *mut c_void,
    ) -> *mut Watcher;
    pub(super) fn flux_watcher_start(w: *mut Watcher);
    pub(super) fn flux_watcher_stop(w: *mut Watcher);
    pub(super) fn flux_watcher_destroy(w: *mut Watcher);

    // Futures, RPCs, requests
    pub(super) fn flux_rpc(
        h: *mut Broker,
        topic: *const c_char,
        payload: *const c_char,
        nodeid: u32,
        flags: c_int,
    ) -> *mut FutureHandle;
    pub(super) fn flux_rpc_get(f: *mut FutureHandle, payload: *mut *const c_char) -> c_int;
    pub(super) fn flux_future_then(
        f: *mut FutureHandle,
        timeout: c_double,
        callback: Continuation,
        arg: *mut c_void,
    ) -> c_int;
    pub(super) fn flux_future_wait_for(f: *mut FutureHandle, timeout: c_double) -> c_int;
    pub(super) fn flux_future_get(f: *mut FutureHandle, result: *mut *const c_void) -> c_int;
    pub(super) fn flux_future_error_string(f: *mut FutureHandle) -> *const c_char;
    pub(super) fn flux_future_has_error(f: *mut FutureHandle) -> bool;
    pub(super) fn flux_future_reset(f: *mut FutureHandle);
    pub(super) fn flux_future_destroy(f: *mut FutureHandle);
    pub(super) fn flux_request_decode(
        message: *const Message,
        topic: *mut *const c_char,
        payload: *mut *const c_char,
    ) -> c_int;
    pub(super) fn flux_msg_get_cred(message: *const Message, cred: *mut MessageCred) -> c_int;
    pub(super) fn flux_msg_is_streaming(message: *const Message) -> bool;
    pub(super) fn flux_msg_incref(message: *const Message) -> *const Message;
    pub(super) fn flux_msg_decref(message: *const Message);
    pub(super) fn flux_respond(
        h: *mut Broker,
        request: *const Message,
        payload: *const c_char,
    ) -> c_int;
    pub(super) fn flux_respond_error(
        h: *mut Broker,
        request: *const Message,
        errnum: c_int,
        text: *const c_char,
    ) -> c_int;

    // The KVS
    pub(super) fn flux_kvs_lookup(
        h: *mut Broker,
        namespace: *const c_char,
        flags: c_int,
        key: *const c_char,
    ) -> *mut FutureHandle;
    pub(super) fn flux_kvs_lookup_get(f: *mut FutureHandle, value: *mut *const c_char) -> c_int;
    pub(super) fn flux_kvs_lookup_cancel(f: *mut FutureHandle) -> c_int;
    pub(super) fn flux_kvs_txn_create() -> *mut Transaction;
    pub(super) fn flux_kvs_txn_destroy(txn: *mut Transaction);
    pub(super) fn flux_kvs_txn_put(
        txn: *mut Transaction,
        flags: c_int,
        key: *const c_char,
        value: *const c_char,
    ) -> c_int;
    pub(super) fn flux_kvs_commit(
        h: *mut Broker,
        namespace: *const c_char,
        flags: c_int,
        txn: *mut Transaction,
    ) -> *mut FutureHandle;

    // libc
    pub(super) fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    pub(super) fn dup2(old: c_int, new: c_int) -> c_int;
}

unsafe extern "C" {
    // jansson
    pub(super) fn json_delete(json: *mut RawJson);
    pub(super) fn json_loadb(
        text: *const c_char,
        length: usize,
        flags: usize,
        error: *mut c_void,
    ) -> *mut RawJson;
    pub(super) fn json_object_get(object: *const RawJson, key: *const c_char) -> *mut RawJson;
    pub(super) fn json_object_size(object: *const RawJson) -> usize;
    pub(super) fn json_object_iter(object: *mut RawJson) -> *mut c_void;
    pub(super) fn json_object_iter_next(object: *mut RawJson, iter: *mut c_void) -> *mut c_void;
    pub(super) fn json_object_iter_key(iter: *mut c_void) -> *const c_char;
    pub(super) fn json_object_iter_value(iter: *mut c_void) -> *mut RawJson;
    pub(super) fn json_array_size(array: *const RawJson) -> usize;
    pub(super) fn json_array_get(array: *const RawJson, index: usize) -> *mut RawJson;
    pub(super) fn json_string_value(string: *const RawJson) -> *const c_char;
    pub(super) fn json_string_length(string: *const RawJson) -> usize;
    pub(super) fn json_integer_value(integer: *const RawJson) -> i64;
    pub(super) fn json_real_value(real: *const RawJson) -> c_double;
}
