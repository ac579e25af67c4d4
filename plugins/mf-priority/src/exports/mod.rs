//! Data of flux-accounting in files: what `flux account export-json` prints, the folder that `flux account export-db`
//! fills, and the database itself. The content tells which of these it is.

#[cfg(feature = "database")]
mod folder;
#[cfg(feature = "database")]
mod schema;
#[cfg(feature = "database")]
mod sqlite;

use std::path::{Path, PathBuf};

use crate::updates::Tables;

/// How files of SQLite begin.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A file that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub(crate) struct ExportError {
    file: PathBuf,
    reason: Reason,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Reason {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(
        "{0}; a file must be what `flux account export-json` prints, or flux-accounting's database"
    )]
    Json(#[from] serde_json::Error),
    #[cfg(not(feature = "database"))]
    #[error(
        "only a plugin with the feature `database` reads it; give what `flux account export-json` prints"
    )]
    NotBuilt,
    #[cfg(feature = "database")]
    #[error(transparent)]
    Table(#[from] schema::TableError),
    #[cfg(feature = "database")]
    #[error(transparent)]
    Sqlite(#[from] sqlite::SqliteError),
    #[cfg(feature = "database")]
    #[error(transparent)]
    Csv(#[from] csv::Error),
}

/// Reads all tables.
pub(crate) fn read(path: &Path) -> Result<Tables, ExportError> {
    let refused = |reason: Reason| ExportError { file: path.to_owned(), reason };
    if path.is_dir() {
        return of_folder(path);
    }
    let content = std::fs::read(path).map_err(|error| refused(error.into()))?;
    match content.starts_with(SQLITE) {
        true => of_database(path).map_err(refused),
        false => serde_json::from_slice(&content).map_err(|error| refused(error.into())),
    }
}

#[cfg(feature = "database")]
fn of_database(path: &Path) -> Result<Tables, Reason> {
    sqlite::read(path)
}

#[cfg(feature = "database")]
fn of_folder(path: &Path) -> Result<Tables, ExportError> {
    folder::read(path)
}

#[cfg(not(feature = "database"))]
fn of_database(_: &Path) -> Result<Tables, Reason> {
    Err(Reason::NotBuilt)
}

#[cfg(not(feature = "database"))]
fn of_folder(path: &Path) -> Result<Tables, ExportError> {
    Err(ExportError { file: path.to_owned(), reason: Reason::NotBuilt })
}
