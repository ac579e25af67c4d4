//! flux-accounting's database, an SQLite file. It is only read, and other programs may use it in the meantime: all tables
//! are read in one transaction, so that they fit together.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction};
use serde_json::Value;

use super::Reason;
use super::schema::{Column, Kind, Table, TableError, tables};
use crate::updates::Tables;

/// The version of the tables that is known here: `PRAGMA user_version`.
const VERSION: i64 = 38;

/// How long the database may be locked by a program that writes to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A database that can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SqliteError {
    #[error(
        "the database is in use: a program is writing to it; try again later, or give a copy of it"
    )]
    InUse,
    #[error(
        "the tables of the database have version {0}, and only {VERSION} can be read; give what \
         `flux account export-json` prints"
    )]
    Version(i64),
    #[error("the database has no table {0}")]
    NoTable(&'static str),
    #[error("{0}")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse,
            _ => Self::Sqlite(error),
        }
    }
}

impl From<rusqlite::Error> for Reason {
    fn from(error: rusqlite::Error) -> Self {
        SqliteError::from(error).into()
    }
}

/// Reads the tables.
pub(super) fn read(path: &Path) -> Result<Tables, Reason> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(PATIENCE)?;
    let transaction = database.transaction()?;
    let version = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version != VERSION {
        return Err(SqliteError::Version(version).into());
    }
    tables(|table| rows(&transaction, table))
}

fn rows(database: &Transaction<'_>, table: &Table) -> Result<Vec<Value>, Reason> {
    let mut columns = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let columns: Vec<String> =
        columns.query_map([table.name], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if columns.is_empty() {
        return Err(SqliteError::NoTable(table.name).into());
    }
    if let Some(column) =
        table.columns.iter().find(|column| !columns.iter().any(|name| name == column.name))
    {
        return Err(table.lacks(column).into());
    }
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let query = format!("SELECT {} FROM {} ORDER BY rowid", names.join(", "), table.name);
    let mut statement = database.prepare(&query)?;
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let at = rows.len() + 1;
        let cell = |place: usize, column: &Column| {
            let cell = row.get_ref(place)?;
            value(cell, column.kind).ok_or_else(|| wrong(table, at, column, cell).into())
        };
        rows.push(table.row::<Reason>(cell)?);
    }
    Ok(rows)
}

/// The value of a cell. SQLite keeps any value in any column.
fn value(cell: ValueRef<'_>, kind: Kind) -> Option<Value> {
    match (kind, cell) {
        (Kind::Integer, ValueRef::Integer(number)) => Some(number.into()),
        (Kind::User, ValueRef::Integer(number)) => u32::try_from(number).ok().map(Value::from),
        (Kind::Number, ValueRef::Real(number)) => number.is_finite().then(|| number.into()),
        (Kind::Number, ValueRef::Integer(number)) => Some(number.into()),
        (Kind::Text, ValueRef::Text(text)) => std::str::from_utf8(text).ok().map(Value::from),
        _ => None,
    }
}

fn wrong(table: &Table, at: usize, column: &Column, cell: ValueRef<'_>) -> TableError {
    let found = match cell {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    };
    table.wrong(format!("row {at}"), column, found)
}
