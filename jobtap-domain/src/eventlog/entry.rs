//! One event and its line in an eventlog.
//!
//! The state of a job follows from its eventlog, so a line that isn't exactly one event is an error and
//! never skipped.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Context, Event, Name, Raised};
use crate::job::Timestamp;
use crate::json_text;

/// One event (RFC 18).
///
/// `Display` and serde write a compact JSON object, with the keys in the order of the fields. Other keys
/// are ignored when an event is read.
///
/// ```
/// use jobtap_core::eventlog::EventEntry;
/// use jobtap_core::job::Timestamp;
///
/// let entry = EventEntry::new(Timestamp::from_secs(1700000000.25), "validate", None);
/// let line = "{\"timestamp\":1700000000.25,\"name\":\"validate\"}\n";
/// assert_eq!(entry.encode(), line);
/// assert_eq!(EventEntry::decode(line)?, entry);
/// # Ok::<(), jobtap_core::eventlog::EntryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventEntry {
    /// The time of the event.
    pub timestamp: Timestamp,
    /// The name, such as `submit`.
    pub name: Name,
    /// The context.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

/// Reads a context. Refuses `null`, which `Option` would read as an absent context.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Context>, D::Error> {
    Context::deserialize(deserializer).map(Some)
}

impl EventEntry {
    /// An event with this time, name and context.
    pub fn new(
        timestamp: Timestamp,
        name: impl Into<Name>,
        context: Option<Map<String, Value>>,
    ) -> Self {
        Self { timestamp, name: name.into(), context: context.map(Context::from) }
    }

    /// Checks the time and the name, for new events that clients or plugins post.
    ///
    /// # Errors
    /// [`EntryError::Timestamp`] unless the time is positive and finite, [`EntryError::NoName`]
    /// if the name is empty.
    pub fn check(&self) -> Result<(), EntryError> {
        let secs = self.timestamp.as_secs();
        if !(secs > 0.0 && secs.is_finite()) {
            Err(EntryError::Timestamp(secs))
        } else if self.name.is_empty() {
            Err(EntryError::NoName)
        } else {
            Ok(())
        }
    }

    /// The context of an `exception` event (RFC 21); `None` for other events, and if type or severity are
    /// missing.
    ///
    /// ```
    /// use jobtap_core::eventlog::EventEntry;
    ///
    /// let line = r#"{"timestamp":1.0,"name":"exception","context":{"type":"cancel","severity":0}}"#;
    /// let entry = EventEntry::decode(line)?;
    /// let raised = entry.exception().filter(|raised| raised.is_fatal());
    /// assert_eq!(raised.map(|raised| raised.kind), Some("cancel"));
    /// # Ok::<(), jobtap_core::eventlog::EntryError>(())
    /// ```
    #[must_use]
    pub fn exception(&self) -> Option<Raised<'_>> {
        match self.event() {
            Ok(Event::Exception(raised)) => Some(raised),
            _ => None,
        }
    }

    /// Like [`exception`](Self::exception), but only for a fatal exception: one of severity 0.
    ///
    /// ```
    /// use jobtap_core::eventlog::EventEntry;
    ///
    /// let line = r#"{"timestamp":1.0,"name":"exception","context":{"type":"site","severity":3}}"#;
    /// assert!(EventEntry::decode(line)?.fatal_exception().is_none());
    /// # Ok::<(), jobtap_core::eventlog::EntryError>(())
    /// ```
    #[must_use]
    pub fn fatal_exception(&self) -> Option<Raised<'_>> {
        self.exception().filter(Raised::is_fatal)
    }

    /// The line of the entry in an eventlog, with a newline. The timestamp must be finite; otherwise the
    /// line couldn't be decoded again.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut line = Vec::new();
        self.encode_to(&mut line);
        String::from_utf8(line).unwrap_or_default()
    }

    /// Appends the line of the entry to `lines`; see [`encode`](Self::encode).
    #[doc(hidden)]
    pub fn encode_to(&self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(b"{\"timestamp\":");
        json_text::push_time(lines, self.timestamp.as_secs());
        lines.extend_from_slice(b",\"name\":");
        json_text::push_string(lines, &self.name);
        if let Some(context) = &self.context {
            lines.extend_from_slice(b",\"context\":");
            json_text::push_object(lines, context.iter());
        }
        lines.extend_from_slice(b"}\n");
    }

    /// Decodes one line, with or without its newline.
    ///
    /// # Errors
    /// [`EntryError::NotOneLine`] for a blank line or several lines, [`EntryError::NotAnObject`] or
    /// [`EntryError::Malformed`] if it is not exactly one event.
    pub fn decode(line: &str) -> Result<Self, EntryError> {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        if bare.contains('\n') || bare.trim().is_empty() {
            return Err(EntryError::NotOneLine);
        }
        // Serde would also accept an array of the fields.
        if !bare.trim_start().starts_with('{') {
            return Err(EntryError::NotAnObject);
        }
        serde_json::from_str(bare).map_err(|error| EntryError::malformed(&error))
    }
}

impl fmt::Display for EventEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encode().trim_end())
    }
}

/// Decodes a whole eventlog. The empty string is an eventlog without events.
///
/// # Errors
/// [`LogError`] with the number of the first line that is not an event, or lacks its newline.
///
/// ```
/// use jobtap_core::eventlog::decode_log;
///
/// let log = "{\"timestamp\":1.0,\"name\":\"a\"}\n{\"timestamp\":2.0,\"name\":\"b\"}\n";
/// assert_eq!(decode_log(log)?.len(), 2);
/// # Ok::<(), jobtap_core::eventlog::LogError>(())
/// ```
pub fn decode_log(text: &str) -> Result<Vec<EventEntry>, LogError> {
    text.split_inclusive('\n')
        .zip(1..)
        .map(|(line, number)| {
            if line.ends_with('\n') { EventEntry::decode(line) } else { Err(EntryError::NoNewline) }
                .map_err(|error| LogError { line: number, error })
        })
        .collect()
}

/// Why a line or its parts are not an event (`EINVAL`).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EntryError {
    /// The text is a blank line, or has more than one line.
    #[error("expected one event in one line")]
    NotOneLine,
    /// The eventlog ends within a line.
    #[error("the line does not end with a newline: the log may have been cut off")]
    NoNewline,
    /// The line is not a JSON object.
    #[error("malformed event: expected a JSON object")]
    NotAnObject,
    /// The line is not one JSON object with a number `timestamp`, a string `name` and, optionally, an object
    /// `context`.
    #[error("malformed event: {message} at column {column}")]
    Malformed {
        /// What is wrong.
        message: String,
        /// The column of the error, in bytes from 1.
        column: usize,
    },
    /// The time of a new entry is not after the UNIX epoch, or not finite.
    #[error("invalid event timestamp {0}: it must be positive and finite")]
    Timestamp(f64),
    /// The name of a new entry is empty.
    #[error("an event's name can't be empty")]
    NoName,
}

impl EntryError {
    /// Removes the line number from the parser's message, since it would always be 1.
    fn malformed(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Self::Malformed {
            message: text.strip_suffix(&place).unwrap_or(&text).to_owned(),
            column: error.column(),
        }
    }
}

/// The error of a line of an eventlog.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("eventlog line {line}: {error}")]
pub struct LogError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub error: EntryError,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SUBMIT: &str = concat!(
        r#"{"timestamp":1700000000.25,"name":"submit","#,
        r#""context":{"userid":1001,"urgency":16,"flags":0,"version":1}}"#,
        "\n"
    );
    const VALIDATE: &str = "{\"timestamp\":1700000000.26,\"name\":\"validate\"}\n";

    #[test]
    fn an_eventlog_round_trips_byte_for_byte() {
        let text = format!("{SUBMIT}{VALIDATE}");
        let entries = decode_log(&text).unwrap();
        assert_eq!(entries[0].name, "submit");
        assert_eq!(entries[0].context.as_ref().unwrap()["userid"], 1001);
        assert_eq!(entries[1].timestamp, Timestamp(1700000000.26));
        assert_eq!(entries[1].context, None);
        let written: String = entries.iter().map(EventEntry::encode).collect();
        assert_eq!(written, text);
    }

    #[test]
    fn the_empty_eventlog_has_no_events() {
        assert!(decode_log("").unwrap().is_empty());
    }

    #[test]
    fn key_order_and_unknown_keys_do_not_matter() {
        let entry = EventEntry::decode(r#" {"x":[1],"name":"a","timestamp":5} "#).unwrap();
        assert_eq!(entry, EventEntry::new(Timestamp(5.0), "a", None));
    }

    #[test]
    fn refuses_lines_that_are_not_one_event() {
        for line in [
            "{}",
            "{",
            r#"{"timestamp":1}"#,
            r#"{"name":"a"}"#,
            r#"{"timestamp":"1","name":"a"}"#,
            r#"{"timestamp":null,"name":"a"}"#,
            r#"{"timestamp":1e999,"name":"a"}"#,
            r#"{"timestamp":1,"name":5}"#,
            r#"{"timestamp":1,"name":"a","context":"x"}"#,
            r#"{"timestamp":1,"name":"a","context":null}"#,
            r#"{"timestamp":1,"name":"a","context":[]}"#,
            r#"{"timestamp":1,"name":"a"}{"timestamp":1,"name":"a"}"#,
        ] {
            let error = EventEntry::decode(line).unwrap_err();
            assert!(matches!(error, EntryError::Malformed { .. }), "{line}");
        }
        for line in ["[]", "17", "x", r#"[1,"a"]"#, r#"[1,"a",{}]"#] {
            assert_eq!(EventEntry::decode(line), Err(EntryError::NotAnObject));
        }
        for line in ["", "\n", " \n", "{\"timestamp\":1,\n\"name\":\"a\"}\n"] {
            assert_eq!(EventEntry::decode(line), Err(EntryError::NotOneLine));
        }
    }

    #[test]
    fn an_error_names_the_line() {
        for (text, line) in [
            (format!("{SUBMIT}\n{VALIDATE}"), 2),
            (format!("{SUBMIT}{{\n"), 2),
            ("\n".to_owned(), 1),
            (format!("{SUBMIT}{SUBMIT}x\n"), 3),
        ] {
            assert_eq!(decode_log(&text).unwrap_err().line, line);
        }
        assert_eq!(
            decode_log(&format!("{SUBMIT}{{\"timestamp\":1}}\n")).unwrap_err().to_string(),
            "eventlog line 2: malformed event: missing field `name` at column 15"
        );
    }

    #[test]
    fn refuses_a_truncated_eventlog() {
        for text in [VALIDATE.trim_end().to_owned(), format!("{SUBMIT}x")] {
            assert_eq!(decode_log(&text).unwrap_err().error, EntryError::NoNewline);
        }
    }

    #[test]
    fn a_new_entry_needs_a_time_and_a_name() {
        let entry = |secs, name| EventEntry::new(Timestamp(secs), name, None);
        assert!(entry(1.0, "a").check().is_ok());
        assert!(matches!(entry(1.0, "").check(), Err(EntryError::NoName)));
        for secs in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(entry(secs, "a").check(), Err(EntryError::Timestamp(_))));
        }
    }

    #[test]
    fn the_context_keeps_its_order_of_keys() {
        let context = json!({"z": 1, "a": "x\ny"});
        let entry = EventEntry::new(Timestamp(2.5), "memo", context.as_object().cloned());
        let line = "{\"timestamp\":2.5,\"name\":\"memo\",\"context\":{\"z\":1,\"a\":\"x\\ny\"}}\n";
        assert_eq!(entry.encode(), line);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_entry_round_trips(
            secs in prop::num::f64::NORMAL,
            name: String,
            context in prop::option::of(prop::collection::hash_map(any::<String>(), values(), 0..4)),
        ) {
            let context = context.map(|map| map.into_iter().collect());
            let entry = EventEntry::new(Timestamp(secs), name, context);
            let line = entry.encode();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(serde_json::to_string(&entry).unwrap(), line.trim_end());
            prop_assert_eq!(&EventEntry::decode(&line).unwrap(), &entry);
            prop_assert_eq!(decode_log(&line.repeat(2)).unwrap(), vec![entry.clone(), entry]);
        }

        #[test]
        fn accepted_text_round_trips(text in "\\PC*|[{}:,\"a-z0-9 \n]*") {
            if let Ok(log) = decode_log(&text) {
                let written: String = log.iter().map(EventEntry::encode).collect();
                prop_assert_eq!(decode_log(&written).unwrap(), log);
            }
            if let Ok(entry) = EventEntry::decode(&text) {
                prop_assert_eq!(EventEntry::decode(&entry.encode()).unwrap(), entry);
            }
        }
    }
}
