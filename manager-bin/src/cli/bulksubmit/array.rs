//! `bulksubmit --array`: one request for all jobs. They share a jobspec, and differ in the texts that have fields.

use std::num::NonZeroU32;

use jobtap_core::array::{Elements, Field, Piece, Place};
use jobtap_core::resource::Idset;
use serde_json::Value;

use super::inputs::Inputs;
use super::replace::{self, Defined, Fields, Part, ReplaceError, all_parts};
use crate::cli::common::message::CliError;
use crate::cli::submit::args::SubmitArgs;
use crate::cli::submit::caller::Caller;
use crate::rpc::services::ingest::{Submit, SubmitArray};

/// Options whose texts may differ from element to element. The others decide about resources, limits and rights.
const MAY_DIFFER: [&str; 7] =
    ["--job-name=", "--input=", "--output=", "--error=", "--output-pack=", "--cwd=", ""];

/// Stand around the number of a field in the jobspec that is made from the options, until it is known at which places
/// fields are. They are in no option that anybody types.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// The options and inputs make no array.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArrayError {
    #[error(
        "--array: {option}{text}: the elements of an array have the same resources, limits and attributes; without \
         --array each job can have its own"
    )]
    Differs { option: &'static str, text: String },
    #[error(
        "--array: {variable}: a variable can't differ from element to element; use {{}} in the command, or the variable \
         JOBTAP_ARRAY_INDEX"
    )]
    Variable { variable: String },
    #[error(
        "--array: the commands have different numbers of words ({first} in the first one, {other} in number {number}): \
         write `sh -c {{}}`"
    )]
    Words { first: usize, other: usize, number: usize },
    #[error("no jobs provided for bulk submission")]
    None,
}

impl From<ArrayError> for CliError {
    fn from(error: ArrayError) -> Self {
        Self::failure(error)
    }
}

/// The inputs, and what the user defines for them.
pub(super) struct Source<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) defined: &'a Defined,
    /// The job of each element, which is its position unless the order is random.
    pub(super) order: Option<&'a [usize]>,
}

impl Source<'_> {
    /// Calls a function with the fields of each element, and collects what it returns.
    fn each<T>(
        &self,
        value: impl Fn(Fields<'_>) -> Result<T, ReplaceError>,
    ) -> impl Iterator<Item = Result<T, ReplaceError>> {
        (0..self.inputs.count()).map(move |position| {
            let seq = self.order.and_then(|order| order.get(position)).copied().unwrap_or(position);
            let inputs = self.inputs.combination(seq);
            value(Fields { inputs: &inputs, seq, defined: self.defined })
        })
    }
}

/// The request.
pub(super) fn request(
    options: &SubmitArgs,
    at_once: Option<NonZeroU32>,
    source: &Source<'_>,
    caller: &Caller,
) -> Result<SubmitArray, CliError> {
    let count = u32::try_from(source.inputs.count()).unwrap_or(u32::MAX);
    let Some(last) = count.checked_sub(1) else { return Err(ArrayError::None.into()) };
    let mut found = Found::default();
    let mut options = options.clone();
    let mut command = source.inputs.command.clone();
    // As without an array, the text of a whole command is split into words.
    let words = match command.as_slice() {
        [whole] if whole == "{}" => Some(words(source)?),
        _ => None,
    };
    if let Some(words) = &words {
        command = (0..words.len()).map(|word| format!("{OPEN}{word}{CLOSE}")).collect();
    }
    options.command = command;
    mark(&mut options, words.is_some(), &mut found)?;
    let submit = Submit {
        urgency: Some(options.urgency()?),
        flags: Some(options.job_flags()?.bits()),
        ..Submit::default()
    };
    let mut jobspec = options.jobspec(caller)?;
    let mut places = Vec::new();
    find_places(&mut jobspec, &mut String::new(), &found, &mut places);
    let fields = match words {
        Some(words) => words,
        None => found.0.iter().map(|field| values(field, source)).collect::<Result<_, _>>()?,
    };
    let elements = Elements::new(Idset::from(0..=last), at_once, fields, places);
    elements.check(&jobspec).map_err(CliError::failure)?;
    Ok(SubmitArray { submit: Submit { jobspec: Some(jobspec.into()), ..submit }, elements })
}

/// The fields of the options, without braces.
#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    /// The text with the number of each field in its place.
    fn marked(&mut self, text: &str) -> Result<String, ReplaceError> {
        let mut marked = String::new();
        for part in all_parts(text)? {
            match part {
                Part::Text(text) => marked.push_str(text),
                Part::Field(field) => {
                    let known = self.0.iter().position(|known| known == field);
                    let number = known.unwrap_or_else(|| {
                        self.0.push(field.to_owned());
                        self.0.len() - 1
                    });
                    marked.push_str(&format!("{OPEN}{number}{CLOSE}"));
                }
            }
        }
        Ok(marked)
    }

    /// What a marked text is made of; `None` if it has no field.
    fn pieces(&self, text: &str) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (number, after) = after.split_once(CLOSE)?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Field(number.parse().ok()?));
            rest = after;
        }
        if pieces.is_empty() {
            return None;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Some(pieces)
    }

    /// The text as the user has typed it.
    fn shown(&self, pieces: &[Piece]) -> String {
        let shown = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Field(number) => {
                format!("{{{}}}", self.0.get(*number).map_or("", String::as_str))
            }
        };
        pieces.iter().map(shown).collect()
    }
}

/// Puts numbers in the place of the fields of all options.
fn mark(options: &mut SubmitArgs, words: bool, found: &mut Found) -> Result<(), CliError> {
    let texts = options.texts();
    let lists = texts.lists.into_iter();
    let lists = lists.flat_map(|(option, list)| list.iter_mut().map(move |text| (option, text)));
    for (option, text) in texts.single.into_iter().chain(lists) {
        if option.is_empty() && words {
            continue;
        }
        // The syntax of a shape has braces as well.
        let has_field = match option {
            "--shape=" => replace::has_field_in_shape(text),
            _ => all_parts(text)?.iter().any(|part| matches!(part, Part::Field(_))),
        };
        if !has_field {
            continue;
        }
        let error = match option {
            _ if MAY_DIFFER.contains(&option) => {
                *text = found.marked(text)?;
                continue;
            }
            "--env=" => ArrayError::Variable { variable: format!("{option}{text}") },
            _ => ArrayError::Differs { option, text: text.clone() },
        };
        return Err(error.into());
    }
    Ok(())
}

/// Finds the texts with numbers of fields in a jobspec, and shows them as the user has typed them.
fn find_places(value: &mut Value, at: &mut String, found: &Found, places: &mut Vec<Place>) {
    let mut below = |key: &str, value: &mut Value| {
        let length = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        find_places(value, at, found, places);
        at.truncate(length);
    };
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(key, value)| below(key, value)),
        Value::Array(list) => {
            list.iter_mut().enumerate().for_each(|(index, value)| below(&index.to_string(), value));
        }
        Value::String(text) => {
            if let Some(pieces) = found.pieces(text) {
                *text = found.shown(&pieces);
                places.push(Place { at: at.clone(), pieces });
            }
        }
        _ => {}
    }
}

/// What the elements have in the place of a field.
fn values(field: &str, source: &Source<'_>) -> Result<Field, ReplaceError> {
    match (field, source.order) {
        ("seq", None) => return Ok(Field::Count { from: 0 }),
        ("seq1", None) => return Ok(Field::Count { from: 1 }),
        _ => {}
    }
    let text = format!("{{{field}}}");
    let texts = source.each(|fields| fields.value(field, &text));
    Ok(Field::Texts(texts.collect::<Result<_, _>>()?))
}

/// The words of commands that are whole inputs: a field for each word.
fn words(source: &Source<'_>) -> Result<Vec<Field>, CliError> {
    let commands = || source.each(|fields| Ok(replace::words(&fields.value("", "{}")?)));
    let first = commands().next().transpose()?.map_or(0, |words| words.len());
    for (number, words) in (1..).zip(commands()) {
        let other = words?.len();
        if other != first {
            return Err(ArrayError::Words { first, other, number }.into());
        }
    }
    let word = |at: usize| {
        let texts = commands().map(|words| Ok(words?.into_iter().nth(at).unwrap_or_default()));
        Ok(Field::Texts(texts.collect::<Result<_, ReplaceError>>()?))
    };
    (0..first).map(word).collect()
}
