//! What the tables of fields are made of, and the macro that makes a structure and its table from one
//! declaration.
//!
//! Lua, the conversion to a jobspec, the chapter of the guide and the tests all go over these tables, so
//! that a field is named and described in one place.

use super::release::{Release, Releases};
use super::value::{Kind, SetError, Value};

/// How a value is written into a field.
pub type SetField<T> = fn(&mut T, Value) -> Result<(), SetError>;

/// How a stored value becomes JSON, and how it is read from JSON. A value of a wrong type is ignored.
pub(super) type JsonField<T> = (fn(&T) -> serde_json::Value, fn(&mut T, &serde_json::Value));

/// A field of one of Slurm's structures.
#[derive(Debug)]
#[non_exhaustive]
pub struct Field<T: 'static> {
    /// The name in Lua, and in C where the two agree.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The fields that this one is another view of; empty for a field that is stored.
    pub view_of: &'static [&'static str],
    /// The releases of Slurm whose scripts can read it.
    pub readable: Releases,
    /// The releases of Slurm whose scripts can write it.
    pub writable: Releases,
    /// What a number counts: `minutes`, `MiB`; empty if there is nothing to say.
    pub unit: &'static str,
    /// The option of `sbatch` that sets it; empty for a field without one.
    pub option: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Reads the value as Lua does.
    pub get: fn(&T) -> Value,
    /// Writes a value as Lua does; `None` if no release can write the field.
    pub set: Option<SetField<T>>,
    /// Writes the stored value as JSON, and reads it; `None` for a field that is a view of others.
    pub(super) json: Option<JsonField<T>>,
}

impl<T> Field<T> {
    /// Finds a field by its name.
    #[must_use]
    pub fn find(fields: &'static [Self], name: &str) -> Option<&'static Self> {
        fields.iter().find(|field| field.name == name)
    }

    /// Whether scripts of a release can read or write it.
    #[must_use]
    pub fn is_in(&self, release: Release) -> bool {
        self.readable.has(release) || self.writable.has(release)
    }

    /// The stored value as JSON; `None` for a field that is a view of others.
    #[must_use]
    pub fn stored(&self, record: &T) -> Option<serde_json::Value> {
        self.json.map(|(store, _)| store(record))
    }

    /// Whether the stored values of two records differ.
    #[must_use]
    pub fn is_changed(&self, before: &T, after: &T) -> bool {
        self.json.is_some_and(|(store, _)| store(before) != store(after))
    }
}

/// Turns an empty text into null, since it counts as not set.
pub(super) fn empty_as_null(value: &serde_json::Value) -> &serde_json::Value {
    if value == "" { &serde_json::Value::Null } else { value }
}

/// Declares a structure and its table of fields.
///
/// A row of the first part is a field of the structure:
/// `name: [type], ACCESS, "unit", "option of sbatch";`. The types are
///
/// - `[text]`, `[list from FIRST]`, `[environment]`;
/// - `[WIDTH]`, a number that is always set, and `[WIDTH = DEFAULT]`;
/// - `[WIDTH or UNSET]`, a number that may be unset and then reads as `UNSET`; `[WIDTH or nil]`;
///   `[u64 or 0]` is a point in time.
///
/// The access of scripts is `RW`, `RO` to read only or `NO`, in all releases of Slurm; `RW since V23_11` or
/// `RW until V23_11` in those alone, and `RW read since V23_02` for a field that older scripts could only write.
///
/// Functions to get and to set the value follow where scripts see a value other than the stored one.
///
/// A row of the second part is another view of fields of the structure, with functions to get and to set
/// it: `name of [fields]: Kind, ACCESS, "unit", "option", get [, set];`.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $(
                #[doc = $doc:literal]
                $field:ident: [$($kind:tt)+], $($access:ident)+, $unit:literal, $option:literal
                $(, $field_get:expr $(, $field_set:expr)?)?;
            )*
        }
        views {
            $(
                #[doc = $view_doc:literal]
                $view:ident of [$($source:ident)+]: $view_kind:ident,
                $($view_access:ident)+, $view_unit:literal, $view_option:literal,
                $get:expr $(, $set:expr)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $Name {
            $(
                #[doc = $doc]
                #[doc = $crate::slurm::table::record!(@note $unit, $option, $($kind)+)]
                pub $field: $crate::slurm::table::record!(@type $($kind)+),
            )*
        }

        impl Default for $Name {
            fn default() -> Self {
                Self { $( $field: $crate::slurm::table::record!(@default $($kind)+), )* }
            }
        }

        impl $Name {
            /// The table of the fields: those that are stored, then the other views of them.
            pub const FIELDS: &'static [$crate::slurm::Field<Self>] = &[
                $( $crate::slurm::Field {
                    name: stringify!($field),
                    kind: $crate::slurm::table::record!(@kind $($kind)+),
                    view_of: &[],
                    readable: $crate::slurm::table::record!(@readable $($access)+),
                    writable: $crate::slurm::table::record!(@writable $($access)+),
                    unit: $unit,
                    option: $option,
                    doc: $doc,
                    get: $crate::slurm::table::record!(
                        @first $(($field_get))?
                        (|record| $crate::slurm::table::record!(@get record.$field, $($kind)+))
                    ),
                    set: $crate::slurm::table::record!(
                        @first $($((Some($field_set)))?)?
                        ($crate::slurm::table::record!(@set [$($access)+] $field, $($kind)+))
                    ),
                    json: Some((
                        |record| serde_json::to_value(&record.$field).unwrap_or_default(),
                        |record, value| {
                            let value = $crate::slurm::table::empty_as_null(value);
                            if let Ok(value) = serde::Deserialize::deserialize(value) {
                                record.$field = value;
                            }
                        },
                    )),
                }, )*
                $( $crate::slurm::Field {
                    name: stringify!($view),
                    kind: $crate::slurm::Kind::$view_kind,
                    view_of: &[$(stringify!($source)),+],
                    readable: $crate::slurm::table::record!(@readable $($view_access)+),
                    writable: $crate::slurm::table::record!(@writable $($view_access)+),
                    unit: $view_unit,
                    option: $view_option,
                    doc: $view_doc,
                    get: $get,
                    set: $crate::slurm::table::record!(@view_set $($set)?),
                    json: None,
                }, )*
            ];

            /// Returns a field's value as Lua reads it; `None` if Slurm has no field of this name.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<$crate::slurm::Value> {
                $crate::slurm::Field::find(Self::FIELDS, name).map(|field| (field.get)(self))
            }
        }
    };

    (@readable NO) => { $crate::slurm::Releases::NONE };
    (@readable $access:ident) => { $crate::slurm::Releases::ALL };
    (@readable RW read since $first:ident) => { $crate::slurm::table::record!(@readable RO since $first) };
    (@readable $access:ident $when:ident $release:ident) => {
        $crate::slurm::Releases::$when($crate::slurm::Release::$release)
    };
    (@writable RW read since $first:ident) => { $crate::slurm::Releases::ALL };
    (@writable RW $($when:ident)*) => { $crate::slurm::table::record!(@readable RW $($when)*) };
    (@writable $($access:ident)+) => { $crate::slurm::Releases::NONE };

    (@note $unit:literal, $option:literal, $($kind:tt)+) => {
        concat!(
            "\n\n",
            $crate::slurm::table::record!(@words $($kind)+),
            $crate::slurm::table::record!(@unit $unit),
            $crate::slurm::table::record!(@option $option),
        )
    };
    (@unit "") => { "" };
    (@unit $unit:literal) => { concat!("Unit: ", $unit, ". ") };
    (@option "") => { "" };
    (@option $option:literal) => { concat!("In `sbatch`: `", $option, "`.") };
    (@words $width:ident or nil) => { "`None` if it does not apply; scripts read `nil` then. " };
    (@words $width:ident or $unset:tt) => {
        concat!("`None` if it is not set; scripts read `", stringify!($unset), "` then. ")
    };
    (@words $($other:tt)+) => { "" };

    (@type text) => { Option<String> };
    (@type list from $first:literal) => { Vec<String> };
    (@type environment) => { $crate::slurm::Environment };
    (@type bool) => { bool };
    (@type $width:ident) => { $width };
    (@type $width:ident = $default:tt) => { $width };
    (@type $width:ident or $unset:tt) => { Option<$width> };

    (@default $width:ident = $default:tt) => { $default };
    (@default $($kind:tt)+) => { Default::default() };

    (@kind text) => { $crate::slurm::Kind::Text };
    (@kind list from $first:literal) => { $crate::slurm::Kind::List { first: $first } };
    (@kind environment) => { $crate::slurm::Kind::Environment };
    (@kind bool) => { $crate::slurm::Kind::Boolean };
    (@kind $($number:tt)+) => { $crate::slurm::Kind::Number };

    (@get $place:expr, text) => { $crate::slurm::value::text($place.as_ref()) };
    (@get $place:expr, list from $first:literal) => { $crate::slurm::value::list(&$place) };
    (@get $place:expr, environment) => { $crate::slurm::Value::List($place.lines().collect()) };
    (@get $place:expr, bool) => { $crate::slurm::Value::Boolean($place) };
    (@get $place:expr, $width:ident or nil) => {
        $place.map_or($crate::slurm::Value::Nil, $crate::slurm::value::number)
    };
    (@get $place:expr, $width:ident or $unset:tt) => {
        $crate::slurm::value::number_or($place, $unset)
    };
    (@get $place:expr, $($number:tt)+) => { $crate::slurm::value::number($place) };

    (@set [NO] $($row:tt)*) => { None };
    (@set [RO $($when:ident)*] $($row:tt)*) => { None };
    (@set [$($access:ident)+] $field:ident, text) => {
        Some(|record, value| {
            record.$field = $crate::slurm::value::text_from(value)?;
            Ok(())
        })
    };
    (@set [$($access:ident)+] $field:ident, u64 or 0) => {
        Some(|record, value| {
            record.$field = $crate::slurm::value::time_from(&value)?;
            Ok(())
        })
    };
    (@set [$($access:ident)+] $field:ident, $width:ident or $unset:tt) => {
        Some(|record, value| {
            record.$field = $crate::slurm::value::optional_from(&value, $unset)?;
            Ok(())
        })
    };
    (@set [$($access:ident)+] $field:ident, $width:ident) => {
        Some(|record, value| {
            let number = $crate::slurm::value::number_from(&value)?;
            record.$field = $crate::slurm::value::Width::from_lua(number);
            Ok(())
        })
    };

    (@first ($first:expr) $($others:tt)*) => { $first };

    (@view_set) => { None };
    (@view_set $set:expr) => { Some($set) };
}

pub(super) use record;
