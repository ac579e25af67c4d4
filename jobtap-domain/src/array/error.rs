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
