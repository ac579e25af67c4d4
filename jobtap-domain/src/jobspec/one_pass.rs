//! Reads and validates a jobspec of the usual form in one pass over its text, without building a JSON value.
//!
//! Tools submit most jobs in the same form, and the manager needs little from most of them: their counts, their time
//! limit, and the text to store. Building a JSON value for that takes five times the instructions: 135,000 against
//! 26,000, for a job with 40 variables in its environment. It would double the manager's work for a job, which is
//! 92,000 instructions with this module. A jobspec of another form, or with any fault, is left to the validator, which
//! knows all rules and says what is wrong. So this module accepts only what the validator would accept, with the same
//! facts; a test compares the two.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use memchr::{memchr2_iter, memchr3};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Counts;
use super::environment;
use super::facts::{Facts, Simulation, Wishes};

/// A jobspec that was read in one pass.
pub(super) struct OnePass<'t> {
    pub(super) facts: Facts,
    /// The document without its environment.
    pub(super) text: Box<str>,
    /// The document as submitted, if it has an environment.
    pub(super) whole: Option<&'t str>,
}

/// Reads a jobspec; `None` if it isn't valid or doesn't have the usual form.
pub(super) fn read(text: &str) -> Option<OnePass<'_>> {
    let Some(place) = environment::find(text) else {
        let read = read_document(text, None)?;
        return Some(OnePass { facts: read.facts, text: text.into(), whole: None });
    };
    // The parser gets an empty object in place of the environment, which is known to be an object, too. So if it
    // accepts the text, the text with the environment is JSON as well.
    let (before, after) = (text.get(..place.start)?, text.get(place.end..)?);
    let short = [before, EMPTY, after].concat();
    let read = read_document(&short, Some(place.start))?;
    Some(OnePass { facts: read.facts, text: read.text?, whole: Some(text) })
}

/// What replaces the environment in the parser's input.
const EMPTY: &str = "{}";

/// What was read from a document.
struct Read {
    facts: Facts,
    /// The document without its environment, if it has one.
    text: Option<Box<str>>,
}

/// Reads a document. `environment` is the offset at which [`EMPTY`] replaces its environment, `None` if it has none.
/// `None` if the parser finds an environment anywhere else, or none at this offset.
fn read_document(document: &str, environment: Option<usize>) -> Option<Read> {
    let Object(read) = serde_json::from_str::<Object<Document<'_>>>(document).ok()?;
    let counts = read.counts()?;
    let Object(system) = read.attributes.0.system;
    let place = system.environment.map(|environment| environment.get().as_ptr().addr());
    if place != environment.map(|start| document.as_ptr().addr() + start) {
        return None;
    }
    let without = match environment {
        Some(start) => Some(without_environment(document, start)?),
        None => None,
    };
    let stored = without.as_deref().unwrap_or(document);
    if !is_as_we_write(stored) {
        return None;
    }
    let simulation = match system.exec {
        Some(Object(exec)) => exec.within(stored)?,
        None => Simulation::None,
    };
    let facts = Facts {
        counts,
        duration: system.duration,
        simulation,
        has_job: system.job.is_some(),
        // A document with dependencies isn't read here: the key is unknown.
        has_dependencies: false,
        wishes: Wishes::of_queue(system.queue.as_deref()),
    };
    let is_valid = system.duration >= 0.0 && system.duration.is_finite();
    is_valid.then_some(Read { facts, text: without })
}

/// Removes the environment, which is [`EMPTY`] and begins at `start`, from a document.
fn without_environment(document: &str, start: usize) -> Option<Box<str>> {
    let before = document.get(..start)?.strip_suffix("\"environment\":")?;
    let after = document.get(start..)?.strip_prefix(EMPTY)?;
    // Together with the comma before or after it.
    let (before, after) = match before.strip_suffix(',') {
        Some(before) => (before, after),
        None => (before, after.strip_prefix(',')?),
    };
    Some([before, after].concat().into_boxed_str())
}

/// Whether the text has the same spaces and escapes as if the manager had written it, since the text is stored as it
/// is.
fn is_as_we_write(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_odd = memchr2_iter(b' ', b'\\', bytes).any(|at| match bytes.split_at(at) {
        // A space between a key and its value, as other writers often put it.
        (before, [b' ', ..]) => before.ends_with(b"\":"),
        (_, after) => matches!(after, [_, b'u' | b'/', ..]),
    });
    !has_odd && text.ends_with('}') && memchr3(b'\n', b'\t', b'\r', bytes).is_none()
}

/// The keys that are known here. The parser refuses unknown and repeated keys, values of another type, and strings
/// with escapes where they are borrowed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'t> {
    #[serde(borrow)]
    resources: One<Object<Vertex<'t>>>,
    #[serde(borrow)]
    tasks: One<Object<Task<'t>>>,
    #[serde(borrow)]
    attributes: Object<Attributes<'t>>,
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vertex<'t> {
    #[serde(rename = "type")]
    kind: Kind,
    count: u64,
    #[serde(default, borrow)]
    with: Vec<Object<Vertex<'t>>>,
    #[serde(default)]
    label: &'t str,
    #[serde(default)]
    exclusive: bool,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Node,
    Slot,
    Core,
    Gpu,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "that it is well-formed is all that is asked of some members")]
struct Task<'t> {
    command: Command,
    slot: &'t str,
    count: TaskCount,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TaskCount {
    Total(u64),
    PerSlot(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes<'t> {
    #[serde(borrow)]
    system: Object<System<'t>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "as of a task")]
struct System<'t> {
    duration: f64,
    #[serde(default, borrow, deserialize_with = "not_null")]
    queue: Option<Cow<'t, str>>,
    #[serde(default, borrow, deserialize_with = "not_null")]
    environment: Option<&'t RawValue>,
    #[serde(default, borrow, deserialize_with = "not_null")]
    exec: Option<Object<Exec<'t>>>,
    #[serde(default, deserialize_with = "not_null")]
    shell: Option<Object<Shell>>,
    #[serde(default, deserialize_with = "not_null")]
    cwd: Option<Text>,
    #[serde(default, deserialize_with = "not_null")]
    bank: Option<Text>,
    #[serde(default, deserialize_with = "not_null")]
    project: Option<Text>,
    #[serde(default, deserialize_with = "not_null")]
    job: Option<Object<Job>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exec<'t> {
    #[serde(borrow)]
    test: &'t RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "as of a task")]
struct Job {
    name: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "as of a task")]
struct Shell {
    options: Options,
}

/// A value that may be missing, but not null.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Document<'_> {
    /// The counts of a job with the one slot that version 1 allows; `None` if anything is wrong with them.
    fn counts(&self) -> Option<Counts> {
        let mut counts = Counts::default();
        let One(Object(outermost)) = &self.resources;
        let mut slot = outermost;
        if slot.kind == Kind::Node {
            (counts.nnodes, counts.exclusive) = (slot.count, slot.exclusive);
            let [Object(inside)] = slot.with.as_slice() else { return None };
            slot = inside;
        }
        let (core, gpu) = match slot.with.as_slice() {
            [Object(core)] => (core, None),
            [Object(core), Object(gpu)] if core.kind == Kind::Core => (core, Some(gpu)),
            [Object(gpu), Object(core)] => (core, Some(gpu)),
            _ => return None,
        };
        let kinds = (&slot.kind, &core.kind, gpu.map(|gpu| &gpu.kind));
        if !matches!(kinds, (Kind::Slot, Kind::Core, None | Some(Kind::Gpu))) {
            return None;
        }
        let is_leaf = |vertex: &Vertex<'_>| vertex.with.is_empty();
        let has_all = outermost.count > 0 && slot.count > 0 && core.count > 0;
        if !has_all || !is_leaf(core) || !gpu.is_none_or(is_leaf) {
            return None;
        }
        (counts.nslots, counts.slot_size) = (slot.count, core.count);
        counts.slot_gpus = gpu.map_or(0, |gpu| gpu.count);
        let mut counts = counts.on_all_nodes().ok()?;
        let One(Object(task)) = &self.tasks;
        counts.ntasks = match task.count {
            TaskCount::Total(total) if total > 0 && total >= counts.nnodes => total,
            TaskCount::PerSlot(1) => counts.nslots,
            TaskCount::Total(_) | TaskCount::PerSlot(_) => return None,
        };
        let is_valid = self.version == 1 && !slot.label.is_empty() && task.slot == slot.label;
        is_valid.then_some(counts)
    }
}

impl Exec<'_> {
    /// Finds the request for a simulated execution in `text`, which contains it.
    fn within(&self, text: &str) -> Option<Simulation> {
        /// Within the nesting limit of any parser that may read the document.
        const LEVELS: usize = 32;
        let words = self.test.get();
        let deepest = words.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
        serde_json::from_str::<Anything>(words).ok().filter(|_| deepest <= LEVELS)?;
        Simulation::within(text, words)
    }
}

/// An object. Without this, serde would also read the structs from lists.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(access)).map(Object)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// A list of one element.
struct One<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[T; 1]>::deserialize(deserializer).map(|[element]| Self(element))
    }
}

/// A list of strings that isn't empty.
struct Command;

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Command;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of texts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Command, A::Error> {
                let first = access.next_element::<Text>()?;
                first.ok_or_else(|| Error::invalid_length(0, &self))?;
                while access.next_element::<Text>()?.is_some() {}
                Ok(Command)
            }
        }

        deserializer.deserialize_seq(Words)
    }
}

/// Options of the job shell; those that the manager itself reads are refused.
struct Options;

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Options;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Options, A::Error> {
                let mut names = Names::default();
                while let Some(name) = access.next_key::<&str>()? {
                    if matches!(name, "signal" | "per-resource") {
                        return Err(Error::custom("an option that the manager reads"));
                    }
                    names.add(name)?;
                    access.next_value::<Anything>()?;
                }
                Ok(Options)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// The names of an object's members, which must not occur twice.
#[derive(Default)]
struct Names<'t>(Vec<&'t str>);

impl<'t> Names<'t> {
    fn add<E: Error>(&mut self, name: &'t str) -> Result<(), E> {
        /// Few enough to compare each name with all others.
        const MOST: usize = 32;
        if self.0.len() >= MOST || self.0.contains(&name) {
            return Err(E::custom("too many members, or one twice"));
        }
        self.0.push(name);
        Ok(())
    }
}

/// A string; its contents are discarded.
struct Text;

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl Visitor<'_> for Any {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Text, E> {
                Ok(Text)
            }
        }

        deserializer.deserialize_str(Any)
    }
}

/// Any value; its contents are discarded. Serde's own type for this accepts numbers and nesting that couldn't be
/// parsed later.
struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Anything;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            fn visit_unit<E>(self) -> Result<Anything, E> {
                Ok(Anything)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Anything, E> {
                Ok(Anything)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Anything, E> {
                Ok(Anything)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Anything, E> {
                Ok(Anything)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Anything, E> {
                Ok(Anything)
            }

            fn visit_str<E>(self, _: &str) -> Result<Anything, E> {
                Ok(Anything)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Anything, A::Error> {
                while access.next_element::<Anything>()?.is_some() {}
                Ok(Anything)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Anything, A::Error> {
                let mut names = Names::default();
                while let Some((name, Anything)) = access.next_entry()? {
                    names.add(name)?;
                }
                Ok(Anything)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;
    use serde_json::{Value, json};

    use super::super::validate::validate;
    use super::super::{Jobspec, JobspecBuilder, environment, path};
    use super::*;

    /// The facts of a document, without its environment.
    fn told(jobspec: &Jobspec) -> impl PartialEq + fmt::Debug + use<> {
        let facts = (jobspec.counts(), jobspec.duration().to_bits(), jobspec.warning());
        let simulation = jobspec.simulation().map(Cow::into_owned);
        let asked = (jobspec.name().map(str::to_owned), jobspec.dependencies());
        let texts = (jobspec.queue().map(str::to_owned), jobspec.constraints().cloned());
        (facts, asked, texts, simulation, jobspec.is_simulated(), jobspec.value().clone())
    }

    /// Checks that reading in one pass gives the same as the validator does for this text. Returns whether the text
    /// was read in one pass.
    fn reads_the_same(text: &str) -> bool {
        if read(text).is_none() {
            return false;
        }
        let read = Jobspec::parse(text).unwrap();
        let (value, whole) = environment::split(text).unwrap();
        let counts = validate(&value).unwrap();
        assert_eq!(read.counts(), counts, "{text}");
        let plain = Jobspec::from_value(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(told(&read), told(&plain), "{text}");
        assert_eq!(read.environment(), plain.environment(), "{text}");
        assert_eq!(read.environment().is_some(), whole.is_some(), "{text}");
        // Without a copy, with one, and with a JSON value in memory.
        let opened = Jobspec::parse(text).unwrap();
        let _ = (opened.command().count(), opened.value());
        for redacted in
            [Jobspec::parse(text).unwrap().into_redacted(), read.redacted(), opened.redacted()]
        {
            assert_eq!(redacted.text(), value.to_string(), "{text}");
            assert_eq!(told(&redacted), told(&plain.redacted()), "{text}");
            assert!(redacted.is_validated() && redacted.environment().is_none());
        }
        let mut closed = Jobspec::parse(text).unwrap();
        let copy = closed.opened();
        closed.close();
        for closed in [closed, copy] {
            assert_eq!((closed.text(), told(&closed)), (text, told(&plain)));
        }
        true
    }

    /// A jobspec as the tools write it.
    fn usual() -> Value {
        let builder = JobspecBuilder::new(["bash", "-c", "echo \"ü\\n\""]).nodes(2).ntasks(4);
        let builder = builder.cores_per_task(2).gpus_per_task(1).duration(60.5).cwd("/home/u");
        let builder =
            builder.queue("batch").name("test").environment([("A", "\\"), ("HOME", "/home/u")]);
        let mut value = builder.to_value();
        for (at, part) in [
            ("attributes.system.exec.test", json!({"run_duration": "0.5s"})),
            (
                "attributes.system.shell.options.rlimit",
                json!({"nofile": 1024, "core": [-1, 1.5, null, true]}),
            ),
        ] {
            path::set(&mut value, at, part).unwrap();
        }
        value
    }

    #[test]
    fn what_the_tools_write_is_read_in_one_pass() {
        let plain = JobspecBuilder::new(["hostname"]).to_value();
        let whole_nodes = JobspecBuilder::new(["hostname"]).nodes(2).to_value();
        let copies = JobspecBuilder::new(["hostname"]).ntasks(3).gpus_per_task(2).to_value();
        for value in [plain, whole_nodes, copies, usual()] {
            assert!(reads_the_same(&value.to_string()), "{value}");
        }
        // The environment at each position among the attributes.
        for count in 0..5 {
            let mut members: Vec<(String, Value)> = (0..count)
                .map(|n| (["cwd", "queue", "bank", "project"][n].to_owned(), "x".into()))
                .collect();
            members.push(("duration".to_owned(), json!(0)));
            for at in 0..=members.len() {
                let mut members = members.clone();
                members.insert(
                    at,
                    ("environment".to_owned(), json!({"A": null, "B": "{\"b\":[1,2]}", "C": null})),
                );
                let mut value = usual();
                value["attributes"]["system"] = Value::Object(members.into_iter().collect());
                assert!(reads_the_same(&value.to_string()), "{value}");
            }
        }
    }

    #[test]
    fn a_text_that_is_not_written_as_ours_is_left_to_the_validator() {
        let text = usual().to_string();
        for odd in [
            text.replace("\":", "\": "),
            text.replace(',', ",\n"),
            text.replace("batch", "b\\u0061tch"),
            text.replace("/home/u", "\\/home\\/u"),
            text.replace("\"queue\"", "\"qu\\u0065ue\""),
            text.replace("\"environment\":", "\"environment\" :"),
            text.replace("\"environment\":{", "\"environment\":{ "),
            text.replace("\"HOME\":\"/home/u\"}", "\"HOME\":\"/home/u\" }"),
            text.replace("\"name\"", "\"environment\":{\"A\":\"1\"},\"name\""),
            text.replace("\"environment\":{", "\"environment\":{},\"environment\":{"),
            text.replace("\"A\":", "\"A\":1,\"B\":"),
            format!("{text}\n"),
            format!("{text} "),
            format!("{text},"),
        ] {
            assert_ne!(odd, text);
            assert!(read(&odd).is_none(), "{odd}");
        }
        for odd in [
            text.replacen("\"version\"", "\"version\":1,\"version\"", 1),
            text.replace("0.5s", "0.5s\",\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],\"x\":\""),
            text.replace("1.5", "1e999"),
            text.replace("60.5", "-1"),
        ] {
            assert_ne!(odd, text);
            assert!(read(&odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn an_object_like_an_environment_elsewhere_is_not_taken_for_it() {
        let option = json!({"options": {"environment": {"A": "1"}, "more": 1}});
        let own = json!({"B": "2"});
        for (members, in_one_pass) in [
            (json!({"duration": 0, "shell": option}), false),
            (json!({"shell": option, "duration": 0, "environment": own}), false),
            (json!({"environment": own, "duration": 0, "shell": option}), true),
        ] {
            let mut value = usual();
            value["attributes"]["system"] = members;
            let text = value.to_string();
            assert_eq!(reads_the_same(&text), in_one_pass, "{text}");
            let environment = Jobspec::parse(&text).unwrap().environment().cloned();
            let expected = value.pointer("/attributes/system/environment");
            assert_eq!(environment.map(Value::Object).as_ref(), expected);
        }
        // After the document.
        let without = JobspecBuilder::new(["true"]).to_value();
        assert!(read(&format!("{without},\"environment\":{{\"A\":\"1\"}}}}")).is_none());
    }

    /// All objects and lists of the document, and what is in them.
    fn places(value: &Value, at: &str, all: &mut Vec<String>) {
        let members: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), value)).collect()
            }
            Value::Array(list) => {
                list.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
            }
            _ => return,
        };
        for (key, value) in members {
            let at = format!("{at}/{key}");
            places(value, &at, all);
            all.push(at);
        }
    }

    fn change(value: &mut Value, at: &Index, new: Option<Value>, key: Option<&str>) {
        let mut all = Vec::new();
        places(value, "", &mut all);
        let at = at.get(&all).clone();
        match (new, key) {
            (Some(new), Some(key)) => {
                if let Some(members) = value.pointer_mut(&at).and_then(Value::as_object_mut) {
                    members.insert(key.to_owned(), new);
                }
            }
            (Some(new), None) => {
                if let Some(place) = value.pointer_mut(&at) {
                    *place = new;
                }
            }
            (None, _) => {
                let Some((parent, key)) = at.rsplit_once('/') else { return };
                match value.pointer_mut(parent) {
                    Some(Value::Object(members)) => drop(members.shift_remove(key)),
                    Some(Value::Array(list)) => drop(list.remove(key.parse().unwrap())),
                    _ => {}
                }
            }
        }
    }

    fn part() -> impl Strategy<Value = Value> {
        prop::sample::select(vec![
            json!(null),
            json!(true),
            json!(false),
            json!(-1),
            json!(0),
            json!(1),
            json!(2),
            json!(1.0),
            json!(1.5),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1e300),
            json!(""),
            json!("x"),
            json!("task"),
            json!("node"),
            json!("slot"),
            json!("core"),
            json!("gpu"),
            json!([]),
            json!({}),
            json!([1]),
            json!(["x"]),
            json!({"total": 1}),
            json!({"total": 3}),
            json!({"per_slot": 1}),
            json!({"per_slot": 2}),
            json!({"per_resource": 1}),
            json!({"type": "core", "count": 1}),
            json!([{"type": "core", "count": 1}]),
            json!([{"type": "gpu", "count": 0}, {"type": "core", "count": 3}]),
            json!({"signal": {"signum": 10}}),
            json!({"per-resource": {"type": "core", "count": 2}}),
            json!({"options": {"signal": 1}}),
            json!({"test": null}),
            json!({"test": {"run_duration": "1s"}}),
            json!({"environment": "x"}),
            json!({"name": "x", "other": "y"}),
        ])
    }

    proptest! {
        #[test]
        fn whatever_is_read_in_one_pass_is_read_as_by_the_validator(
            changes in prop::collection::vec(
                (any::<Index>(), prop::option::of(part()), prop::option::of(prop::sample::select(vec![
                    "environment", "queue", "constraints", "dependencies", "exec", "shell", "options", "test", "label",
                    "exclusive", "with", "count", "user", "signal", "unit", "per-resource", "preemptible-after",
                ]))), 0..3),
        ) {
            let mut value = usual();
            for (at, new, key) in &changes {
                change(&mut value, at, new.clone(), *key);
            }
            reads_the_same(&value.to_string());
        }
    }
}
