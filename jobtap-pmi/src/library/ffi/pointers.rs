//! Accesses to memory through pointers that C passes, most of them with a length.

use core::ffi::{c_char, c_int};
use core::slice;

use super::super::error::Error;

/// Returns a string of at most `longest` bytes, without its NUL. Fails with `too_long` if it is longer.
///
/// # Safety
/// `text` is null or points to a NUL-terminated string to which nobody writes during `'t`.
pub(super) unsafe fn text<'t>(
    text: *const c_char,
    longest: usize,
    too_long: Error,
) -> Result<&'t [u8], Error> {
    if text.is_null() {
        return Err(Error::Argument);
    }
    for length in 0..=longest {
        // SAFETY: none of the bytes before this one is the NUL, so this one is still part of the string.
        if unsafe { text.add(length).read() } == 0 {
            // SAFETY: the loop has read these bytes, and the caller guarantees that nobody writes to them.
            return Ok(unsafe { slice::from_raw_parts(text.cast(), length) });
        }
    }
    Err(too_long)
}

/// Writes a number.
///
/// # Safety
/// `to` is null or points to memory for a number.
pub(super) unsafe fn put_number(to: *mut c_int, number: c_int) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::Argument);
    }
    // SAFETY: `to` isn't null, so the caller guarantees that it points to memory for a number.
    unsafe { to.write_unaligned(number) };
    Ok(())
}

/// Writes a number to element `at` of an array; `false` if the array, which has `length` elements, is too short.
///
/// # Safety
/// `to` isn't null and points to memory for `length` numbers.
pub(super) unsafe fn put_number_at(
    to: *mut c_int,
    length: c_int,
    at: usize,
    number: c_int,
) -> bool {
    if usize::try_from(length).is_ok_and(|length| at < length) {
        // SAFETY: the caller guarantees memory for `length` numbers, and `at` is less than `length`.
        unsafe { to.add(at).write_unaligned(number) };
        return true;
    }
    false
}

/// Writes a text and a NUL into a buffer of `length` bytes. Nothing is written if they don't fit.
///
/// # Safety
/// `to` is null or points to `length` bytes of memory that don't overlap `text`.
pub(super) unsafe fn put_text(to: *mut c_char, length: c_int, text: &[u8]) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::Argument);
    }
    if usize::try_from(length).is_ok_and(|length| text.len() < length) {
        // SAFETY: the caller guarantees `length` bytes that don't overlap `text`; the text and its NUL fit in.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
            to.add(text.len()).write(0);
        }
        return Ok(());
    }
    Err(Error::Length)
}

#[cfg(test)]
mod tests {
    use core::ptr::{null, null_mut};

    use super::*;

    #[test]
    fn null_and_small_buffers_are_refused_and_not_written() {
        let mut buffer: [c_char; 4] = [7; 4];
        let to = buffer.as_mut_ptr();
        // SAFETY: the buffer is at least as long as stated if the call writes to it, and the other pointers are null.
        unsafe {
            assert_eq!(put_text(null_mut(), 4, b"a"), Err(Error::Argument));
            for length in [3, 0, -1, c_int::MIN] {
                assert_eq!(put_text(to, length, b"abc"), Err(Error::Length));
            }
            assert_eq!(put_number(null_mut(), 1), Err(Error::Argument));
            assert_eq!(text(null(), 9, Error::Key), Err(Error::Argument));
        }
        assert_eq!(buffer, [7; 4]);
        // SAFETY: the buffer has four bytes.
        unsafe { put_text(to, 4, b"abc").unwrap() };
        assert_eq!(buffer.map(|c| c as u8), *b"abc\0");
    }

    #[test]
    fn a_text_is_read_to_its_zero_or_its_most() {
        // SAFETY: all texts are NUL-terminated.
        unsafe {
            assert_eq!(text(c"abc".as_ptr(), 3, Error::Key), Ok(&b"abc"[..]));
            assert_eq!(text(c"abc".as_ptr(), 2, Error::Key), Err(Error::Key));
            assert_eq!(text(c"".as_ptr(), 0, Error::Key), Ok(&b""[..]));
        }
    }

    #[test]
    fn numbers_are_written_at_places_of_the_array_alone() {
        let mut array = [7; 3];
        let to = array.as_mut_ptr();
        // SAFETY: the stated length is two, and the array has three elements.
        let written = unsafe { [0, 1, 2, usize::MAX].map(|at| put_number_at(to, 2, at, 9)) };
        assert_eq!((written, array), ([true, true, false, false], [9, 9, 7]));
        // SAFETY: a negative length states that there are no elements.
        assert!(!unsafe { put_number_at(to, -1, 0, 9) });
    }
}
