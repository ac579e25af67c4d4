//! The error codes of PMI, which both headers have with the same numbers.

/// Why a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The other end is gone, or answers something else than the protocol says; or what is asked for isn't served.
    Fail = -1,
    /// PMI is not initialized.
    Init = 1,
    /// There is no more room for values.
    Memory = 2,
    /// A pointer that must not be null is, or a name is not that of the job.
    Argument = 3,
    /// A key has characters that it can't have, or there is no value of this key.
    Key = 4,
    KeyLength = 5,
    /// A value has characters that it can't have.
    Value = 6,
    ValueLength = 7,
    /// The caller's buffer is too small.
    Length = 8,
    /// The caller's array is too small.
    Size = 13,
}

/// The code that a caller gets.
pub(crate) fn code(outcome: Result<(), Error>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(error) => error as i32,
    }
}
