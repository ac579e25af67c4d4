//! A jobspec's document between its two forms. A hundred thousand jobs may wait at once, so a job at
//! rest holds the text alone, and beside it the few facts that the manager asks for in every turn;
//! the whole is read again when somebody looks at it.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::{Counts, path};

/// The text, the facts, the whole: at least one of text and whole is there at any time.
pub(super) struct Document {
    text: OnceLock<Box<str>>,
    facts: OnceLock<Facts>,
    value: OnceLock<Box<Value>>,
    pub(super) validated: bool,
}

/// What scheduling asks for.
#[derive(Clone, Default)]
pub(super) struct Facts {
    pub(super) counts: Counts,
    pub(super) duration: f64,
    pub(super) queue: Option<Box<str>>,
    pub(super) constraints: Option<Box<Value>>,
}

impl Facts {
    fn of(value: &Value, counts: Counts) -> Self {
        let system = |key: &str| value.get("attributes")?.get("system")?.get(key);
        let duration = path::get(value, "attributes.system.duration").and_then(Value::as_f64);
        Self {
            counts,
            duration: duration.filter(|seconds| *seconds >= 0.0).unwrap_or_default(),
            queue: system("queue").and_then(Value::as_str).map(Into::into),
            constraints: system("constraints").cloned().map(Box::new),
        }
    }
}

impl Document {
    /// A document that was read; `counts` of it are known.
    pub(super) fn new(value: Value, counts: Counts, validated: bool) -> Self {
        let facts = Facts::of(&value, counts).into();
        Self { text: OnceLock::new(), facts, value: Box::new(value).into(), validated }
    }

    /// A document that nobody looked at yet.
    pub(super) fn unread(text: Box<str>) -> Self {
        let (facts, value) = (OnceLock::new(), OnceLock::new());
        Self { text: text.into(), facts, value, validated: false }
    }

    /// The whole.
    pub(super) fn value(&self) -> &Value {
        self.value.get_or_init(|| {
            let text = self.text.get().map_or("", |text| text);
            // It was JSON; what is nested too deep to be held counts as absent.
            Box::new(serde_json::from_str(text).unwrap_or_default())
        })
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| self.value().to_string().into())
    }

    /// What scheduling asks for.
    pub(super) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| {
            let value = self.value();
            Facts::of(value, Counts::of(value).unwrap_or_default())
        })
    }

    /// The queue, for which a text that nobody looked at yet is only scanned.
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
            return facts.queue.as_deref().map(Cow::Borrowed);
        }
        // Most jobs have none, which is seen sooner.
        let text = self.text.get().filter(|text| text.contains("\"queue\""))?;
        let glance: Glance<'_> = serde_json::from_str(text).ok()?;
        Some(glance.attributes.system.queue)
    }

    /// Whether there is more than the text and the facts.
    pub(super) fn is_open(&self) -> bool {
        self.value.get().is_some()
    }

    /// Leaves the text and the facts alone.
    pub(super) fn close(&mut self) {
        let _ = (self.text(), self.facts());
        self.value.take();
    }

    /// A copy of text and facts.
    pub(super) fn closed(&self) -> Self {
        Self {
            text: Box::<str>::from(self.text()).into(),
            facts: self.facts().clone().into(),
            value: OnceLock::new(),
            validated: self.validated,
        }
    }

    /// The whole and its counts, taken out if nobody else has it.
    pub(super) fn into_parts(self) -> (Value, Counts) {
        let counts = self.facts().counts;
        let _ = self.value();
        (self.value.into_inner().map(|value| *value).unwrap_or_default(), counts)
    }
}
