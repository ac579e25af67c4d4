//! A cargo or a compiler that can't be used.

use thiserror::Error;

use super::sdk::SdkName;

/// Why cargo or the compiler can't be used.
#[derive(Debug, Error)]
pub enum ToolchainError {
    /// A program that can't be started.
    #[error(
        "can't run {program}: {reason}; building a manager needs cargo and rustc: https://rustup.rs"
    )]
    NoProgram {
        /// The program.
        program: String,
        /// The system's error.
        reason: std::io::Error,
    },
    /// A toolchain that isn't installed.
    #[error(
        "[manager]: toolchain {0:?} is not there: install it with `rustup toolchain install {0}`, or leave `toolchain` out"
    )]
    NotInstalled(String),
    /// A compiler that doesn't say what it is.
    #[error("`rustc -vV` doesn't name its version and host:\n{0}")]
    NoVersion(String),
    /// A compiler that is too old for the SDK.
    #[error(
        "{rustc} is too old: {sdk} needs {needed} or later; get one with `rustup update`, or name one that you have as `toolchain` in [manager]"
    )]
    TooOld {
        /// The compiler.
        rustc: String,
        /// The SDK.
        sdk: Box<SdkName>,
        /// The oldest version that it compiles with.
        needed: String,
    },
    /// A target that the compiler doesn't know.
    #[error(
        "[manager]: target {0:?}: the compiler does not know it; `rustc --print target-list` shows all"
    )]
    UnknownTarget(String),
    /// A target whose standard library isn't installed.
    #[error(
        "[manager]: target {target:?}: its standard library is not there: install it with `rustup target add {}{target}`",
        toolchain.as_ref().map(|name| format!("--toolchain {name} ")).unwrap_or_default()
    )]
    NoStandardLibrary {
        /// The target.
        target: String,
        /// The toolchain that the manifest names.
        toolchain: Option<String>,
    },
}
