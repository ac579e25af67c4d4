//! The form of a constraint object (RFC 31), in the words that submitters know from Flux. Which
//! resources it selects is the scheduler's to say.

use serde_json::Value;

use crate::jobspec::JobspecError;
use crate::jobspec::error::Place;
use crate::resource::{Constraint, ConstraintError, ConstraintFault};

pub(super) fn check(constraint: &Value, at: &Place<'_>) -> Result<(), JobspecError> {
    Constraint::from_value(constraint).map(drop).map_err(|error| {
        let dot = if error.path().is_empty() { "" } else { "." };
        let path = format!("{at}{dot}{}", error.path());
        JobspecError::Invalid { path, text: text(&error) }
    })
}

fn text(error: &ConstraintError) -> String {
    match error.fault() {
        ConstraintFault::Type => "constraints must be a mapping".to_owned(),
        ConstraintFault::Operator(operator) => format!("unknown constraint operator '{operator}'"),
        ConstraintFault::PropertyName { property }
        | ConstraintFault::PropertyCharacter { property, .. } => {
            format!("invalid character in property '{property}'")
        }
        ConstraintFault::Hostlist { source, .. } => {
            format!("host constraint contains invalid hosts: {source}")
        }
        fault => fault.to_string(),
    }
}
