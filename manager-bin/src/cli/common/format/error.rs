//! Why a format can't be used. The texts are Python's and Flux's, since users search for them.

use thiserror::Error;

/// The reason why a format can't be used. Its texts are complete messages for the user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FormatError {
    /// The format names a field that these rows don't have.
    #[error("Unknown format field: {0}")]
    UnknownField(String),
    /// The text is not a format.
    #[error(transparent)]
    Syntax(#[from] SyntaxFault),
    /// A conversion or a format specification is unknown, or a value doesn't fit it.
    #[error(transparent)]
    Specification(#[from] SpecificationFault),
    /// A sort key is not a field of these rows.
    #[error("Invalid sort key: {0}")]
    SortKey(String),
}

/// What is wrong with the text of a format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SyntaxFault {
    /// A `{` at the end.
    #[error("Single '{{' encountered in format string")]
    Open,
    /// A `}` without a field before it.
    #[error("Single '}}' encountered in format string")]
    Close,
    /// A field that isn't closed.
    #[error("expected '}}' before end of string")]
    Unclosed,
    /// A `{` in a field.
    #[error("unexpected '{{' in field name")]
    Nested,
    /// A `!` that no conversion follows.
    #[error("unmatched '{{' in format spec")]
    NoConversion,
    /// A conversion of several characters.
    #[error("expected ':' after conversion specifier")]
    NoColon,
}

/// What is wrong with a conversion or a format specification, or with the value that it gets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SpecificationFault {
    /// There is no such conversion.
    #[error("Unknown conversion specifier {0}")]
    UnknownConversion(String),
    /// A local time of a value that is no number.
    #[error("'str' object cannot be interpreted as an integer")]
    NoTime,
    /// A duration of a value that is no number.
    #[error("must be real number, not str")]
    NoDuration,
    /// Another conversion of a value that is no number.
    #[error("'<' not supported between instances of 'int' and 'str'")]
    NoNumber,
    /// The text is no specification.
    #[error("Invalid format specifier '{0}'")]
    Invalid(String),
    /// A point that no number follows.
    #[error("Format specifier missing precision")]
    NoPrecision,
    /// A width or a precision that is too large.
    #[error("Too many decimal digits in format string")]
    TooManyDigits,
    /// A code that values of this type don't have.
    #[error("Unknown format code '{code}' for object of type '{type_name}'")]
    UnknownCode {
        /// The code.
        code: char,
        /// Python's name of the type.
        type_name: String,
    },
    /// A separator of groups with a code that has no groups.
    #[error("Cannot specify '{grouping}' with '{code}'.")]
    Grouping {
        /// The separator.
        grouping: char,
        /// The code.
        code: char,
    },
    /// A sign for a text.
    #[error("Sign not allowed in string format specifier")]
    SignOfText,
    /// `#` for a text.
    #[error("Alternate form (#) not allowed in string format specifier")]
    AlternateText,
    /// `=` for a text.
    #[error("'=' alignment not allowed in string format specifier")]
    AlignmentOfText,
    /// A precision for an integer.
    #[error("Precision not allowed in integer format specifier")]
    PrecisionOfInteger,
}
