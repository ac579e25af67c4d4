//! The address of a manager: `local://PATH` of its Unix socket (RFC 37's local URI).

use std::path::{Path, PathBuf};

/// Environment variable with the manager's address.
pub const VARIABLE: &str = "JOBTAP_URI";

/// The same for scripts written for Flux; used if [`VARIABLE`] is unset.
pub const FLUX_VARIABLE: &str = "FLUX_URI";

/// The socket of the manager of the whole system, which clients use without a variable.
pub const SYSTEM_SOCKET: &str = "/run/jobtap/local";

const SCHEME: &str = "local://";

/// The longest path that fits into a Unix socket's address, in bytes.
pub const MAX_PATH: usize = 107;

/// The URI of a socket.
pub fn of_path(path: &Path) -> String {
    format!("{SCHEME}{}", path.display())
}

/// An address without a socket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// Nothing follows the scheme.
    #[error("the address '{0}' names no socket: write local://PATH")]
    NoSocket(String),
    /// It has another scheme, or none.
    #[error("the address '{0}' is not understood: write local://PATH")]
    Scheme(String),
}

/// The socket that a URI names.
///
/// # Errors
/// [`UriError`].
pub fn to_path(uri: &str) -> Result<PathBuf, UriError> {
    match uri.strip_prefix(SCHEME) {
        Some("") => Err(UriError::NoSocket(uri.to_owned())),
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(UriError::Scheme(uri.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_as_uri() {
        let path = Path::new("/run/user/1/jobtap/local-0");
        assert_eq!(to_path(&of_path(path)).unwrap(), path);
    }

    #[test]
    fn other_schemes_are_refused_with_the_right_form() {
        assert!(to_path("ssh://host/x").unwrap_err().to_string().contains("local://PATH"));
        assert!(to_path("local://").unwrap_err().to_string().contains("names no socket"));
    }
}
