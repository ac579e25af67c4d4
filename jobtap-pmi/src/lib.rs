//! `libpmi.so`, through which the processes of an MPI program that runs as a job find each other.
//!
//! An MPI library that doesn't implement the launcher's protocol itself loads a library that does, and calls the
//! functions of PMI's headers `pmi.h` and `pmi2.h`. Open MPI 4 does so in each job, since `FLUX_JOB_ID` tells it that
//! Flux has started the job; it takes the library's path from `FLUX_PMI_LIBRARY_PATH`. This library talks to the
//! manager's shepherd.
//!
//! A manager is one file, so it contains the library, and its shepherd writes the library to where tasks find it. The
//! build script compiles it from `src/library/`, whose documentation describes its design.

/// The content of the file `libpmi.so`, which defines the functions of both headers.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpmi.so"));

// Only for the library's tests: a manager uses the bytes above.
#[cfg(test)]
mod library;

#[cfg(test)]
mod tests {
    #[test]
    fn the_library_is_small() {
        let size = super::LIBRARY.len();
        assert!(super::LIBRARY.starts_with(b"\x7fELF") && size < 100_000, "{size} bytes");
    }
}
