//! The error codes of PMI, which are the same in both headers.

/// Why a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The other end has closed the socket or violates the protocol, or the function isn't supported.
    Fail = -1,
    /// PMI is not initialized.
    Init = 1,
    /// There is no room for another value.
    Memory = 2,
    /// A pointer is null that must not be, or a name isn't the job's.
    Argument = 3,
    /// A key contains characters that aren't allowed, or there is no value with this key.
    Key = 4,
    KeyLength = 5,
    /// A value contains characters that aren't allowed.
    Value = 6,
    ValueLength = 7,
    /// The caller's buffer is too small.
    Length = 8,
    /// The caller's array is too small.
    Size = 13,
}

/// Returns the code that the caller gets.
pub(crate) fn code(outcome: Result<(), Error>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(error) => error as i32,
    }
}
