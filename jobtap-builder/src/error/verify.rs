//! A new manager that isn't what it was built to be.

use jobtap_daemon::linked::Difference;
use thiserror::Error;

/// What is wrong with a new manager.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// It can't be started.
    #[error("it can't be started: {0}")]
    NotStarted(std::io::Error),
    /// It doesn't list its plugins; what it says instead.
    #[error("it doesn't list its plugins: {0}")]
    NoList(String),
    /// Its plugins differ from those of the manifest.
    #[error(transparent)]
    Differs(#[from] Difference),
}
