//! Writes the changes to a description back into Slurm's structure.

use std::borrow::Cow;

use jobtap_core::slurm::{JobDescriptor, Place, Release, Releases};
use serde_json::Value as Json;

use super::{Kind, Structure, Value};

/// Why a field can't be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The text contains a NUL byte, at which it would end in C.
    #[error("{0}: a text of Slurm's can't have a byte 0")]
    ZeroByte(&'static str),
    /// The value doesn't have the field's type.
    #[error("{0}: this is no value of its type")]
    Type(&'static str),
    /// Only other releases have the field.
    #[error("{field}: Slurm {release} has no such field, only those {has_it}")]
    Lacking {
        /// The field.
        field: &'static str,
        /// The release that the file is built for.
        release: Release,
        /// Those that have it.
        has_it: Releases,
    },
}

/// Fields that Slurm has filled in, or that another part of the request depends on. A plugin's changes to them
/// have no effect.
const FIXED: &[&str] = &["argc", "argv", "spank_job_env", "spank_job_env_size", "het_job_offset"];

/// Writes only the fields in which `after` differs from `before`, which was read from the structure.
///
/// Returns the names of changed fields that aren't written because no release has them in its structure, or because a
/// plugin can't change them.
///
/// # Errors
/// [`WriteError`]. The fields before the invalid one are written.
pub fn write_changes(
    structure: &mut dyn Structure,
    before: &JobDescriptor,
    after: &JobDescriptor,
    release: Release,
) -> Result<Vec<&'static str>, WriteError> {
    if before == after {
        return Ok(Vec::new());
    }
    // These can be long. Comparing them is much cheaper than converting them.
    let same_script = before.script == after.script;
    let same_environment = before.environment == after.environment;
    let mut left_out = Vec::new();
    for field in JobDescriptor::FIELDS.iter().filter(|field| field.view_of.is_empty()) {
        let is_same = match field.name {
            "script" => same_script,
            "environment" => same_environment,
            _ => !field.is_changed(before, after),
        };
        if is_same {
            continue;
        }
        let slots = structure.slots().iter();
        let slot = slots.enumerate().find(|(_, slot)| slot.name == field.name);
        let is_fixed =
            FIXED.contains(&field.name) || Place::for_field(field.name) == Some(Place::Request);
        match slot {
            Some((place, slot)) if !is_fixed => {
                let new = field.stored(after).unwrap_or_default();
                let value = stored(&new, slot.kind, slot.unset);
                let value = value.ok_or(WriteError::Type(field.name))?;
                structure.set(place, value)?;
            }
            _ => {
                let has_it = Releases::of_field(field.name);
                if !has_it.has(release) {
                    return Err(WriteError::Lacking { field: field.name, release, has_it });
                }
                left_out.push(field.name);
            }
        }
    }
    Ok(left_out)
}

/// Converts a value to the form in which the C structure stores it.
fn stored(value: &Json, kind: Kind, unset: u64) -> Option<Value<'_>> {
    let text = |value: &Json| value.as_str().map(|text| Cow::Owned(text.to_owned()));
    Some(match (kind, value) {
        (Kind::Text, Json::Null) => Value::Text(None),
        // A text that isn't set is always a null pointer, never an empty text.
        (Kind::Text, Json::String(text)) if text.is_empty() => Value::Text(None),
        (Kind::Text, value) => Value::Text(Some(text(value)?)),
        (Kind::Number(_) | Kind::Time, Json::Null) => Value::Number(unset),
        (Kind::Number(_) | Kind::Time, value) => Value::Number(value.as_u64()?),
        (Kind::Texts, Json::Array(texts)) => {
            Value::Texts(texts.iter().map(text).collect::<Option<_>>()?)
        }
        (Kind::Texts, Json::Object(variables)) => {
            let line = |(name, value): (&String, &Json)| {
                Some(Cow::Owned(format!("{name}={}", value.as_str()?)))
            };
            Value::Texts(variables.iter().map(line).collect::<Option<_>>()?)
        }
        (Kind::Texts, _) => return None,
    })
}
