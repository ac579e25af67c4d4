//! The error numbers that cross the wire, with the texts that users know from their system.
//!
//! They are fixed here, not taken from the C library, because they are part of the protocol.

use std::borrow::Cow;

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: i32 = $number;)*

        /// The text of an error number, as in strerror(3).
        pub fn strerror(errno: i32) -> Cow<'static, str> {
            match errno {
                0 => Cow::Borrowed("Success"),
                $($name => Cow::Borrowed($text),)*
                other => Cow::Owned(format!("Unknown error {other}")),
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted";
    ENOENT = 2, "No such file or directory";
    ESRCH = 3, "No such process";
    EIO = 5, "Input/output error";
    ECHILD = 10, "No child processes";
    EAGAIN = 11, "Resource temporarily unavailable";
    ENOMEM = 12, "Cannot allocate memory";
    EACCES = 13, "Permission denied";
    EBUSY = 16, "Device or resource busy";
    EEXIST = 17, "File exists";
    ENOTDIR = 20, "Not a directory";
    EISDIR = 21, "Is a directory";
    EINVAL = 22, "Invalid argument";
    EFBIG = 27, "File too large";
    ENOSPC = 28, "No space left on device";
    EPIPE = 32, "Broken pipe";
    EDEADLK = 35, "Resource deadlock avoided";
    ENAMETOOLONG = 36, "File name too long";
    ENOSYS = 38, "Function not implemented";
    ELOOP = 40, "Too many levels of symbolic links";
    ENODATA = 61, "No data available";
    EPROTO = 71, "Protocol error";
    EOVERFLOW = 75, "Value too large for defined data type";
    EMSGSIZE = 90, "Message too long";
    EOPNOTSUPP = 95, "Operation not supported";
    ECONNRESET = 104, "Connection reset by peer";
    ETIMEDOUT = 110, "Connection timed out";
    ECONNREFUSED = 111, "Connection refused";
    EHOSTUNREACH = 113, "No route to host";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_have_their_system_text() {
        assert_eq!(strerror(EINVAL), "Invalid argument");
        assert_eq!(strerror(ENODATA), "No data available");
        assert_eq!(strerror(9999), "Unknown error 9999");
    }
}
