//! `libpmi.so`: how the processes of an MPI program that runs as a job find each other.
//!
//! An MPI library that has no protocol of its own to the launcher loads a library for it, by the functions of PMI's
//! headers `pmi.h` and `pmi2.h`. Open MPI 4 does so in each job, since `FLUX_JOB_ID` tells it that Flux has started
//! the job, and takes the library's path from `FLUX_PMI_LIBRARY_PATH`. This one speaks to the manager's shepherd.
//!
//! A manager is one file, so it contains the library, and its shepherd writes it where tasks find it. The build script
//! compiles it from `src/library/`, which says how it is made.

/// The content of the file `libpmi.so`, which has the functions of both headers.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpmi.so"));

// For its tests alone: what a manager has of it are the bytes above.
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
