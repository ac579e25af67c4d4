//! Texts and lists in the daemon's memory, allocated and freed with the daemon's allocator.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};

use super::symbols;

/// The source location that the daemon reports if an allocation fails, which ends the daemon.
const FILE: &CStr = c"jobtap";

/// Allocates zeroed memory.
///
/// Returns null if the program has no such allocator, which is impossible in slurmctld and slurmd.
pub(super) fn allocate(count: usize, size: usize) -> *mut c_void {
    let Some(xcalloc) = symbols::xcalloc() else { return std::ptr::null_mut() };
    // SAFETY: `xcalloc` accepts any sizes; the texts are static and NUL-terminated.
    unsafe { xcalloc(count, size, true, false, FILE.as_ptr(), 0, FILE.as_ptr()) }
}

/// Frees memory of the daemon's allocator.
///
/// # Safety
/// `memory` is null or was allocated by that allocator, and isn't used any more.
pub(super) unsafe fn free(memory: *mut c_void) {
    let mut memory = memory;
    if let Some(xfree) = symbols::xfree()
        && !memory.is_null()
    {
        // SAFETY: the caller guarantees that `memory` is from the daemon's allocator and isn't used any more. `xfree`
        // also sets the pointer to null, which is a local variable.
        unsafe { xfree(&raw mut memory) };
    }
}

/// Copies a text into the daemon's memory. `None` if the text contains a NUL byte.
pub(super) fn text(text: &str) -> Option<*mut c_char> {
    let text = CString::new(text).ok()?;
    let bytes = text.as_bytes_with_nul();
    let copy = allocate(bytes.len(), 1).cast::<u8>();
    if !copy.is_null() {
        // SAFETY: `copy` has just been allocated with this many bytes, so it doesn't overlap `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    }
    Some(copy.cast())
}

/// Reads a text; `None` for null.
///
/// # Safety
/// `text` is null or a NUL-terminated string, and doesn't change while the result is used.
pub(super) unsafe fn read_text<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` isn't null, so the caller guarantees a NUL-terminated string that doesn't change.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Reads a list of at most `count` texts. A null pointer ends it earlier.
///
/// # Safety
/// `texts` is null or points to `count` pointers, each of which [`read_text`] may read.
pub(super) unsafe fn read_texts<'a>(
    texts: *const *const c_char,
    count: usize,
) -> Vec<Cow<'a, str>> {
    if texts.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller guarantees `count` pointers at `texts`.
    let pointers = (0..count).map(|index| unsafe { *texts.add(index) });
    // SAFETY: the caller guarantees that each pointer is null or a text as `read_text` requires.
    pointers.map_while(|pointer| unsafe { read_text(pointer) }).collect()
}

/// Copies a list into the daemon's memory, with a null pointer after the last text. `None` if a text contains a NUL
/// byte.
pub(super) fn texts(of: &[Cow<'_, str>]) -> Option<*mut *mut c_char> {
    if of.iter().any(|text| text.contains('\0')) {
        return None;
    }
    let list = allocate(of.len() + 1, size_of::<*mut c_char>()).cast::<*mut c_char>();
    if list.is_null() {
        return Some(list);
    }
    for (index, content) in of.iter().enumerate() {
        // SAFETY: the list was allocated with room for all texts and a null pointer, so `index` is within it.
        unsafe { *list.add(index) = text(content).unwrap_or(std::ptr::null_mut()) };
    }
    Some(list)
}

/// Frees a list and its texts.
///
/// # Safety
/// `texts` is null or points to `count` pointers. The list and all texts were allocated by the daemon's allocator, and
/// none of them is used any more.
pub(super) unsafe fn free_texts(texts: *mut *mut c_char, count: usize) {
    if texts.is_null() {
        return;
    }
    for index in 0..count {
        // SAFETY: the caller guarantees `count` pointers, each to a text of the daemon's allocator that isn't used.
        unsafe { free((*texts.add(index)).cast()) };
    }
    // SAFETY: the caller guarantees that the list is from the daemon's allocator and isn't used any more.
    unsafe { free(texts.cast()) };
}
