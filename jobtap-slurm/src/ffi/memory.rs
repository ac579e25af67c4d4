//! Texts and lists in the daemon's memory, allocated as the daemon frees them.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};

use super::symbols;

/// What is reported as the place of an allocation that fails; slurmctld ends then.
const FILE: &CStr = c"jobtap";

/// Allocates zeros.
///
/// Returns null if the daemon has no allocator, which is impossible in slurmctld and slurmd.
pub(super) fn allocate(count: usize, size: usize) -> *mut c_void {
    let Some(xcalloc) = symbols::xcalloc() else { return std::ptr::null_mut() };
    // SAFETY: it takes any sizes; the texts are static.
    unsafe { xcalloc(count, size, true, false, FILE.as_ptr(), 0, FILE.as_ptr()) }
}

/// Frees what the daemon's allocator has allocated.
///
/// # Safety
/// `memory` is null or from that allocator, and is not used any more.
pub(super) unsafe fn free(memory: *mut c_void) {
    let mut memory = memory;
    if let Some(xfree) = symbols::xfree()
        && !memory.is_null()
    {
        // SAFETY: by the contract of this function; the address is that of a local variable.
        unsafe { xfree(&raw mut memory) };
    }
}

/// A copy of a text for the daemon. `None` if the text has a byte 0.
pub(super) fn text(text: &str) -> Option<*mut c_char> {
    let text = CString::new(text).ok()?;
    let bytes = text.as_bytes_with_nul();
    let copy = allocate(bytes.len(), 1).cast::<u8>();
    if !copy.is_null() {
        // SAFETY: `copy` was allocated with this many bytes just now, so it overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    }
    Some(copy.cast())
}

/// Reads a text; `None` for null.
///
/// # Safety
/// `text` is null or ends with a byte 0, and is not changed while the result is used.
pub(super) unsafe fn read_text<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract of this function.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Reads a list of texts. It ends before this count where a pointer is null.
///
/// # Safety
/// `texts` is null or has this many pointers, each of which [`read_text`] may read.
pub(super) unsafe fn read_texts<'a>(
    texts: *const *const c_char,
    count: usize,
) -> Vec<Cow<'a, str>> {
    if texts.is_null() {
        return Vec::new();
    }
    // SAFETY: `texts` has this many pointers, by the contract of this function.
    let pointers = (0..count).map(|index| unsafe { *texts.add(index) });
    // SAFETY: the same for what they point to.
    pointers.map_while(|pointer| unsafe { read_text(pointer) }).collect()
}

/// A list for the daemon, with null behind its last text. `None` if a text has a byte 0.
pub(super) fn texts(of: &[Cow<'_, str>]) -> Option<*mut *mut c_char> {
    if of.iter().any(|text| text.contains('\0')) {
        return None;
    }
    let list = allocate(of.len() + 1, size_of::<*mut c_char>()).cast::<*mut c_char>();
    if list.is_null() {
        return Some(list);
    }
    for (index, content) in of.iter().enumerate() {
        // SAFETY: the list was allocated with one pointer more than there are texts.
        unsafe { *list.add(index) = text(content).unwrap_or(std::ptr::null_mut()) };
    }
    Some(list)
}

/// Frees a list and its texts.
///
/// # Safety
/// `texts` is null or has this many pointers, which all are from the daemon's allocator, as it is itself, and
/// nothing of it is used any more.
pub(super) unsafe fn free_texts(texts: *mut *mut c_char, count: usize) {
    if texts.is_null() {
        return;
    }
    for index in 0..count {
        // SAFETY: by the contract of this function.
        unsafe { free((*texts.add(index)).cast()) };
    }
    // SAFETY: the same.
    unsafe { free(texts.cast()) };
}
