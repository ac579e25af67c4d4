//! The tables of flux-accounting's database, as far as the plugin uses them, and what `flux account export-json` calls
//! their columns.

use serde_json::{Map, Value, json};

use crate::updates::Tables;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
}

/// A column: its name in the database and in exports, and what it holds.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    exported: &'static str,
    pub(super) kind: Kind,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    /// The number of a user.
    User,
    Number,
    Text,
}

/// A table that isn't as it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    #[error("table {table} has no column {column}")]
    NoColumn { table: &'static str, column: &'static str },
    #[error("table {table}, {at}, column {column}: {found} is no {expected}")]
    Cell {
        table: &'static str,
        /// The row.
        at: String,
        column: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error("table config_table: deny_unknown_queues is {0:?}, and neither true nor false")]
    NoBoolean(String),
}

const fn same(name: &'static str, kind: Kind) -> Column {
    Column { name, exported: name, kind }
}

const fn integer(name: &'static str) -> Column {
    same(name, Kind::Integer)
}

const fn text(name: &'static str) -> Column {
    same(name, Kind::Text)
}

const ASSOCIATIONS: Table = Table {
    name: "association_table",
    columns: &[
        same("userid", Kind::User),
        text("bank"),
        Column { name: "default_bank", exported: "def_bank", kind: Kind::Text },
        same("fairshare", Kind::Number),
        integer("max_running_jobs"),
        integer("max_active_jobs"),
        integer("max_sched_jobs"),
        integer("max_nodes"),
        integer("max_cores"),
        text("queues"),
        integer("active"),
        text("projects"),
        Column { name: "default_project", exported: "def_project", kind: Kind::Text },
    ],
};

const QUEUES: Table = Table {
    name: "queue_table",
    columns: &[
        text("queue"),
        integer("min_nodes_per_job"),
        integer("max_nodes_per_job"),
        integer("max_time_per_job"),
        integer("priority"),
        integer("max_running_jobs"),
        integer("max_nodes_per_assoc"),
        integer("max_sched_jobs"),
        integer("max_sched_nodes_per_assoc"),
        integer("max_sched_cores_per_assoc"),
    ],
};

const PROJECTS: Table = Table { name: "project_table", columns: &[text("project")] };

const BANKS: Table =
    Table { name: "bank_table", columns: &[text("bank"), same("priority", Kind::Number)] };

const FACTORS: Table =
    Table { name: "priority_factor_weight_table", columns: &[text("factor"), integer("weight")] };

const OPTIONS: Table = Table { name: "config_table", columns: &[text("key"), text("value")] };

impl Table {
    /// What is wrong with a cell.
    pub(super) fn wrong(&self, at: String, column: &Column, found: String) -> TableError {
        let expected = match column.kind {
            Kind::Integer => "integer",
            Kind::User => "number of a user",
            Kind::Number => "number",
            Kind::Text => "text",
        };
        TableError::Cell { table: self.name, at, column: column.name, found, expected }
    }

    pub(super) fn lacks(&self, column: &Column) -> TableError {
        TableError::NoColumn { table: self.name, column: column.name }
    }

    /// A row as exports have it, of its cells.
    pub(super) fn row<E>(
        &self,
        mut cell: impl FnMut(usize, &Column) -> Result<Value, E>,
    ) -> Result<Value, E> {
        let cells = self
            .columns
            .iter()
            .enumerate()
            .map(|(place, column)| Ok((column.exported.to_owned(), cell(place, column)?)));
        cells.collect::<Result<Map<_, _>, E>>().map(Value::Object)
    }
}

/// All tables as an export has them, of their rows.
pub(super) fn tables<E: From<TableError>>(
    mut rows: impl FnMut(&Table) -> Result<Vec<Value>, E>,
) -> Result<Tables, E> {
    let options = rows(&OPTIONS)?;
    let denies = options.iter().find(|row| row.get("key") == Some(&json!("deny_unknown_queues")));
    let denies = denies.and_then(|row| row.get("value")?.as_str()).unwrap_or("false");
    let denies: bool = denies.parse().map_err(|_| TableError::NoBoolean(denies.to_owned()))?;
    Ok(Tables {
        associations: Some(Value::Array(rows(&ASSOCIATIONS)?)),
        queues: Some(Value::Array(rows(&QUEUES)?)),
        projects: Some(Value::Array(rows(&PROJECTS)?)),
        banks: Some(Value::Array(rows(&BANKS)?)),
        priority_factors: Some(Value::Array(rows(&FACTORS)?)),
        config: Some(json!({ "deny_unknown_queues": denies })),
    })
}
