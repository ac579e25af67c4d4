//! The functions of `pmi2.h`, over the same protocol as those of `pmi.h`. A program may use both.
//!
//! Values that the tasks of a node share have keys with the number of the node. The functions that start or look up
//! other programs aren't supported.

use core::ffi::{c_char, c_int, c_void};

use super::super::client::{KEY, NAME, VALUE};
use super::super::error::{Error, code};
use super::super::text::{Text, decimal, number};
use super::pmi1::unserved;
use super::pointers::{put_number, put_number_at, put_text, text};
use super::{Own, abort, finalize, initialize, is_spawned, system, with_process};

/// The longest pause between two requests for a value that another task will put, in milliseconds.
const LONGEST_PAUSE: c_int = 64;

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Init(
    spawned: *mut c_int,
    size: *mut c_int,
    rank: *mut c_int,
    application: *mut c_int,
) -> c_int {
    if [spawned, size, rank, application].iter().any(|to| to.is_null()) {
        return Error::Argument as c_int;
    }
    code(initialize().and_then(|()| {
        with_process(|process| {
            let number = process.application()?;
            // SAFETY: no pointer is null, and the caller guarantees that each points to a number.
            unsafe {
                put_number(spawned, is_spawned())?;
                put_number(size, process.size())?;
                put_number(rank, process.rank())?;
                put_number(application, number)
            }
        })
    }))
}

#[unsafe(no_mangle)]
extern "C" fn PMI2_Initialized() -> c_int {
    c_int::from(with_process(|_| Ok(())).is_ok())
}

#[unsafe(no_mangle)]
extern "C" fn PMI2_Finalize() -> c_int {
    code(finalize())
}

/// Aborts the whole job, whatever `_of_job` says: a job has no part that could be aborted alone.
///
/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`. The message may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Abort(_of_job: c_int, message: *const c_char) -> c_int {
    // SAFETY: the caller guarantees that `message` is null or a NUL-terminated string.
    abort(1, unsafe { text(message, VALUE, Error::Length) }.unwrap_or_default())
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Job_GetId(id: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller guarantees that `id` is null or points to `length` bytes; the text is this library's.
    code(with_process(|process| unsafe { put_text(id, length, process.name()) }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Job_GetRank(rank: *mut c_int) -> c_int {
    // SAFETY: the caller guarantees that `rank` is null or points to a number.
    code(with_process(|process| unsafe { put_number(rank, process.rank()) }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Info_GetSize(size: *mut c_int) -> c_int {
    // SAFETY: the caller guarantees that `size` is null or points to a number.
    code(with_process(|process| unsafe { put_number(size, process.size()) }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_KVS_Put(key: *const c_char, value: *const c_char) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that these are null or NUL-terminated strings, unchanged during the call.
        let (key, value) =
            unsafe { (text(key, KEY, Error::KeyLength)?, text(value, VALUE, Error::ValueLength)?) };
        process.put(key, value)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn PMI2_KVS_Fence() -> c_int {
    code(with_process(|process| process.barrier()))
}

/// Gets a value of this job. The id may be null, empty or this job's; values of other jobs aren't available. `_source`,
/// a hint as to which task has put the value, is ignored.
///
/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`. The id may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_KVS_Get(
    id: *const c_char,
    _source: c_int,
    key: *const c_char,
    value: *mut c_char,
    length: c_int,
    value_length: *mut c_int,
) -> c_int {
    code(with_process(|process| {
        if !id.is_null() {
            // SAFETY: the caller guarantees that `id` is a NUL-terminated string that doesn't change during the call.
            let id = unsafe { text(id, NAME, Error::Argument)? };
            if !id.is_empty() && id != process.name() {
                return Err(Error::Argument);
            }
        }
        // SAFETY: the caller guarantees that `key` is null or a NUL-terminated string, unchanged during the call.
        let key = unsafe { text(key, KEY, Error::KeyLength)? };
        if value.is_null() || value_length.is_null() {
            return Err(Error::Argument);
        }
        let found = process.get(key)?;
        let needed = c_int::try_from(found.len()).map_err(|_| Error::Fail)?;
        // A buffer that is too small is reported by the negative of the size that it would need.
        // SAFETY: the caller guarantees `length` bytes at `value` and a number at `value_length`; `found` is in this
        // library's memory.
        unsafe {
            let written = put_text(value, length, found);
            put_number(value_length, if written.is_ok() { needed } else { -needed - 1 })?;
            written
        }
    }))
}

/// Writes the value of a key to `value`, and to `found` whether there is one. Returns whether there is one.
///
/// # Safety
/// `value` is null or points to `length` bytes; `found` is null or points to a number.
unsafe fn give(
    process: &mut Own,
    key: &[u8],
    value: *mut c_char,
    length: c_int,
    found: *mut c_int,
) -> Result<bool, Error> {
    let there = process.get(key);
    // SAFETY: the caller guarantees valid pointers; `text` is in this library's memory.
    unsafe {
        match there {
            Ok(text) => {
                put_text(value, length, text)?;
                put_number(found, 1)?;
                Ok(true)
            }
            Err(Error::Key) => {
                put_number(found, 0)?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Info_PutNodeAttr(name: *const c_char, value: *const c_char) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that these are null or NUL-terminated strings, unchanged during the call.
        let (name, value) = unsafe {
            (text(name, KEY, Error::KeyLength)?, text(value, VALUE, Error::ValueLength)?)
        };
        let key = process.node_key(name)?;
        process.put(key.bytes(), value)
    }))
}

/// Gets a value of the node. With `wait_for` it waits until another task has put the value; other threads can make
/// calls meanwhile.
///
/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Info_GetNodeAttr(
    name: *const c_char,
    value: *mut c_char,
    length: c_int,
    found: *mut c_int,
    wait_for: c_int,
) -> c_int {
    if value.is_null() || found.is_null() {
        return Error::Argument as c_int;
    }
    let mut pause = 1;
    loop {
        let given = with_process(|process| {
            // SAFETY: the caller guarantees that `name` is null or a NUL-terminated string, unchanged during the call.
            let key = process.node_key(unsafe { text(name, KEY, Error::KeyLength)? })?;
            // SAFETY: the caller guarantees `length` bytes at `value` and a number at `found`.
            unsafe { give(process, key.bytes(), value, length, found) }
        });
        match given {
            Ok(false) if wait_for != 0 => {}
            other => return code(other.map(drop)),
        }
        system::pause(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Info_GetJobAttr(
    name: *const c_char,
    value: *mut c_char,
    length: c_int,
    found: *mut c_int,
) -> c_int {
    if value.is_null() || found.is_null() {
        return Error::Argument as c_int;
    }
    code(with_process(|process| {
        // SAFETY: the caller guarantees that `name` is null or a NUL-terminated string, unchanged during the call.
        let name = unsafe { text(name, KEY, Error::KeyLength)? };
        if name == b"universeSize" {
            let size = decimal(process.universe_size()?);
            // SAFETY: the caller guarantees `length` bytes at `value` and a number at `found`.
            unsafe {
                put_text(value, length, size.bytes())?;
                return put_number(found, 1);
            }
        }
        // SAFETY: the caller guarantees `length` bytes at `value` and a number at `found`.
        unsafe { give(process, name, value, length, found) }.map(drop)
    }))
}

/// Writes the numbers of a comma-separated list to `array`, as many as it has room for, and their number to `count`.
///
/// # Safety
/// `array` is null or points to memory for `length` numbers; `count` and `found` are null or point to a number.
unsafe fn give_numbers(
    process: &mut Own,
    key: &[u8],
    array: *mut c_int,
    length: c_int,
    count: *mut c_int,
    found: *mut c_int,
) -> Result<(), Error> {
    if array.is_null() || count.is_null() || found.is_null() {
        return Err(Error::Argument);
    }
    let there = match process.get(key) {
        Ok(text) => Some(Text::<VALUE>::concat(&[text]).ok_or(Error::Fail)?),
        Err(Error::Key) => None,
        Err(error) => return Err(error),
    };
    let mut given = 0;
    for word in there.iter().flat_map(|text| text.bytes().split(|byte| *byte == b',')) {
        let number = number(word.trim_ascii()).ok_or(Error::Value)?;
        // SAFETY: `array` isn't null, and the caller guarantees that it points to `length` numbers.
        if !unsafe { put_number_at(array, length, given, number) } {
            break;
        }
        given += 1;
    }
    let given = c_int::try_from(given).map_err(|_| Error::Fail)?;
    // SAFETY: `count` and `found` aren't null, and the caller guarantees that they point to numbers.
    unsafe {
        put_number(count, given)?;
        put_number(found, c_int::from(there.is_some()))
    }
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Info_GetNodeAttrIntArray(
    name: *const c_char,
    array: *mut c_int,
    length: c_int,
    count: *mut c_int,
    found: *mut c_int,
) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that `name` is null or a NUL-terminated string, unchanged during the call.
        let key = process.node_key(unsafe { text(name, KEY, Error::KeyLength)? })?;
        // SAFETY: the caller guarantees that each pointer is null or valid, and `length` numbers at `array`.
        unsafe { give_numbers(process, key.bytes(), array, length, count, found) }
    }))
}

/// # Safety
/// Pointers must be valid as the header requires; see this folder's `mod.rs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMI2_Info_GetJobAttrIntArray(
    name: *const c_char,
    array: *mut c_int,
    length: c_int,
    count: *mut c_int,
    found: *mut c_int,
) -> c_int {
    code(with_process(|process| {
        // SAFETY: the caller guarantees that `name` is null or a NUL-terminated string, unchanged during the call.
        let name = unsafe { text(name, KEY, Error::KeyLength)? };
        // SAFETY: the caller guarantees that each pointer is null or valid, and `length` numbers at `array`.
        unsafe { give_numbers(process, name, array, length, count, found) }
    }))
}

unserved! {
    PMI2_Job_Spawn(
        c_int, *const c_void, *const c_int, *const c_void, *const c_int, *const c_int, *const c_void, c_int,
        *const c_void, *mut c_char, c_int, *mut c_int
    );
    PMI2_Job_Connect(*const c_char, *mut c_void);
    PMI2_Job_Disconnect(*const c_char);
    PMI2_Nameserv_publish(*const c_char, *const c_void, *const c_char);
    PMI2_Nameserv_lookup(*const c_char, *const c_void, *mut c_char, c_int);
    PMI2_Nameserv_unpublish(*const c_char, *const c_void);
}

#[cfg(test)]
pub(super) mod tests {
    use core::ptr::{null, null_mut};

    use super::*;

    /// Makes the calls of a process that is alone and has initialized PMI.
    ///
    /// # Safety
    /// `buffer` points to 16 bytes, and `to` to a number.
    pub(in super::super) unsafe fn a_program_that_is_alone(buffer: *mut c_char, to: *mut c_int) {
        let [argument, short] = [Error::Argument, Error::Length].map(|error| error as c_int);
        let (key, id) = (c"key2".as_ptr(), c"singleton".as_ptr());
        // SAFETY: all pointers are null, point to memory of the stated length or are NUL-terminated strings.
        unsafe {
            assert_eq!(PMI2_Init(to, to, to, null_mut()), argument);
            assert_eq!((PMI2_Init(to, to, to, to), PMI2_Initialized()), (0, 1));
            assert_eq!((PMI2_KVS_Put(key, c"abc".as_ptr()), PMI2_KVS_Fence()), (0, 0));
            assert_eq!((PMI2_KVS_Get(id, 0, key, buffer, 16, to), to.read()), (0, 3));
            assert_eq!((PMI2_KVS_Get(null(), -1, key, buffer, 3, to), to.read()), (short, -4));
            assert_eq!(PMI2_KVS_Get(c"x".as_ptr(), 0, key, buffer, 16, to), argument);
            assert_eq!(PMI2_KVS_Get(id, 0, key, buffer, 16, null_mut()), argument);
            assert_eq!((PMI2_Info_GetNodeAttr(key, buffer, 16, to, 0), to.read()), (0, 0));
            assert_eq!(PMI2_Info_PutNodeAttr(key, c"1, 2,3".as_ptr()), 0);
            assert_eq!((PMI2_Info_GetNodeAttr(key, buffer, 16, to, 1), to.read()), (0, 1));
            assert_eq!(PMI2_Info_GetNodeAttr(key, null_mut(), 16, to, 1), argument);
            let (mut array, mut count) = ([0; 2], 0);
            let numbers = array.as_mut_ptr();
            assert_eq!(PMI2_Info_GetNodeAttrIntArray(key, numbers, 2, &raw mut count, to), 0);
            assert_eq!((array, count, to.read()), ([1, 2], 2, 1));
            assert_eq!(PMI2_Info_GetJobAttrIntArray(key, numbers, 2, to, null_mut()), argument);
            assert_eq!((PMI2_Info_GetJobAttr(c"none".as_ptr(), buffer, 16, to), to.read()), (0, 0));
            assert_eq!(PMI2_Info_GetJobAttr(c"universeSize".as_ptr(), buffer, 16, to), 0);
            assert_eq!(PMI2_Job_GetId(buffer, -5), short);
        }
    }
}
