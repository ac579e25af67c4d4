//! Why a constraint was refused: the place, and what is wrong there. The messages are those that
//! Flux users know.

use crate::resource::{Constraint, HostlistError, IdsetError};
use thiserror::Error;

/// Why a JSON value isn't a constraint (RFC 31).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{fault}", lead_in(.path))]
pub struct ConstraintError {
    pub(super) path: String,
    pub(super) fault: ConstraintFault,
}

impl ConstraintError {
    /// Path of the constraint object that is wrong, such as `and[1].not[0]`; empty for the whole
    /// constraint.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong with it.
    #[must_use]
    pub const fn fault(&self) -> &ConstraintFault {
        &self.fault
    }
}

/// What is wrong with a constraint object itself, not with the constraints inside of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConstraintFault {
    /// It is not an object.
    #[error("constraint must be JSON object")]
    Type,
    /// It has more than one operator.
    #[error("constraint must only contain 1 element")]
    Operators,
    /// RFC 31 has no such operator.
    #[error("unknown constraint operator: {0}")]
    Operator(String),
    /// The value of `and`, `or` or `not` is not an array.
    #[error("{0} operator value must be an array")]
    Constraints(&'static str),
    /// The value of another operator is not an array.
    #[error("{0} value must be an array")]
    Operands(&'static str),
    /// An operand is not a string. Contains the kind of operand that was expected.
    #[error("non-string {0} specified")]
    Operand(&'static str),
    /// A property has no name.
    #[error("no name in property \"{property}\"")]
    PropertyName {
        /// The whole operand.
        property: String,
    },
    /// A property has a character that is reserved.
    #[error("invalid character '{character}' in property \"{property}\"")]
    PropertyCharacter {
        /// The reserved character.
        character: char,
        /// The whole operand.
        property: String,
    },
    /// An operand of `hostlist` is malformed.
    #[error("invalid hostlist '{text}' in {operands}: {source}")]
    Hostlist {
        /// The operand.
        text: String,
        /// All operands, as JSON.
        operands: String,
        /// What is wrong with it.
        source: HostlistError,
    },
    /// An operand of `ranks` is malformed.
    #[error("invalid idset '{text}' in {operands}: {source}")]
    Idset {
        /// The operand.
        text: String,
        /// All operands, as JSON.
        operands: String,
        /// What is wrong with it.
        source: IdsetError,
    },
    /// `and`, `or` and `not` are nested too deeply.
    #[error("constraint is nested deeper than {} levels", Constraint::MAX_DEPTH)]
    Depth,
    /// It has too many operators and operands.
    #[error("constraint has more than {} terms", Constraint::MAX_TERMS)]
    Terms,
}

/// Why a text isn't a constraint query (RFC 35). Positions count characters from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A term is missing at the end, or the query is empty.
    #[error("Unexpected end of input in '{0}'")]
    End(String),
    /// A parenthesis isn't closed.
    #[error("Unclosed parenthesis in position {0}")]
    Unclosed(usize),
    /// A closing parenthesis has no opening one.
    #[error("Mismatched parentheses starting at position {0}")]
    Mismatched(usize),
    /// A token is found where a term is expected.
    #[error("Invalid token '{token}' at position {position}")]
    Unexpected {
        /// The text in question.
        token: String,
        /// Where it begins.
        position: usize,
    },
    /// A quote isn't closed.
    #[error("Unclosed quote {} at position {position}", in_quotes(*.quote))]
    Quote {
        /// The quotation mark.
        quote: char,
        /// Where it is, counted from 1.
        position: usize,
    },
    /// An operator has no operand.
    #[error("Missing argument to token '{token}'")]
    Argument {
        /// The operator with its colon.
        token: String,
        /// Where it begins.
        position: usize,
    },
    /// The part before the first colon can't be an operator.
    #[error("invalid character '{character}' in operator '{operator}:' at position {position}")]
    Operator {
        /// The offending character.
        character: char,
        /// The part before the colon.
        operator: String,
        /// Where the character is.
        position: usize,
    },
    /// A term isn't a valid constraint.
    #[error("{fault} at position {position}")]
    Term {
        /// What is wrong with it.
        fault: ConstraintFault,
        /// Where it begins.
        position: usize,
    },
}

fn lead_in(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// Encloses a quotation mark in the other kind of quotes.
fn in_quotes(quote: char) -> String {
    let around = if quote == '"' { '\'' } else { '"' };
    format!("{around}{quote}{around}")
}
