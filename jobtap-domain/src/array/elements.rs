//! The elements of an array: their indexes, and in what they differ.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Element, ElementsError, Texts};
use crate::job::JobId;
use crate::jobspec::JobspecError;
use crate::resource::Idset;

/// The places in a jobspec in which elements may differ. The others decide about resources, limits and rights, which a
/// request has once for all elements.
const PLACES: [&str; 4] = [
    "/tasks/0/command/",
    "/attributes/system/shell/options/",
    "/attributes/system/job/name",
    "/attributes/system/cwd",
];

/// The elements of a job array.
///
/// Each has an index, which users choose, and a position, from 0 in the order of the indexes.
///
/// ```
/// use jobtap_core::array::Elements;
/// use jobtap_core::job::JobId;
/// use serde_json::json;
///
/// let elements: Elements = serde_json::from_value(json!({
///     "indexes": "3-4,8",
///     "fields": [["a", "b", "c"]],
///     "places": [{"at": "/tasks/0/command/1", "pieces": ["file-", 0, ".txt"]}],
/// }))?;
/// elements.check(&json!({"tasks": [{"command": ["cat", "{}"]}]}))?;
/// assert_eq!((elements.len(), elements.index(2), elements.position(4)), (3, Some(8), Some(1)));
///
/// let mut jobspec = json!({"tasks": [{"command": ["cat", "{}"]}], "attributes": {}});
/// elements.fill(&mut jobspec, JobId::new(77), 2)?;
/// assert_eq!(jobspec["tasks"][0]["command"], json!(["cat", "file-c.txt"]));
/// let slurm = &jobspec["attributes"]["system"]["slurm"];
/// assert_eq!(slurm, &json!({"array_job_id": 77, "array_task_id": 8}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sent")]
pub struct Elements {
    indexes: Idset,
    #[serde(rename = "at-once", skip_serializing_if = "Option::is_none")]
    at_once: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<Field>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<Place>,
    /// The runs of indexes, each with the position of its first one.
    #[serde(skip)]
    runs: Vec<(usize, RangeInclusive<u32>)>,
}

/// The elements of a job array.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Elements")]
struct Sent {
    /// The indexes, as an idset.
    #[schemars(with = "String")]
    indexes: Idset,
    /// How many elements may be active at once; all of them if it isn't given.
    #[serde(default, rename = "at-once")]
    at_once: Option<NonZeroU32>,
    /// The texts that are put into places.
    #[serde(default)]
    fields: Vec<Field>,
    /// Where they are put.
    #[serde(default)]
    places: Vec<Place>,
}

impl JsonSchema for Elements {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Sent::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Sent::json_schema(generator)
    }
}

impl From<Sent> for Elements {
    fn from(sent: Sent) -> Self {
        Self::new(sent.indexes, sent.at_once, sent.fields, sent.places)
    }
}

/// What elements have in the same place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Field {
    /// A text for each element, by position.
    Texts(#[schemars(with = "Vec<String>")] Texts),
    /// The position plus this number.
    Count {
        /// The number of the first element.
        from: u64,
    },
}

impl Field {
    /// The length of the longest text.
    fn longest(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.iter().map(str::len).max().unwrap_or_default(),
            // As many digits as a number has at most.
            Self::Count { .. } => 20,
        }
    }
}

/// A text in the jobspec that differs from element to element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Where it is, as a JSON pointer (RFC 6901).
    pub at: String,
    /// What it is made of.
    pub pieces: Vec<Piece>,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Piece {
    /// What the field with this number has for the element.
    Field(usize),
    /// The same for all elements.
    Text(String),
}

impl Elements {
    /// The maximum number of elements, as in Slurm.
    pub const MOST: usize = 4_000_000;

    /// The maximum number of places, and of pieces in all of them.
    pub const MOST_PIECES: usize = 256;

    /// The maximum length of what an element has in all places together, in bytes: what the system takes as an argument.
    pub const LONGEST: usize = 128 * 1024;

    /// The elements with these indexes. [`check`](Self::check) says whether they can be used.
    #[must_use]
    pub fn new(
        indexes: Idset,
        at_once: Option<NonZeroU32>,
        fields: Vec<Field>,
        places: Vec<Place>,
    ) -> Self {
        let mut runs = Vec::new();
        let mut position = 0;
        for run in indexes.ranges() {
            let length = (run.end() - run.start()) as usize + 1;
            runs.push((position, run));
            position += length;
        }
        Self { indexes, at_once, fields, places, runs }
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        let end = |(position, run): &(usize, RangeInclusive<u32>)| {
            position + (run.end() - run.start()) as usize + 1
        };
        self.runs.last().map_or(0, end)
    }

    /// Whether there are none, which [`check`](Self::check) refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The indexes of all elements.
    #[must_use]
    pub fn indexes(&self) -> &Idset {
        &self.indexes
    }

    /// How many elements may be active at once.
    #[must_use]
    pub fn at_once(&self) -> Option<NonZeroU32> {
        self.at_once
    }

    /// The index of the element at a position.
    #[must_use]
    pub fn index(&self, position: u32) -> Option<u32> {
        let position = position as usize;
        let after = self.runs.partition_point(|(first, _)| *first <= position);
        let (first, run) = self.runs.get(after.checked_sub(1)?)?;
        let index = run.start().checked_add(u32::try_from(position - first).ok()?)?;
        run.contains(&index).then_some(index)
    }

    /// The position of the element with an index.
    #[must_use]
    pub fn position(&self, index: u32) -> Option<u32> {
        let after = self.runs.partition_point(|(_, run)| *run.start() <= index);
        let (first, run) = self.runs.get(after.checked_sub(1)?)?;
        let within = run.contains(&index).then(|| index - run.start())?;
        u32::try_from(first + within as usize).ok()
    }

    /// The indexes of the elements at these positions.
    #[must_use]
    pub fn indexes_at(&self, positions: &Idset) -> Idset {
        let mut indexes = Idset::new();
        for mut run in positions.ranges().map(|run| (*run.start(), *run.end())) {
            // As many at once as stand in one run of indexes.
            while run.0 <= run.1
                && let Some(first) = self.index(run.0)
                && let Some(room) = self.room_after(run.0)
            {
                let length = (run.1 - run.0).min(room);
                indexes.insert_range(first..=first + length);
                match run.0.checked_add(length + 1) {
                    Some(next) => run.0 = next,
                    None => break,
                }
            }
        }
        indexes
    }

    /// How many more elements the run of indexes has after this position.
    fn room_after(&self, position: u32) -> Option<u32> {
        let after = self.runs.partition_point(|(first, _)| *first <= position as usize);
        let (_, run) = self.runs.get(after.checked_sub(1)?)?;
        Some(run.end() - self.index(position)?)
    }

    /// The positions of the elements with these indexes; others are left out.
    #[must_use]
    pub fn positions_of(&self, indexes: &Idset) -> Idset {
        let mut positions = Idset::new();
        for run in self.indexes.intersection(indexes).ranges() {
            if let (Some(first), Some(last)) =
                (self.position(*run.start()), self.position(*run.end()))
            {
                positions.insert_range(first..=last);
            }
        }
        positions
    }

    /// Whether these elements can be those of an array with this jobspec.
    ///
    /// # Errors
    /// [`ElementsError`], which names what is wrong.
    pub fn check(&self, jobspec: &Value) -> Result<(), ElementsError> {
        let count = self.len();
        if count == 0 {
            return Err(ElementsError::None);
        }
        if count > Self::MOST {
            return Err(ElementsError::TooMany { count, most: Self::MOST });
        }
        for (field, texts) in self.fields.iter().enumerate() {
            match texts {
                Field::Texts(texts) if texts.len() != count => {
                    return Err(ElementsError::Texts { field, texts: texts.len(), count });
                }
                Field::Count { from } if from.checked_add(count as u64).is_none() => {
                    return Err(ElementsError::Count { field });
                }
                Field::Texts(_) | Field::Count { .. } => {}
            }
        }
        let pieces = self.places.iter().map(|place| place.pieces.len()).sum::<usize>();
        if self.places.len().max(pieces) > Self::MOST_PIECES {
            return Err(ElementsError::Pieces { most: Self::MOST_PIECES });
        }
        for Place { at, pieces } in &self.places {
            if !jobspec.pointer(at).is_some_and(Value::is_string) {
                return Err(ElementsError::Place(at.clone()));
            }
            if !PLACES.iter().any(|place| at.starts_with(place)) {
                return Err(ElementsError::Shared(at.clone()));
            }
            let fields = self.fields.len();
            let missing = |piece: &Piece| match piece {
                Piece::Field(field) if *field >= fields => Some(*field),
                Piece::Field(_) | Piece::Text(_) => None,
            };
            if let Some(field) = pieces.iter().find_map(missing) {
                return Err(ElementsError::Field { at: at.clone(), field, fields });
            }
        }
        let all = || self.places.iter().flat_map(|place| &place.pieces);
        let is_used = |field: usize| all().any(|piece| *piece == Piece::Field(field));
        if let Some(field) = (0..self.fields.len()).find(|field| !is_used(*field)) {
            return Err(ElementsError::Unused { field });
        }
        let longest: Vec<usize> = self.fields.iter().map(Field::longest).collect();
        let length = all().map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Field(field) => longest.get(*field).copied().unwrap_or_default(),
        });
        match length.fold(0_usize, usize::saturating_add) {
            bytes if bytes > Self::LONGEST => {
                Err(ElementsError::TooLong { bytes, most: Self::LONGEST })
            }
            _ => Ok(()),
        }
    }

    /// How many bytes the texts have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = self.fields.iter().map(|field| match field {
            Field::Texts(texts) => texts.bytes(),
            Field::Count { .. } => 0,
        });
        texts.sum()
    }

    /// The same elements without what they have in places.
    #[must_use]
    pub fn bare(&self) -> Self {
        Self::new(self.indexes.clone(), self.at_once, Vec::new(), Vec::new())
    }

    /// These elements alone, with what they have in each place. Indexes of others are left out.
    ///
    /// ```
    /// use jobtap_core::array::Elements;
    ///
    /// let all: Elements = serde_json::from_str(r#"{"indexes": "0-2", "fields": [["a", "b", "c"]]}"#)?;
    /// let some = all.only(&"1-7".parse().unwrap());
    /// let written = serde_json::to_string(&some)?;
    /// assert_eq!(written, r#"{"indexes":"1-2","fields":[["b","c"]]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn only(&self, indexes: &Idset) -> Self {
        let positions = self.positions_of(indexes);
        let of_field = |field: &Field| match field {
            Field::Texts(texts) => {
                let text = |position| texts.get(position as usize).unwrap_or_default();
                Field::Texts(positions.iter().map(text).collect())
            }
            Field::Count { from } => {
                let number = |position: u32| (from + u64::from(position)).to_string();
                Field::Texts(positions.iter().map(number).collect())
            }
        };
        Self::new(
            self.indexes.intersection(indexes),
            self.at_once,
            self.fields.iter().map(of_field).collect(),
            self.places.clone(),
        )
    }

    /// Makes the array's jobspec that of the element at a position. `array` is the array's id.
    ///
    /// # Errors
    /// [`JobspecError`] if the jobspec has no room for the element's index.
    pub fn fill(
        &self,
        jobspec: &mut Value,
        array: JobId,
        position: u32,
    ) -> Result<(), JobspecError> {
        for Place { at, pieces } in &self.places {
            if let Some(text) = jobspec.pointer_mut(at) {
                *text = pieces
                    .iter()
                    .map(|piece| self.piece(piece, position))
                    .collect::<String>()
                    .into();
            }
        }
        let index = self.index(position).unwrap_or_default();
        Element { array, index }.put(jobspec)
    }

    fn piece(&self, piece: &Piece, position: u32) -> String {
        match piece {
            Piece::Text(text) => text.clone(),
            Piece::Field(field) => match self.fields.get(*field) {
                Some(Field::Texts(texts)) => {
                    texts.get(position as usize).unwrap_or_default().to_owned()
                }
                Some(Field::Count { from }) => (from + u64::from(position)).to_string(),
                None => String::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn elements(value: Value) -> Result<Elements, serde_json::Error> {
        serde_json::from_value(value)
    }

    #[test]
    fn what_is_wrong_with_elements_is_named() {
        let jobspec = json!({"tasks": [{"command": ["a", "b"]}], "resources": "x"});
        for (sent, error) in [
            (json!({"indexes": ""}), "elements.indexes: an array has at least one element"),
            (
                json!({"indexes": "0-4000000"}),
                "elements.indexes: 4000001 elements are more than 4000000, the most that an array has",
            ),
            (
                json!({"indexes": "0-1", "fields": [["a"]]}),
                "elements.fields[0]: there are 1 texts for 2 elements",
            ),
            (
                json!({"indexes": "0", "places": [{"at": "/tasks/0/command/1", "pieces": [1]}]}),
                "elements.places: \"/tasks/0/command/1\" has field 1, and there are 0 fields, from 0",
            ),
            (
                json!({"indexes": "0-1", "fields": [{"from": u64::MAX}]}),
                "elements.fields[0]: the numbers are too large",
            ),
            (
                json!({"indexes": "0", "fields": [["a"]]}),
                "elements.fields[0]: no place has this field",
            ),
            (
                json!({"indexes": "0", "fields": [["a".repeat(65_536)]],
                    "places": [{"at": "/tasks/0/command/1", "pieces": [0, 0, "x"]}]}),
                "elements.places: an element has 131073 bytes there, more than 131072",
            ),
            (
                json!({"indexes": "0", "places": [{"at": "/tasks/0/command/1", "pieces": vec!["x"; 257]}]}),
                "elements.places: there are more than 256 places or pieces",
            ),
            (
                json!({"indexes": "0", "places": [{"at": "/tasks/0/command/2", "pieces": []}]}),
                "elements.places: the jobspec has no text at \"/tasks/0/command/2\"; a place is a JSON pointer such as \
                 /tasks/0/command/1",
            ),
            (
                json!({"indexes": "0", "places": [{"at": "/resources", "pieces": []}]}),
                "elements.places: \"/resources\" is the same for all elements: they differ in their command, their \
                 shell options, their name and their directory only",
            ),
        ] {
            let checked = elements(sent).unwrap().check(&jobspec);
            assert_eq!(checked.unwrap_err().to_string(), error);
        }
        assert!(elements(json!({"indexes": "0", "more": 1})).is_err());
        assert!(elements(json!({"indexes": "0", "at-once": 0})).is_err());
    }

    #[test]
    fn a_field_can_be_a_count() {
        let counted = elements(json!({
            "indexes": "1,3",
            "fields": [{"from": 10}],
            "places": [{"at": "/tasks/0/command/0", "pieces": [0, "/", 0]}],
        }));
        let mut jobspec = json!({"tasks": [{"command": [""]}], "attributes": {}});
        counted.unwrap().fill(&mut jobspec, JobId::new(1), 1).unwrap();
        assert_eq!(jobspec["tasks"][0]["command"][0], "11/11");
    }

    proptest! {
        #[test]
        fn positions_and_indexes_name_the_same_elements(ids in prop::collection::btree_set(0..300_u32, 1..60)) {
            let mut indexes = Idset::new();
            for id in &ids {
                indexes.insert(*id);
            }
            let all = Elements::new(indexes.clone(), None, Vec::new(), Vec::new());
            prop_assert_eq!(all.len(), ids.len());
            for (position, index) in ids.iter().enumerate() {
                let position = position as u32;
                prop_assert_eq!(all.index(position), Some(*index));
                prop_assert_eq!(all.position(*index), Some(position));
            }
            prop_assert_eq!(all.index(ids.len() as u32), None);
            let mut positions = Idset::new();
            positions.insert_range(0..=all.len() as u32 - 1);
            prop_assert_eq!(all.indexes_at(&positions), indexes.clone());
            prop_assert_eq!(all.positions_of(&indexes), positions.clone());
            let mut odd = Idset::new();
            for position in positions.iter().filter(|position| position % 3 == 1) {
                odd.insert(position);
            }
            prop_assert_eq!(all.positions_of(&all.indexes_at(&odd)), odd);
            let written = serde_json::to_value(&all).unwrap();
            prop_assert_eq!(elements(written).unwrap(), all);
        }
    }
}
