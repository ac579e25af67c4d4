//! Why the elements of an array can't be used.

/// Elements that aren't those of a job array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementsError {
    /// There are none.
    #[error("elements.indexes: an array has at least one element")]
    None,
    /// There are too many.
    #[error("elements.indexes: {count} elements are more than {most}, the most that an array has")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A field doesn't have one text for each element.
    #[error("elements.fields[{field}]: there are {texts} texts for {count} elements")]
    Texts {
        /// The number of the field.
        field: usize,
        /// How many texts it has.
        texts: usize,
        /// How many elements there are.
        count: usize,
    },
    /// A field counts beyond the largest number.
    #[error("elements.fields[{field}]: the numbers are too large")]
    Count {
        /// The number of the field.
        field: usize,
    },
    /// A field is in no place.
    #[error("elements.fields[{field}]: no place has this field")]
    Unused {
        /// The number of the field.
        field: usize,
    },
    /// There are too many places or pieces.
    #[error("elements.places: there are more than {most} places or pieces")]
    Pieces {
        /// How many there may be.
        most: usize,
    },
    /// An element would have too much text.
    #[error("elements.places: an element has {bytes} bytes there, more than {most}")]
    TooLong {
        /// How many bytes it has in all places together.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// A place names a field that isn't there.
    #[error("elements.places: \"{at}\" has field {field}, and there are {fields} fields, from 0")]
    Field {
        /// The place.
        at: String,
        /// The number of the field.
        field: usize,
        /// How many fields there are.
        fields: usize,
    },
    /// A place that the jobspec doesn't have, or that has no text.
    #[error(
        "elements.places: the jobspec has no text at \"{0}\"; a place is a JSON pointer such as /tasks/0/command/1"
    )]
    Place(String),
    /// A place that all elements share.
    #[error(
        "elements.places: \"{0}\" is the same for all elements: they differ in their command, their shell options, \
         their name and their directory only"
    )]
    Shared(String),
}
