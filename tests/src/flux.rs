//! A Flux that is installed, inside which plugins are tested.

use std::path::{Path, PathBuf};

/// Returns the `flux` command: that of `JOBTAP_FLUX_PREFIX`, else the first in the `PATH`.
pub fn flux() -> Option<PathBuf> {
    let named =
        std::env::var_os("JOBTAP_FLUX_PREFIX").map(|prefix| Path::new(&prefix).join("bin/flux"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    named.or_else(|| {
        std::env::split_paths(&path)
            .map(|directory| directory.join("flux"))
            .find(|file| file.is_file())
    })
}
