//! The folder that `flux account export-db` fills: a file of comma-separated values for each table of the database.

use std::path::Path;

use csv::{Reader, StringRecord};
use serde_json::{Number, Value};

use super::schema::{Kind, Table, tables};
use super::{ExportError, Reason};
use crate::updates::Tables;

/// Reads the tables. Errors name their file.
pub(super) fn read(folder: &Path) -> Result<Tables, ExportError> {
    let mut file = folder.to_owned();
    let tables = tables(|table| {
        file = folder.join(format!("{}.csv", table.name));
        rows(&file, table)
    });
    tables.map_err(|reason| ExportError { file, reason })
}

fn rows(file: &Path, table: &Table) -> Result<Vec<Value>, Reason> {
    let mut reader = Reader::from_path(file)?;
    let names = reader.headers()?.clone();
    let place = |column: &super::schema::Column| {
        names.iter().position(|name| name == column.name).ok_or_else(|| table.lacks(column))
    };
    let places = table.columns.iter().map(place).collect::<Result<Vec<usize>, _>>()?;
    let row = |record: Result<StringRecord, csv::Error>| {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        table.row(|number, column| {
            // The reader refuses records of another length than the first line's.
            let cell = places.get(number).and_then(|place| record.get(*place)).unwrap_or_default();
            let wrong = || table.wrong(format!("line {line}"), column, format!("{cell:?}"));
            value(cell, column.kind).ok_or_else(|| wrong().into())
        })
    };
    reader.records().map(row).collect()
}

fn value(cell: &str, kind: Kind) -> Option<Value> {
    match kind {
        Kind::Integer => cell.parse::<i64>().ok().map(Value::from),
        Kind::User => cell.parse::<u32>().ok().map(Value::from),
        Kind::Number => cell.parse().ok().and_then(Number::from_f64).map(Value::from),
        Kind::Text => Some(cell.into()),
    }
}
