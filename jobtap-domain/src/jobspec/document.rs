//! The document of a jobspec in its in-memory forms: its text, its facts, and its JSON value.

use std::borrow::Cow;
use std::sync::{Mutex, OnceLock, PoisonError};

use memchr::{memchr_iter, memmem};
use serde::Deserialize;
use serde_json::Value;

use super::environment::WithEnvironment;
use super::facts::{Facts, Simulation, simulation};
use super::members::Members;
use super::one_pass::OnePass;
use super::{Counts, path};

/// The system attribute that the text and the value lack if `origin` has it.
const ENVIRONMENT: &str = "environment";

/// A document that a host lends. Only the parts that are asked for are read.
///
/// A closure that returns the whole document implements this trait.
pub trait LentDocument: Send {
    /// The whole document.
    fn whole(&self) -> Value;

    /// The value at a path, such as `["attributes", "system", "queue"]`.
    fn part(&self, path: &[&str]) -> Option<Value> {
        let whole = self.whole();
        path.iter().try_fold(&whole, |value, key| value.get(key)).cloned()
    }
}

impl<F: Fn() -> Value + Send> LentDocument for F {
    fn whole(&self) -> Value {
        self()
    }
}

/// The document in up to three forms. Either the text or the value is always set, or the document is lent; the other
/// forms are derived on first use.
pub(super) struct Document {
    /// Without the environment if `origin` has it.
    text: OnceLock<Box<str>>,
    facts: OnceLock<Facts>,
    /// Without the environment if `origin` has it.
    value: OnceLock<Box<Value>>,
    /// Boxed, since most documents are stored ones.
    origin: Option<Box<Origin>>,
    validated: bool,
}

/// The origin of a document that wasn't read from the store.
enum Origin {
    /// The whole document, which was just submitted with an environment; the text and the value lack it then.
    Submitted(WithEnvironment),
    /// The source of a document that a host lends.
    Lent(Lent),
}

/// A document that a host lends, and the parts of it that were asked for.
pub(super) struct Lent {
    /// Locked, since jobs are shared between threads, and a source need not be `Sync`.
    source: Mutex<Box<dyn LentDocument>>,
    parts: OnceLock<Box<Part>>,
}

/// A part of a lent document, and the next one. Handlers ask for few parts of a job, but in every callback. So the
/// parts form a list that is searched without a lock, by the keys as the handlers wrote them.
struct Part {
    key: Box<str>,
    value: Option<Value>,
    next: OnceLock<Box<Part>>,
}

impl Lent {
    fn whole(&self) -> Value {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).whole()
    }

    /// The value of an attribute by its [key](path::attribute_key).
    pub(super) fn part(&self, key: &str) -> Option<&Value> {
        let mut place = &self.parts;
        loop {
            let part = place.get_or_init(|| {
                let path = path::attribute_key(key);
                let keys: Vec<&str> = path.split('.').collect();
                let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
                Box::new(Part { key: key.into(), value: source.part(&keys), next: OnceLock::new() })
            });
            if *part.key == *key {
                return part.value.as_ref();
            }
            place = &part.next;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Iteratively, since recursion over a long list would overflow the stack.
        let mut next = self.next.take();
        while let Some(mut part) = next {
            next = part.next.take();
        }
    }
}

/// Whether a JSON text may have a member of this name. Most jobs lack most members, and a search detects that faster
/// than a parser. Another writer may have escaped characters of the name: letters as `\uXXXX`, so any such escape
/// counts; a name with characters that have other escapes is not searched for.
fn may_have(text: &str, name: &str) -> bool {
    if name.contains(['"', '\\', '/']) || name.contains(char::is_control) {
        return true;
    }
    let bytes = text.as_bytes();
    let quoted = |start: usize| {
        start.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'"')
            && bytes.get(start + name.len()) == Some(&b'"')
    };
    let numbered = |at: usize| bytes.get(at + 1) == Some(&b'u');
    memmem::find_iter(bytes, name).any(quoted) || memchr_iter(b'\\', bytes).any(numbered)
}

impl Document {
    /// A document with this value and its counts.
    pub(super) fn new(value: Value, counts: Counts, validated: bool) -> Self {
        let facts = Facts::from_jobspec(&value, counts).into();
        let (text, value) = (OnceLock::new(), Box::new(value).into());
        Self { text, facts, value, origin: None, validated }
    }

    /// A valid document that was just submitted: its value without the environment, and the whole document if it has
    /// an environment.
    pub(super) fn submitted(value: Value, counts: Counts, whole: Option<WithEnvironment>) -> Self {
        let origin = whole.map(|whole| Box::new(Origin::Submitted(whole)));
        Self { origin, ..Self::new(value, counts, true) }
    }

    /// A valid document that was just submitted and is parsed on first use.
    pub(super) fn read(read: OnePass<'_>) -> Self {
        let whole =
            read.whole.map(|whole| Box::new(Origin::Submitted(WithEnvironment::new(whole))));
        Self { facts: read.facts.into(), origin: whole, validated: true, ..Self::unread(read.text) }
    }

    /// A document that a host lends.
    pub(super) fn lent(source: Box<dyn LentDocument>) -> Self {
        let lent = Lent { source: Mutex::new(source), parts: OnceLock::new() };
        let origin = Some(Box::new(Origin::Lent(lent)));
        let (text, facts, value) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { text, facts, value, origin, validated: false }
    }

    /// A document that is parsed on first use.
    pub(super) fn unread(text: Box<str>) -> Self {
        let (facts, value) = (OnceLock::new(), OnceLock::new());
        Self { text: text.into(), facts, value, origin: None, validated: false }
    }

    pub(super) const fn is_validated(&self) -> bool {
        self.validated
    }

    /// The whole JSON value.
    pub(super) fn value(&self) -> &Value {
        match self.with_environment() {
            Some(whole) => whole.document(),
            None => self.parsed(),
        }
    }

    /// The JSON value, without the environment if `origin` has it; parses the text on first use.
    pub(super) fn parsed(&self) -> &Value {
        self.value.get_or_init(|| {
            if let Some(lent) = self.loan() {
                return Box::new(lent.whole());
            }
            let text = self.text.get().map_or("", |text| text);
            // The text is known to be JSON. If it is nested too deeply to be parsed, it counts as null.
            Box::new(serde_json::from_str(text).unwrap_or_default())
        })
    }

    /// The text of the whole document; written on first use.
    pub(super) fn text(&self) -> &str {
        match self.with_environment() {
            Some(whole) => whole.text(),
            None => self.text_without_environment(),
        }
    }

    /// The text without the environment if `origin` has it; written on first use.
    fn text_without_environment(&self) -> &str {
        self.text.get_or_init(|| {
            // Copied into an allocation of its exact size: shrinking the string in place could keep its spare
            // capacity.
            Box::from(&*serde_json::to_string(self.parsed()).unwrap_or_default())
        })
    }

    /// The facts for scheduling; derives them on first use.
    pub(super) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| {
            let value = self.parsed();
            Facts::from_jobspec(value, Counts::from_jobspec(value).unwrap_or_default())
        })
    }

    /// A system attribute.
    pub(super) fn system(&self, key: &str) -> Option<&Value> {
        if let Some(lent) = self.on_loan() {
            return lent.part(&format!("attributes.system.{key}"));
        }
        if self.facts.get().is_some_and(|facts| facts.lack(key)) {
            return None;
        }
        if self.lacks(key) {
            return None;
        }
        self.parsed().member("attributes")?.member("system")?.member(key)
    }

    /// The value at a path with periods, which the environment is not on.
    pub(super) fn at(&self, path: &str) -> Option<&Value> {
        if path.rsplit('.').next().is_some_and(|name| self.lacks(name)) {
            return None;
        }
        path::get(self.parsed(), path)
    }

    /// Whether it is known without parsing the text that no member has this name.
    fn lacks(&self, name: &str) -> bool {
        !self.is_open() && !self.text.get().is_some_and(|text| may_have(text, name))
    }

    /// The queue. If the text has not been parsed yet, it is only scanned for the queue.
    pub(super) fn queue(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Glance<'a> {
            #[serde(borrow)]
            attributes: Attributes<'a>,
        }
        #[derive(Deserialize)]
        struct Attributes<'a> {
            #[serde(borrow)]
            system: System<'a>,
        }
        #[derive(Deserialize)]
        struct System<'a> {
            #[serde(borrow)]
            queue: Cow<'a, str>,
        }
        if let Some(facts) = self.facts.get() {
            return facts.queue().map(Cow::Borrowed);
        }
        if let Some(lent) = self.on_loan() {
            return lent.part("queue")?.as_str().map(Cow::Borrowed);
        }
        let text = self.text.get().filter(|text| may_have(text, "queue"))?;
        let glance: Glance<'_> = serde_json::from_str(text).ok()?;
        Some(glance.attributes.system.queue)
    }

    /// The request for a simulated execution. If the document is closed, only this part of its text is parsed.
    pub(super) fn simulation(&self) -> Option<Cow<'_, Value>> {
        if let Some(text) = self.simulation_text() {
            return serde_json::from_str(text).ok().map(Cow::Owned);
        }
        simulation(self.parsed()).map(Cow::Borrowed)
    }

    /// The text of the request for a simulated execution, if the document is closed.
    pub(super) fn simulation_text(&self) -> Option<&str> {
        match self.facts.get()?.simulation {
            Simulation::At { start, len } if !self.is_open() => {
                self.text.get()?.get(start as usize..(start + len) as usize)
            }
            _ => None,
        }
    }

    /// Finds the request for a simulated execution in `text`.
    fn find_simulation(&self, text: &str) -> Option<Simulation> {
        if let Some(value) = self.value.get() {
            return Simulation::within(text, &serde_json::to_string(simulation(value)?).ok()?);
        }
        Simulation::within(text, self.simulation_text()?)
    }

    /// The source of a lent document that has not been read as a whole.
    pub(super) fn on_loan(&self) -> Option<&Lent> {
        self.loan().filter(|_| !self.is_open())
    }

    /// The source of a lent document, even after it was read.
    pub(super) fn loan(&self) -> Option<&Lent> {
        match self.origin.as_deref()? {
            Origin::Lent(lent) => Some(lent),
            Origin::Submitted(_) => None,
        }
    }

    /// The whole document, if it was submitted with an environment.
    pub(super) fn with_environment(&self) -> Option<&WithEnvironment> {
        match self.origin.as_deref()? {
            Origin::Submitted(whole) => Some(whole),
            Origin::Lent(_) => None,
        }
    }

    /// Whether the JSON value is in memory.
    pub(super) fn is_open(&self) -> bool {
        self.value.get().is_some()
    }

    /// Whether only the text and the facts are in memory.
    pub(super) fn is_closed(&self) -> bool {
        !self.is_open() && self.origin.is_none()
    }

    /// Drops all but the text and the facts.
    pub(super) fn close(&mut self) {
        let (_, found) = (self.facts(), self.find_simulation(self.text()));
        if let (Some(facts), Some(found)) = (self.facts.get_mut(), found) {
            facts.simulation = found;
        }
        // A lent document needs no source any more: `text` has read all of it.
        if let Some(Origin::Submitted(whole)) = self.origin.take().map(|origin| *origin) {
            self.text = whole.into_text().into();
        }
        self.value.take();
    }

    /// A copy of the text and the facts.
    pub(super) fn closed(&self) -> Self {
        let (text, mut facts) = (self.text(), self.facts().clone());
        if let Some(found) = self.find_simulation(text) {
            facts.simulation = found;
        }
        self.copy(text, facts)
    }

    fn copy(&self, text: &str, facts: Facts) -> Self {
        let validated = self.validated;
        Self { facts: facts.into(), validated, ..Self::unread(text.into()) }
    }

    /// A copy without the environment; `None` if the document has none.
    pub(super) fn redacted(&self) -> Option<Self> {
        match self.with_environment() {
            Some(_) if !self.is_open() => {
                Some(self.copy(self.text_without_environment(), self.facts().clone()))
            }
            None if self.system(ENVIRONMENT).is_none() => None,
            _ => {
                let counts = self.facts().counts;
                Some(Self::without_environment(self.parsed().clone(), counts, self.validated))
            }
        }
    }

    /// The length of the text without the environment.
    pub(super) fn redacted_len(&self) -> usize {
        if self.with_environment().is_some() || self.system(ENVIRONMENT).is_none() {
            return self.text_without_environment().len();
        }
        self.redacted().map_or(0, |document| document.text().len())
    }

    /// Like [`redacted`](Self::redacted), without a copy.
    pub(super) fn into_redacted(self) -> Self {
        if self.with_environment().is_some() {
            return Self { origin: None, ..self };
        }
        if self.system(ENVIRONMENT).is_none() {
            return self;
        }
        let counts = self.facts().counts;
        let _ = self.value();
        let value = self.value.into_inner().map(|value| *value).unwrap_or_default();
        Self::without_environment(value, counts, self.validated)
    }

    fn without_environment(mut value: Value, counts: Counts, validated: bool) -> Self {
        let system = value.pointer_mut("/attributes/system").and_then(Value::as_object_mut);
        if let Some(system) = system {
            system.shift_remove(ENVIRONMENT);
        }
        Self::new(value, counts, validated)
    }
}
