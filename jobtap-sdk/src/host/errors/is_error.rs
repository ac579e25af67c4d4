//! Which errors `?` converts into the errors of the SDK, and what to write for the others.

/// An error that `?` converts into an error of the SDK: every [`std::error::Error`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `std::error::Error`",
    label = "no `std::error::Error`: write `.or_reject()?` for a `Reject`, `.or_error()?` for the other errors of the SDK"
)]
pub trait IsError: std::error::Error {}

// Without this attribute the compiler explains the standard library's impls of `Error`.
#[diagnostic::do_not_recommend]
impl<E: std::error::Error> IsError for E {}
