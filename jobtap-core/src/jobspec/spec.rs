//! The jobspec as the manager holds it. A job, its plugins, the scheduler and the listings all hold
//! the same document, so a copy costs no more than a reference count.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::document::Document;
use super::validate::validate;
use super::{Counts, Dependency, JobspecError, path};

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
#[derive(Clone)]
pub struct Jobspec {
    document: Arc<Document>,
}

impl Jobspec {
    /// Reads and validates a jobspec.
    ///
    /// # Errors
    /// [`JobspecError`] for text that is no JSON or no version 1 jobspec; the message names the
    /// place.
    pub fn parse(text: &str) -> Result<Self, JobspecError> {
        let value =
            serde_json::from_str(text).map_err(|error| JobspecError::Json(error.to_string()))?;
        Self::from_value(value)
    }

    /// Validates a jobspec.
    ///
    /// # Errors
    /// [`JobspecError`] when it is no version 1 jobspec; the message names the place.
    pub fn from_value(value: Value) -> Result<Self, JobspecError> {
        let counts = validate(&value)?;
        Ok(Self::assemble(value, counts, true))
    }

    /// Takes a jobspec as it is, for jobs whose owner asked for no validation and for logs that
    /// another manager wrote. What can't be read counts as absent: [`counts`](Self::counts) are
    /// zero and [`duration`](Self::duration) is unlimited then.
    #[must_use]
    pub fn unvalidated(value: Value) -> Self {
        let counts = Counts::of(&value).unwrap_or_default();
        Self::assemble(value, counts, false)
    }

    /// Takes the text of a stored jobspec, as [`unvalidated`](Self::unvalidated) does, but reads it
    /// only when something in it is asked for: of the many jobs of earlier runs few ever are.
    ///
    /// # Errors
    /// [`JobspecError::Json`] for text that is no JSON.
    pub fn stored(text: String) -> Result<Self, JobspecError> {
        let json: Result<IgnoredAny, _> = serde_json::from_str(&text);
        json.map_err(|error| JobspecError::Json(error.to_string()))?;
        Ok(Self { document: Arc::new(Document::unread(text.into_boxed_str())) })
    }

    /// The same of what was found to be JSON already.
    pub(crate) fn stored_json(text: &RawValue) -> Self {
        Self { document: Arc::new(Document::unread(text.get().into())) }
    }

    fn assemble(value: Value, counts: Counts, validated: bool) -> Self {
        Self { document: Arc::new(Document::new(value, counts, validated)) }
    }

    /// Its text, as it is stored.
    pub(crate) fn text(&self) -> &str {
        self.document.text()
    }

    /// Leaves the text and what scheduling asks for; the rest is read again when somebody looks. For
    /// jobs that wait long, or are over.
    pub(crate) fn close(&mut self) {
        if !self.document.is_open() {
            return;
        }
        if let Some(document) = Arc::get_mut(&mut self.document) {
            return document.close();
        }
        self.document = Arc::new(self.document.closed());
    }

    /// The same, to look at without opening this one.
    pub(crate) fn opened(&self) -> Self {
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

    /// How much is asked for.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.document.facts().counts
    }

    /// The time limit in seconds; 0 means that none is set.
    #[must_use]
    pub fn duration(&self) -> f64 {
        self.document.facts().duration
    }

    /// An attribute by the key that `--setattr` would take: `user.tag`, or `queue` for
    /// `attributes.system.queue`.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&Value> {
        path::get(self.value(), &path::attribute_key(key))
    }

    fn system(&self, key: &str) -> Option<&Value> {
        self.value().get("attributes")?.get("system")?.get(key)
    }

    /// The name that the submitter gave the job, if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.system("job")?.get("name")?.as_str()
    }

    /// The name to show: the given one, or else the last path component of the command.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.name().unwrap_or_else(|| {
            let word = self.command().next().unwrap_or_default();
            word.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(word)
        })
    }

    /// The words of the command that every task runs.
    pub fn command(&self) -> impl Iterator<Item = &str> {
        let command = self.value().pointer("/tasks/0/command").and_then(Value::as_array);
        command.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The queue that the job asks for.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.document.facts().queue.as_deref()
    }

    /// The same, without opening a document that nobody looked at yet.
    pub(crate) fn glance_at_queue(&self) -> Option<Cow<'_, str>> {
        self.document.queue()
    }

    /// The tasks' working directory.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.system("cwd")?.as_str()
    }

    /// The tasks' environment; a variable whose value is `null` is to be unset.
    #[must_use]
    pub fn environment(&self) -> Option<&Map<String, Value>> {
        self.system("environment")?.as_object()
    }

    /// The constraint object (RFC 31) that resources must match.
    #[must_use]
    pub fn constraints(&self) -> Option<&Value> {
        self.document.facts().constraints.as_deref()
    }

    /// A job shell option by its dotted name, e.g. `output.stdout.path`.
    #[must_use]
    pub fn shell_option(&self, name: &str) -> Option<&Value> {
        path::get(self.system("shell")?.get("options")?, name)
    }

    /// The dependencies in the order of the document.
    ///
    /// # Errors
    /// [`JobspecError::Dependency`] in the manager's words when the list or an entry is malformed,
    /// which a validated jobspec's can only be by an overlong scheme.
    pub fn dependencies(&self) -> Result<Vec<Dependency>, JobspecError> {
        Dependency::list(self.system("dependencies"))
    }

    /// Whether this passed validation, and so stays valid under [`update`](Self::update).
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.document.validated
    }

    /// The jobspec without the environment: what is stored, listed and shown to plugins, since the
    /// environment is large and may hold secrets.
    #[must_use]
    pub fn redacted(&self) -> Self {
        if self.system("environment").is_none() {
            return self.clone();
        }
        let validated = self.is_validated();
        Self::without_environment(self.value().clone(), self.counts(), validated)
    }

    /// The same, of a jobspec that nobody else needs whole.
    pub(crate) fn into_redacted(self) -> Self {
        match Arc::try_unwrap(self.document) {
            Ok(document) => {
                let validated = document.validated;
                let (value, counts) = document.into_parts();
                Self::without_environment(value, counts, validated)
            }
            Err(document) => Self { document }.redacted(),
        }
    }

    fn without_environment(mut value: Value, counts: Counts, validated: bool) -> Self {
        let system = value.pointer_mut("/attributes/system").and_then(Value::as_object_mut);
        if let Some(system) = system {
            system.shift_remove("environment");
        }
        Self::assemble(value, counts, validated)
    }

    /// Applies one entry of a `jobspec-update` event (RFC 21). Other clones keep the old document.
    ///
    /// # Errors
    /// As [`update_all`](Self::update_all).
    pub fn update(&mut self, path: &str, value: Value) -> Result<(), JobspecError> {
        self.apply([(path, &value)])
    }

    /// Applies the context of a `jobspec-update` event, all of it or nothing: per path, objects on
    /// the way are created and the last component is replaced whole.
    ///
    /// # Errors
    /// [`JobspecError::Update`] for an empty update, a path outside `attributes`, `resources` and
    /// `tasks`, an empty component, or one that leads through something other than an object;
    /// [`JobspecError::Invalid`] when a validated jobspec would no longer be valid.
    pub fn update_all(&mut self, updates: &Map<String, Value>) -> Result<(), JobspecError> {
        self.apply(updates.iter().map(|(path, value)| (path.as_str(), value)))
    }

    fn apply<'u>(
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

    /// Validates a jobspec that was taken [unvalidated](Self::unvalidated).
    ///
    /// # Errors
    /// As [`from_value`](Self::from_value).
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
    /// Without the environment, for logs.
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::jobspec::JobspecBuilder;

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
    fn the_parsed_facts_are_at_hand() {
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
    fn an_unnamed_job_is_shown_by_its_command() {
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
    fn neither_the_redacted_jobspec_nor_debug_shows_the_environment() {
        let spec = sample();
        let redacted = spec.redacted();
        assert_eq!(redacted.environment(), None);
        assert_eq!(redacted.cwd(), Some("/home/u"));
        assert!(spec.environment().is_some());
        assert!(Jobspec::from_value(redacted.value().clone()).is_ok());
        assert!(!format!("{spec:?}").contains("s3"));
    }

    #[test]
    fn updates_change_the_facts_and_leave_clones_alone() {
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
    fn a_stored_jobspec_is_what_its_text_says() {
        let spec = Jobspec::stored(sample().value().to_string()).unwrap();
        assert_eq!(spec.clone(), sample());
        assert_eq!((spec.counts(), spec.duration()), (sample().counts(), sample().duration()));
        assert!(!spec.is_validated());
        assert!(matches!(Jobspec::stored("{".to_owned()), Err(JobspecError::Json(_))));
        let deep = format!("{}{}", "[".repeat(999), "]".repeat(999));
        assert_eq!(Jobspec::stored(deep).unwrap().value(), &Value::Null);
    }

    #[test]
    fn an_unvalidated_jobspec_is_kept_as_it_is() {
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
    fn text_that_is_no_json_is_refused() {
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
}
