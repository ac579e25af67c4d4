//! The functions of `pmi.h`. Those that start or look up other programs aren't supported.

use core::ffi::{c_char, c_int, c_void};

use super::super::client::{KEY, NAME, VALUE};
use super::super::error::{Error, code};
use super::pointers::{put_number, put_number_at, put_text, text};
use super::{abort, finalize, initialize, is_spawned, with_process};

/// Defines the functions that get a number; their only parameter is the pointer to which they write it.
macro_rules! numbers {
    ($($name:ident: |$process:ident| $value:expr;)*) => {$(
        /// # Safety
        /// Pointers must be valid as the header requires; see this folder's `mod.rs`.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(to: *mut c_int) -> c_int {
            let value = with_process(|$process| $value);
            // SAFETY: the caller guarantees that `to` is null or points to a number.
            code(value.and_then(|value| unsafe { put_number(to, value) }))
        }
    )*};
}

numbers! {
    PMI_Get_size: |process| Ok(process.size());
    PMI_Get_rank: |process| Ok(process.rank());
    PMI_Get_universe_size: |process| process.universe_size();
    PMI_Get_appnum: |process| process.application();
    PMI_Get_id_length_max: |process| with_zero(process.most().name);
    PMI_KVS_Get_name_length_max: |process| with_zero(process.most().name);
    PMI_KVS_Get_key_length_max: |process| with_zero(process.most().key);
    PMI_KVS_Get_value_length_max: |process| with_zero(process.most().value);
    PMI_Get_clique_size: |process| {
        let mut size = 0;
        process.clique(|_| {
            size += 1;
            true
        })?;
        Ok(size)
    };
}

/// Returns the size of a buffer for a string of `most` bytes and its NUL.
fn with_zero(most: usize) -> Result<c_int, Error> {
    c_int::try_from(most + 1).map_err(|_| Error::Fail)
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_Init(spawned: *mut c_int) -> c_int {
    if spawned.is_null() {
        return Error::Argument as c_int;
    }
    // SAFETY: the caller guarantees that `spawned` points to a number.
    code(initialize().and_then(|()| unsafe { put_number(spawned, is_spawned()) }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_Initialized(initialized: *mut c_int) -> c_int {
    let number = c_int::from(with_process(|_| Ok(())).is_ok());
    // SAFETY: the caller guarantees that `initialized` is null or points to a number.
    code(unsafe { put_number(initialized, number) })
}

#[unsafe(no_mangle)]
extern "C" fn PMI_Finalize() -> c_int {
    code(finalize())
}

#[unsafe(no_mangle)]
extern "C" fn PMI_Barrier() -> c_int {
    code(with_process(|process| process.barrier()))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`. The message may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_Abort(exit_code: c_int, message: *const c_char) -> c_int {
    // SAFETY: the caller guarantees that `message` is null or a NUL-terminated string.
    abort(exit_code, unsafe { text(message, VALUE, Error::Length) }.unwrap_or_default())
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_KVS_Get_my_name(name: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller guarantees that `name` is null or points to `length` bytes; the text is this library's.
    code(with_process(|process| unsafe { put_text(name, length, process.name()) }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_Get_id(name: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller's guarantees are the same as those that this function requires.
    unsafe { PMI_KVS_Get_my_name(name, length) }
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_Get_kvs_domain_id(name: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller's guarantees are the same as those that this function requires.
    unsafe { PMI_KVS_Get_my_name(name, length) }
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_Get_clique_ranks(ranks: *mut c_int, length: c_int) -> c_int {
    if ranks.is_null() {
        return Error::Argument as c_int;
    }
    code(with_process(|process| {
        let (mut at, mut fits) = (0, true);
        process.clique(|rank| {
            // SAFETY: `ranks` isn't null, and the caller guarantees that it points to `length` numbers.
            fits = unsafe { put_number_at(ranks, length, at, rank) };
            at += 1;
            fits
        })?;
        fits.then_some(()).ok_or(Error::Size)
    }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_KVS_Put(
    name: *const c_char,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that these are null or NUL-terminated strings, unchanged during the call.
        let (name, key, value) = unsafe {
            (
                text(name, NAME, Error::Argument)?,
                text(key, KEY, Error::KeyLength)?,
                text(value, VALUE, Error::ValueLength)?,
            )
        };
        if name != process.name() {
            return Err(Error::Argument);
        }
        process.put(key, value)
    }))
}

/// Does nothing: a value that was put before a barrier is available to all tasks after it.
///
/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_KVS_Commit(name: *const c_char) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that `name` is null or a NUL-terminated string, unchanged during the call.
        let name = unsafe { text(name, NAME, Error::Argument)? };
        (name == process.name()).then_some(()).ok_or(Error::Argument)
    }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI_KVS_Get(
    name: *const c_char,
    key: *const c_char,
    value: *mut c_char,
    length: c_int,
) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that these are null or NUL-terminated strings, unchanged during the call.
        let (name, key) =
            unsafe { (text(name, NAME, Error::Argument)?, text(key, KEY, Error::KeyLength)?) };
        if name != process.name() || value.is_null() {
            return Err(Error::Argument);
        }
        let found = process.get(key)?;
        // SAFETY: the caller guarantees `length` bytes at `value`; `found` is in this library's memory.
        unsafe { put_text(value, length, found) }
    }))
}

/// Defines the functions that aren't supported: they always fail and don't access their arguments.
macro_rules! unserved {
    ($($name:ident($($type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $type),*) -> c_int {
            Error::Fail as c_int
        }
    )*};
}
pub(super) use unserved;

unserved! {
    PMI_Publish_name(*const c_char, *const c_char);
    PMI_Unpublish_name(*const c_char);
    PMI_Lookup_name(*const c_char, *mut c_char);
    PMI_KVS_Create(*mut c_char, c_int);
    PMI_KVS_Destroy(*const c_char);
    PMI_KVS_Iter_first(*const c_char, *mut c_char, c_int, *mut c_char, c_int);
    PMI_KVS_Iter_next(*const c_char, *mut c_char, c_int, *mut c_char, c_int);
    PMI_Spawn_multiple(
        c_int, *const c_void, *const c_void, *const c_int, *const c_int, *const c_void, c_int, *const c_void, *mut c_int
    );
    PMI_Parse_option(c_int, *mut c_void, *mut c_int, *mut c_void, *mut c_int);
    PMI_Args_to_keyval(*mut c_int, *mut c_void, *mut c_void, *mut c_int);
    PMI_Free_keyvals(*mut c_void, c_int);
    PMI_Get_options(*mut c_char, *mut c_int);
}

#[cfg(test)]
mod tests {
    use core::ptr::{null, null_mut};

    use super::*;

    /// There is one state per process, so a single test makes all calls, in order. The process is alone, since the
    /// tests run without `PMI_FD`.
    #[test]
    fn a_program_that_is_alone_gets_codes_for_all_it_does_wrong() {
        let (mut number, mut small, mut value) = (0, [0; 3], [0 as c_char; 16]);
        let (to, buffer) = (&raw mut number, value.as_mut_ptr());
        let (name, key) = (c"singleton".as_ptr(), c"key".as_ptr());
        let [fail, init, argument, no_key, short] =
            [Error::Fail, Error::Init, Error::Argument, Error::Key, Error::Length]
                .map(|error| error as c_int);
        // SAFETY: all pointers are null, point to memory of the stated length or are NUL-terminated strings.
        unsafe {
            assert_eq!(PMI_Get_rank(to), init, "nothing is initialized");
            assert_eq!((PMI_Initialized(to), number), (0, 0));
            assert_eq!(PMI_Init(null_mut()), argument);
            assert_eq!((PMI_Init(to), number), (0, 0));
            assert_eq!(PMI_Init(to), 0, "a second time changes nothing");
            assert_eq!((PMI_Initialized(to), number), (0, 1));
            assert_eq!((PMI_Get_size(to), number), (0, 1));
            assert_eq!((PMI_Get_rank(to), number), (0, 0));
            assert_eq!((PMI_KVS_Get_value_length_max(to), number), (0, 1025));
            assert_eq!(PMI_Get_size(null_mut()), argument);
            assert_eq!(PMI_KVS_Get_my_name(small.as_mut_ptr(), 3), short);
            assert_eq!(PMI_KVS_Get_my_name(buffer, 16), 0);
            assert_eq!(value.map(|c| c as u8)[..10], *b"singleton\0");
            assert_eq!(PMI_KVS_Put(name, key, c"v".as_ptr()), 0);
            assert_eq!(PMI_KVS_Put(c"other".as_ptr(), key, c"v".as_ptr()), argument);
            assert_eq!(PMI_KVS_Put(name, key, null()), argument);
            assert_eq!(
                (PMI_KVS_Commit(name), PMI_KVS_Commit(null()), PMI_Barrier()),
                (0, argument, 0)
            );
            assert_eq!(PMI_KVS_Get(name, key, buffer, 2), 0);
            assert_eq!(value.map(|c| c as u8)[..2], *b"v\0");
            assert_eq!(PMI_KVS_Get(name, key, buffer, 1), short);
            assert_eq!(PMI_KVS_Get(name, key, null_mut(), 9), argument);
            assert_eq!(PMI_KVS_Get(name, c"x".as_ptr(), buffer, 16), no_key);
            let mut ranks = [9, 9];
            assert_eq!(PMI_Get_clique_ranks(ranks.as_mut_ptr(), 0), Error::Size as c_int);
            assert_eq!((PMI_Get_clique_ranks(ranks.as_mut_ptr(), 1), ranks), (0, [0, 9]));
            assert_eq!(PMI_Get_clique_ranks(null_mut(), 1), argument);
            assert_eq!(PMI_Lookup_name(null(), null_mut()), fail);
            super::super::pmi2::tests::a_program_that_is_alone(buffer, &raw mut number);
            assert_eq!((PMI_Finalize(), PMI_Finalize()), (0, init));
        }
    }
}
