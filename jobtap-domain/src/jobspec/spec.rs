//! The jobspec as the manager has it in memory.
//!
//! A job, its plugins, the scheduler and the listings share one document, so a copy costs no more than
//! a reference count. A hundred thousand jobs may be pending at once. So a document can be reduced to
//! its text and the few facts that scheduling needs in every turn; the JSON value is parsed again when
//! it is used.

use super::document::{Document, LentDocument};
use super::environment::{self, WithEnvironment};
use super::facts::{Simulation, Warning, positive};
use super::members::{Members, first_task};
use super::one_pass;
use super::validate::validate;
use super::{Counts, Dependency, JobspecError, path};
use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A jobspec of version 1 (RFC 25), cheap to clone.
///
/// ```
/// use jobtap_core::jobspec::{Jobspec, JobspecBuilder};
///
/// let text = JobspecBuilder::new(["hostname"]).ntasks(4).to_value().to_string();
/// let mut jobspec = Jobspec::parse(&text)?;
/// assert_eq!(jobspec.counts().nslots, 4);
/// assert_eq!(jobspec.display_name(), "hostname");
///
/// jobspec.update("attributes.system.duration", 3600.into())?;
/// assert_eq!(jobspec.duration(), 3600.0);
/// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
/// ```
pub struct Jobspec {
    document: Arc<Document>,
}

impl Clone for Jobspec {
    fn clone(&self) -> Self {
        if self.document.loan().is_some() {
            // The copy may outlive the loan, as in an asynchronous handler, so it needs the whole document.
            let _ = self.document.value();
        }
        Self { document: Arc::clone(&self.document) }
    }
}

impl Jobspec {
    /// Reads and validates a jobspec.
    ///
    /// # Errors
    /// [`JobspecError`] if the text isn't JSON or isn't a jobspec of version 1. The message names the
    /// place.
    pub fn parse(text: &str) -> Result<Self, JobspecError> {
        if let Some(read) = one_pass::read(text) {
            return Ok(Self { document: Arc::new(Document::read(read)) });
        }
        let (value, environment) =
            environment::split(text).map_err(|error| JobspecError::Json(error.to_string()))?;
        Self::submitted(value, environment)
    }

    fn submitted(value: Value, environment: Option<WithEnvironment>) -> Result<Self, JobspecError> {
        let counts = validate(&value)?;
        let document = Document::submitted(value, counts, environment);
        Ok(Self { document: Arc::new(document) })
    }

    /// Validates a jobspec.
    ///
    /// # Errors
    /// [`JobspecError`] if the value isn't a jobspec of version 1. The message names the place.
    pub fn from_value(value: Value) -> Result<Self, JobspecError> {
        let counts = validate(&value)?;
        Ok(Self::assemble(value, counts, true))
    }

    /// Accepts any document, for jobs that were submitted without validation and for eventlogs that
    /// another manager wrote. Malformed parts count as absent: [`counts`](Self::counts) are then zero
    /// and [`duration`](Self::duration) is unlimited.
    #[must_use]
    pub fn unvalidated(value: Value) -> Self {
        let counts = Counts::from_jobspec(&value).unwrap_or_default();
        Self::assemble(value, counts, false)
    }

    /// Accepts the text of a stored jobspec without validation, like
    /// [`unvalidated`](Self::unvalidated), and parses it on first use, since most jobspecs that a restarted manager
    /// loads are never read.
    ///
    /// # Errors
    /// [`JobspecError::Json`] if the text isn't JSON.
    pub fn stored(text: String) -> Result<Self, JobspecError> {
        let json: Result<IgnoredAny, _> = serde_json::from_str(&text);
        json.map_err(|error| JobspecError::Json(error.to_string()))?;
        Ok(Self { document: Arc::new(Document::unread(text.into_boxed_str())) })
    }

    /// A jobspec that a host lends for a callback, without the environment. Malformed parts count as absent, as
    /// in [`unvalidated`](Self::unvalidated).
    ///
    /// A clone reads the whole document, so that it can outlive what the host lends.
    ///
    /// ```
    /// use jobtap_core::jobspec::{Jobspec, JobspecBuilder};
    ///
    /// let jobspec = Jobspec::lent(|| JobspecBuilder::new(["hostname"]).to_value());
    /// assert_eq!(jobspec.display_name(), "hostname");
    /// ```
    #[must_use]
    pub fn lent(document: impl LentDocument + 'static) -> Self {
        Self { document: Arc::new(Document::lent(Box::new(document))) }
    }

    /// Whether the whole document is in memory as a JSON value.
    #[doc(hidden)]
    pub fn is_open(&self) -> bool {
        self.document.is_open()
    }

    /// Like [`stored`](Self::stored), for text that is known to be JSON.
    #[doc(hidden)]
    pub fn stored_json(text: &RawValue) -> Self {
        Self { document: Arc::new(Document::unread(text.get().into())) }
    }

    fn assemble(value: Value, counts: Counts, validated: bool) -> Self {
        Self { document: Arc::new(Document::new(value, counts, validated)) }
    }

    /// The text of the document, as it is stored.
    #[doc(hidden)]
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// Reduces the document to its text and the facts that scheduling needs, for jobs that are inactive or pending
    /// for a long time. The rest is parsed again on its next use.
    #[doc(hidden)]
    pub fn close(&mut self) {
        if self.document.is_closed() {
            return;
        }
        if let Some(document) = Arc::get_mut(&mut self.document) {
            return document.close();
        }
        self.document = Arc::new(self.document.closed());
    }

    /// A copy to read from, so that this one can stay unparsed.
    #[doc(hidden)]
    pub fn opened(&self) -> Self {
        match self.document.is_open() {
            true => self.clone(),
            false => Self { document: Arc::new(self.document.closed()) },
        }
    }

    /// The whole document.
    #[must_use]
    pub fn value(&self) -> &Value {
        self.document.value()
    }

    /// The amounts of resources that the job asks for.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.document.facts().counts
    }

    /// The time limit in seconds; 0 means that the job has no time limit.
    #[must_use]
    pub fn duration(&self) -> f64 {
        match self.document.on_loan() {
            Some(lent) => positive(lent.part("duration")),
            None => self.document.facts().duration,
        }
    }

    /// An attribute by the same key as for `--setattr`: `user.tag`, or `queue` for
    /// `attributes.system.queue`.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&Value> {
        match self.document.on_loan() {
            Some(lent) => lent.part(key),
            None => {
                let key = path::attribute_key(key);
                match environment::concerns(&key) {
                    true => path::get(self.value(), &key),
                    false => self.document.at(&key),
                }
            }
        }
    }

    /// The signal that the job wants before its end (shell option `signal`).
    #[doc(hidden)]
    pub fn warning(&self) -> Option<Warning> {
        self.document.facts().wishes.as_ref()?.warning
    }

    /// Whether the jobspec asks for a simulated execution: `attributes.system.exec.test`.
    #[doc(hidden)]
    pub fn is_simulated(&self) -> bool {
        self.document.facts().simulation != Simulation::None
    }

    /// The request for a simulated execution. It is read once, when the job starts, so a pending job needs no
    /// parsed copy of it.
    #[doc(hidden)]
    pub fn simulation(&self) -> Option<Cow<'_, Value>> {
        self.document.simulation()
    }

    /// The text of the request for a simulated execution, if the document isn't parsed.
    #[doc(hidden)]
    pub fn simulation_text(&self) -> Option<&str> {
        self.document.simulation_text()
    }

    /// The name of the job, if the submitter gave one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.document.system("job")?.get("name")?.as_str()
    }

    /// The name to display: the [name](Self::name) if there is one, otherwise the last path component of
    /// the command.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.name().unwrap_or_else(|| {
            let word = self.command().next().unwrap_or_default();
            word.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(word)
        })
    }

    /// The command of every task, word by word.
    pub fn command(&self) -> impl Iterator<Item = &str> {
        let command = first_task(self.document.parsed()).and_then(|task| task.member("command"));
        command.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The queue that the jobspec names.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        match self.document.on_loan() {
            Some(lent) => lent.part("queue")?.as_str(),
            None => self.document.facts().queue(),
        }
    }

    /// Like [`queue`](Self::queue), but without parsing the whole document.
    #[doc(hidden)]
    pub fn glance_at_queue(&self) -> Option<Cow<'_, str>> {
        self.document.queue()
    }

    /// The tasks' working directory.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.document.system("cwd")?.as_str()
    }

    /// The tasks' environment. A variable whose value is `null` is removed from it.
    #[must_use]
    pub fn environment(&self) -> Option<&Map<String, Value>> {
        match self.document.with_environment() {
            Some(whole) => whole.variables(),
            None => self.document.system("environment")?.as_object(),
        }
    }

    /// The constraint object (RFC 31) that nodes must match.
    #[must_use]
    pub fn constraints(&self) -> Option<&Value> {
        match self.document.on_loan() {
            Some(lent) => lent.part("constraints"),
            None => self.document.facts().wishes.as_ref()?.constraints.as_ref(),
        }
    }

    /// A job shell option by its dotted name, e.g. `output.stdout.path`.
    #[must_use]
    pub fn shell_option(&self, name: &str) -> Option<&Value> {
        path::get(self.document.system("shell")?.get("options")?, name)
    }

    /// The dependencies in the order of the document.
    ///
    /// # Errors
    /// [`JobspecError::Dependency`] if the list or an entry is malformed. In a validated jobspec that
    /// can only be a scheme that is too long.
    pub fn dependencies(&self) -> Result<Vec<Dependency>, JobspecError> {
        Dependency::list(self.document.system("dependencies"))
    }

    /// Reads one dependency by its index; `None` after the last. Reading the whole list for each of its entries would take
    /// time by the square of their number, and a job can have very many.
    ///
    /// ```
    /// use jobtap_core::jobspec::{Dependency, JobspecBuilder};
    ///
    /// let after = Dependency::from_uri("afterok:123")?;
    /// let jobspec = JobspecBuilder::new(["hostname"]).dependency(after.clone()).build()?;
    /// assert_eq!(jobspec.dependency(0)?, Some(after));
    /// assert_eq!(jobspec.dependency(1)?, None);
    /// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
    /// ```
    ///
    /// # Errors
    /// As [`dependencies`](Self::dependencies), for this entry.
    pub fn dependency(&self, index: usize) -> Result<Option<Dependency>, JobspecError> {
        Dependency::nth(self.document.system("dependencies"), index)
    }

    /// Whether the jobspec was validated, in which case [`update`](Self::update) keeps it valid.
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.document.is_validated()
    }

    /// The jobspec without the environment. This form is stored, listed and shown to plugins, since the
    /// environment is large and may contain secrets.
    #[must_use]
    pub fn redacted(&self) -> Self {
        match self.document.redacted() {
            Some(document) => Self { document: Arc::new(document) },
            None => self.clone(),
        }
    }

    /// The length in bytes of the text of the [redacted](Self::redacted) jobspec.
    ///
    /// ```
    /// use jobtap_core::jobspec::JobspecBuilder;
    ///
    /// let with = JobspecBuilder::new(["hostname"]).environment([("HOME", "/home/u")]).build()?;
    /// let without = JobspecBuilder::new(["hostname"]).build()?;
    /// assert_eq!(with.redacted_len(), without.redacted_len());
    /// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
    /// ```
    #[must_use]
    pub fn redacted_len(&self) -> usize {
        self.document.redacted_len()
    }

    /// Like [`redacted`](Self::redacted), but consumes the jobspec and so avoids a copy.
    #[doc(hidden)]
    pub fn into_redacted(self) -> Self {
        match Arc::try_unwrap(self.document) {
            Ok(document) => Self { document: Arc::new(document.into_redacted()) },
            Err(document) => Self { document }.redacted(),
        }
    }

    /// Applies one entry of a `jobspec-update` event (RFC 21). Clones of the jobspec keep the old
    /// document.
    ///
    /// # Errors
    /// Those of [`update_all`](Self::update_all).
    pub fn update(&mut self, path: &str, value: Value) -> Result<(), JobspecError> {
        self.apply([(path, &value)])
    }

    /// Applies the context of a `jobspec-update` event, either all of its entries or none. For each path,
    /// missing objects are created and the value of the last component is replaced as a whole.
    ///
    /// # Errors
    /// [`JobspecError::Update`] if there are no entries, or if a path is outside of `attributes`,
    /// `resources` and `tasks`, has an empty component, or leads through a value that isn't an object.
    /// [`JobspecError::Invalid`] if a validated jobspec would no longer be valid.
    pub fn update_all(&mut self, updates: &Map<String, Value>) -> Result<(), JobspecError> {
        self.apply(updates.iter().map(|(path, value)| (path.as_str(), value)))
    }

    /// Like [`update_all`](Self::update_all).
    #[doc(hidden)]
    pub fn apply<'u>(
        &mut self,
        updates: impl IntoIterator<Item = (&'u str, &'u Value)>,
    ) -> Result<(), JobspecError> {
        const REFUSED: &str = "one or more jobspec updates are invalid";
        let refuse = |path: &str, text: &str| {
            Err(JobspecError::Update { path: path.to_owned(), text: text.to_owned() })
        };
        let mut updates = updates.into_iter().peekable();
        if updates.peek().is_none() {
            return refuse("", "a jobspec update must hold at least one entry");
        }
        let mut value = self.value().clone();
        for (path, new) in updates {
            if !path::is_updatable(path) {
                return refuse(path, REFUSED);
            }
            path::set(&mut value, path, new.clone())?;
        }
        *self =
            if self.is_validated() { Self::from_value(value)? } else { Self::unvalidated(value) };
        Ok(())
    }

    /// Validates a jobspec that was accepted [unvalidated](Self::unvalidated).
    ///
    /// # Errors
    /// Those of [`from_value`](Self::from_value).
    pub fn validate(&self) -> Result<(), JobspecError> {
        if self.is_validated() { Ok(()) } else { validate(self.value()).map(drop) }
    }
}

impl PartialEq for Jobspec {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.document, &other.document) || self.value() == other.value()
    }
}

impl fmt::Debug for Jobspec {
    /// Omits the environment, since it may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jobspec({})", self.redacted().value())
    }
}

impl Serialize for Jobspec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobspec::JobspecBuilder;
    use proptest::prelude::*;
    use serde_json::json;

    fn sample() -> Jobspec {
        JobspecBuilder::new(["/bin/app", "-x"])
            .nodes(2)
            .duration(60.0)
            .name("test")
            .cwd("/home/u")
            .queue("batch")
            .environment([("HOME", "/home/u"), ("SECRET", "s3")])
            .dependency(Dependency::from_uri("afterok:1").unwrap())
            .build()
            .unwrap()
    }

    #[test]
    fn accessors_return_the_parsed_facts() {
        let spec = sample();
        assert_eq!(spec.duration(), 60.0);
        assert_eq!(spec.name(), Some("test"));
        assert_eq!(spec.cwd(), Some("/home/u"));
        assert_eq!(spec.queue(), Some("batch"));
        assert_eq!(spec.command().collect::<Vec<_>>(), ["/bin/app", "-x"]);
        assert_eq!(spec.environment().unwrap()["HOME"], "/home/u");
        assert_eq!(spec.dependencies().unwrap()[0].scheme, "afterok");
        assert_eq!(spec.attribute("job.name"), Some(&json!("test")));
        assert_eq!(spec.attribute("attributes.system.queue"), Some(&json!("batch")));
        assert_eq!(spec.attribute("nothing"), None);
        assert!(spec.counts().exclusive);
    }

    #[test]
    fn an_unnamed_job_is_displayed_as_its_command() {
        let shown = |word: &str| {
            let spec = JobspecBuilder::new([word]).build().unwrap();
            assert_eq!(spec.name(), None);
            spec.display_name().to_owned()
        };
        assert_eq!(shown("/usr/bin/app"), "app");
        assert_eq!(shown("app"), "app");
        assert_eq!(shown("dir/"), "dir/");
        assert_eq!(shown("/"), "/");
    }

    #[test]
    fn redacted_and_debug_omit_the_environment() {
        let spec = sample();
        let redacted = spec.redacted();
        assert_eq!(redacted.environment(), None);
        assert_eq!(redacted.cwd(), Some("/home/u"));
        assert!(spec.environment().is_some());
        assert!(Jobspec::from_value(redacted.value().clone()).is_ok());
        assert!(!format!("{spec:?}").contains("s3"));
    }

    #[test]
    fn an_attribute_is_found_however_its_name_is_written() {
        let plain = JobspecBuilder::new(["true"]).to_value().to_string();
        for (member, key) in [
            (r#""tag""#, "tag"),
            (r#""t\u0061g""#, "tag"),
            (r#""a\/b""#, "a/b"),
            (r#""tab\t""#, "tab\t"),
            (r#""a\\b""#, "a\\b"),
        ] {
            let text = plain.replace("\"duration\":0", &format!("\"duration\":0,{member}:1"));
            let spec = Jobspec::stored(text.clone()).unwrap();
            assert_eq!(spec.attribute(key), Some(&json!(1)), "{text}");
            assert_eq!(spec.attribute("other"), None);
        }
    }

    #[test]
    fn an_attribute_that_no_member_is_named_after_costs_no_parse() {
        let text = JobspecBuilder::new(["true"]).queue("batch").to_value().to_string();
        let spec = Jobspec::stored(text).unwrap();
        assert_eq!(spec.attribute("deadline"), None);
        assert!(!spec.document.is_open());
        assert_eq!(spec.attribute("queue"), Some(&json!("batch")));
    }

    /// They are found in the facts, by a search in the text, and in the value.
    #[test]
    fn a_name_and_dependencies_are_found_however_they_are_written() {
        let plain = JobspecBuilder::new(["true"]).to_value().to_string();
        let uri = json!([{"scheme": "afterok", "value": "1"}]);
        for (members, name, dependencies) in [
            (String::new(), None, 0),
            (r#","job":{"name":"x"}"#.to_owned(), Some("x"), 0),
            (r#","j\u006fb":{"name":"x"}"#.to_owned(), Some("x"), 0),
            (r#","job":{}"#.to_owned(), None, 0),
            (format!(r#","dependencies":{uri}"#), None, 1),
            (format!(r#","dependenc\u0069es":{uri}"#), None, 1),
            (r#","dependencies":[]"#.to_owned(), None, 0),
        ] {
            let text = plain.replace("\"duration\":0", &format!("\"duration\":0{members}"));
            assert_eq!(text == plain, members.is_empty());
            let value: Value = serde_json::from_str(&text).unwrap();
            let opened = Jobspec::stored(text.clone()).unwrap();
            let _ = opened.value();
            let known = Jobspec::stored(text.clone()).unwrap();
            let _ = known.duration();
            let unread = Jobspec::stored(text.clone()).unwrap();
            let mut closed = Jobspec::parse(&text).unwrap();
            closed.close();
            let parsed = [Jobspec::parse(&text).unwrap(), Jobspec::from_value(value).unwrap()];
            for spec in parsed.into_iter().chain([opened, known, unread, closed]) {
                assert_eq!(spec.name(), name, "{text}");
                assert_eq!(spec.dependencies().unwrap().len(), dependencies, "{text}");
            }
        }
    }

    #[test]
    fn updates_change_the_facts_but_not_clones() {
        let mut spec = sample();
        let old = spec.clone();
        let updates = json!({
            "attributes.system.duration": 120,
            "attributes.system.job": {"name": "new"},
            "attributes.user.tag": true,
            "tasks": [{"command": ["b"], "slot": "task", "count": {"total": 2}}],
        });
        spec.update_all(updates.as_object().unwrap()).unwrap();
        assert_eq!(spec.duration(), 120.0);
        assert_eq!(spec.display_name(), "new");
        assert_eq!(spec.attribute("user.tag"), Some(&json!(true)));
        assert_eq!(spec.command().collect::<Vec<_>>(), ["b"]);
        assert_eq!(old.duration(), 60.0);
    }

    #[test]
    fn a_refused_update_changes_nothing() {
        for (path, value) in [
            ("version", json!(2)),
            ("attributes..x", json!(1)),
            ("attributes.system.duration.x", json!(1)),
            ("attributes.system.duration", json!("1h")),
            ("resources", json!([])),
        ] {
            let mut spec = sample();
            let mut updates = Map::new();
            updates.insert("attributes.system.queue".to_owned(), json!("other"));
            updates.insert(path.to_owned(), value);
            let error = spec.update_all(&updates).unwrap_err();
            assert!(!error.path().is_empty(), "{error}");
            assert_eq!(spec, sample());
        }
        let error = sample().update_all(&Map::new()).unwrap_err().to_string();
        assert_eq!(error, "a jobspec update must hold at least one entry");
        let error = sample().update("foo", json!(1)).unwrap_err().to_string();
        assert_eq!(error, "foo: one or more jobspec updates are invalid");
    }

    #[test]
    fn a_stored_jobspec_equals_its_text() {
        let spec = Jobspec::stored(sample().value().to_string()).unwrap();
        assert_eq!(spec.clone(), sample());
        assert_eq!((spec.counts(), spec.duration()), (sample().counts(), sample().duration()));
        assert!(!spec.is_validated());
        assert!(matches!(Jobspec::stored("{".to_owned()), Err(JobspecError::Json(_))));
        let deep = format!("{}{}", "[".repeat(999), "]".repeat(999));
        assert_eq!(Jobspec::stored(deep).unwrap().value(), &Value::Null);
    }

    #[test]
    fn a_member_whose_name_is_written_with_escapes_is_found() {
        let text = sample().value().to_string();
        let (queue, environment) = (r#""\u0071ueue""#, r#""environmen\u0074""#);
        let text = text.replace("\"queue\"", queue).replace("\"environment\"", environment);
        let spec = || Jobspec::stored(text.clone()).unwrap();
        assert_eq!(spec().glance_at_queue().as_deref(), Some("batch"));
        assert!(spec().environment().is_some());
        assert_eq!(spec().redacted().environment(), None);
        assert_eq!(spec().into_redacted().environment(), None);
    }

    #[test]
    fn an_unvalidated_jobspec_is_not_changed() {
        let odd = json!({"attributes": {"system": {"dependencies": {}, "duration": "x"}}});
        let mut spec = Jobspec::unvalidated(odd.clone());
        assert_eq!(spec.value(), &odd);
        assert_eq!(spec.duration(), 0.0);
        assert_eq!(spec.counts(), Counts::default());
        assert_eq!(spec.display_name(), "");
        assert!(spec.validate().is_err());
        assert_eq!(
            spec.dependencies().unwrap_err().to_string(),
            "dependencies object must be an array"
        );
        spec.update("attributes.system.duration", json!(5)).unwrap();
        assert_eq!(spec.duration(), 5.0);
    }

    #[test]
    fn a_closed_jobspec_says_what_its_simulation_is_asked_for() {
        let test = json!({"run_duration": "0.5s"});
        let mut value = sample().value().clone();
        assert!(!Jobspec::unvalidated(value.clone()).is_simulated());
        path::set(&mut value, "attributes.system.exec.test", test.clone()).unwrap();
        // The same text earlier in the document, and characters of several bytes.
        path::set(
            &mut value,
            "attributes.system.cwd",
            json!("/home/ü {\"run_duration\":\"0.5s\"}"),
        )
        .unwrap();
        let mut spec = Jobspec::unvalidated(value);
        let copy = spec.opened();
        spec.close();
        let stored = Jobspec::stored(spec.text().to_owned()).unwrap();
        for spec in [&spec, &spec.clone(), &copy, &stored] {
            assert!(spec.is_simulated());
            assert_eq!(spec.simulation().as_deref(), Some(&test));
        }
        assert!(!spec.is_open(), "only this part was parsed");
        spec.update("attributes.system.exec.test", json!("x")).unwrap();
        assert_eq!(spec.simulation().as_deref(), Some(&json!("x")));
    }

    #[test]
    fn refuses_text_that_is_not_json() {
        let error = Jobspec::parse("{").unwrap_err().to_string();
        assert!(error.starts_with("invalid JSON: "), "{error}");
    }

    proptest! {
        #[test]
        fn a_validated_jobspec_stays_valid(
            path in "(attributes|resources|tasks)(\\.(system|user|duration|job|name|a)){0,3}",
            value in prop_oneof![
                Just(json!(null)), Just(json!(-1)), Just(json!(3)), Just(json!("x")),
                Just(json!({})), Just(json!([])), Just(json!({"duration": 1})),
            ],
        ) {
            let mut spec = sample();
            match spec.update(&path, value.clone()) {
                Ok(()) => {
                    prop_assert_eq!(path::get(spec.value(), &path), Some(&value));
                    prop_assert!(Jobspec::from_value(spec.value().clone()).is_ok());
                }
                Err(_) => prop_assert_eq!(spec, sample()),
            }
        }
    }

    #[test]
    fn each_part_of_a_lent_document_is_read_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        struct Source(Arc<AtomicUsize>);

        impl LentDocument for Source {
            fn whole(&self) -> Value {
                Value::Null
            }

            fn part(&self, path: &[&str]) -> Option<Value> {
                self.0.fetch_add(1, Ordering::Relaxed);
                (path.len() == 3).then(|| json!(path.join("/")))
            }
        }
        let reads = Arc::new(AtomicUsize::new(0));
        let jobspec = Jobspec::lent(Source(Arc::clone(&reads)));
        for _ in 0..3 {
            assert_eq!(jobspec.queue(), Some("attributes/system/queue"));
            assert_eq!(jobspec.attribute("queue"), Some(&json!("attributes/system/queue")));
            assert_eq!(jobspec.attribute("user.tag"), Some(&json!("attributes/user/tag")));
            assert_eq!(jobspec.attribute(".tag"), None);
        }
        assert_eq!(reads.load(Ordering::Relaxed), 3);
        assert_eq!(jobspec.value(), &Value::Null);
        assert_eq!(jobspec.attribute("queue"), None);
    }
}
