//! A jobspec of the usual form, read and validated in one pass over its text, without a JSON value of it.
//!
//! Tools submit most jobs in the same form, and the manager asks few things of most of them: their amounts, their
//! time limit, and the text to store. A JSON value only for that took a sixth of all that the manager does for a job.
//! A jobspec of another form, or with any fault, is left to the validator, which knows all rules and says what is
//! wrong. So what is read here is what the validator would accept, with the same facts, which a test compares.

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
    /// The document as it was sent, if it has an environment.
    pub(super) whole: Option<&'t str>,
    /// What follows the document.
    pub(super) rest: &'t str,
}

/// Reads the jobspec at the beginning of a text; `None` if it isn't a valid one of the usual form.
pub(super) fn read_first(text: &str) -> Option<OnePass<'_>> {
    let Some(place) = environment::find(text) else {
        let (read, len) = read_document(text, None)?;
        let (document, rest) = text.split_at_checked(len)?;
        return Some(OnePass { facts: read.facts, text: document.into(), whole: None, rest });
    };
    // The parser gets an empty object in place of the environment, which is known to be an object, too. So what it
    // accepts is JSON with the environment as well.
    let (before, after) = (text.get(..place.start)?, text.get(place.end..)?);
    let short = [before, EMPTY, after].concat();
    let (read, len) = read_document(&short, Some(place.start))?;
    let rest = short.get(len..)?;
    let (document, rest) = text.split_at_checked(text.len() - rest.len())?;
    Some(OnePass { facts: read.facts, text: read.text?, whole: Some(document), rest })
}

/// What the parser is given as the environment.
const EMPTY: &str = "{}";

/// What a document says.
struct Read {
    facts: Facts,
    /// The document without its environment, if it has one.
    text: Option<Box<str>>,
}

/// Reads the document at the beginning of a text, and its length. `environment` is where its environment is, which is
/// [`EMPTY`]; if there is another one, or none, or one elsewhere, the document isn't read.
fn read_document(text: &str, environment: Option<usize>) -> Option<(Read, usize)> {
    let mut parser = serde_json::Deserializer::from_str(text).into_iter::<Object<Document<'_>>>();
    let Object(read) = parser.next()?.ok()?;
    let len = parser.byte_offset();
    let document = text.get(..len)?;
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
        // It is no key that is known here.
        has_dependencies: false,
        wishes: Wishes::of_queue(system.queue.as_deref()),
    };
    let is_valid = system.duration >= 0.0 && system.duration.is_finite();
    is_valid.then_some((Read { facts, text: without }, len))
}

/// Cuts the environment, which is [`EMPTY`] and begins at `start`, out of a document.
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

/// Whether the text has the spaces and escapes of a jobspec that the manager writes itself, since this one is stored
/// as it is.
fn is_as_we_write(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_odd = memchr2_iter(b' ', b'\\', bytes).any(|at| match bytes.split_at(at) {
        // Between a key and its value, in the usual style of other writers.
        (before, [b' ', ..]) => before.ends_with(b"\":"),
        (_, after) => matches!(after, [_, b'u' | b'/', ..]),
    });
    !has_odd && memchr3(b'\n', b'\t', b'\r', bytes).is_none()
}

/// The keys that are known here. An unknown or a repeated one is an error of the parser, as is a value of another
/// type, and so are texts with escapes where they are borrowed.
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
    /// The amounts of a job with the one slot that version 1 allows; `None` if anything is wrong with them.
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
    /// Where `text`, which contains it, has what a simulated execution is asked for.
    fn within(&self, text: &str) -> Option<Simulation> {
        /// Few enough for each parser that the document may meet.
        const LEVELS: usize = 32;
        let words = self.test.get();
        let deepest = words.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
        serde_json::from_str::<Anything>(words).ok().filter(|_| deepest <= LEVELS)?;
        Simulation::within(text, words)
    }
}

/// An object. The structs themselves could be read from lists too.
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

/// A list of texts that has some.
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

/// The options of the job shell, but for those that the manager reads.
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
                while let Some(name) = access.next_key::<&str>()? {
                    if matches!(name, "signal" | "per-resource") {
                        return Err(Error::custom("an option that the manager reads"));
                    }
                    access.next_value::<Anything>()?;
                }
                Ok(Options)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A text of which nothing is kept.
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

/// A value of which nothing is kept. Serde's own type for this accepts numbers and depths that can't be read later.
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
                while access.next_entry::<Text, Anything>()?.is_some() {}
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

    /// Compares what is read in one pass with what the validator makes of the same text. Returns whether the text
    /// was read in one pass.
    fn reads_the_same(text: &str) -> bool {
        if read_first(text).is_none() {
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
        // The environment at each place of the attributes.
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
    fn what_follows_the_document_is_returned() {
        let text = usual().to_string();
        let message = format!("{text},\"urgency\":16}}");
        assert_eq!(read_first(&message).map(|read| read.rest), Some(",\"urgency\":16}"));
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
        ] {
            assert_ne!(odd, text);
            assert!(read_first(&odd).is_none(), "{odd}");
        }
        for odd in [
            text.replacen("\"version\"", "\"version\":1,\"version\"", 1),
            text.replace("0.5s", "0.5s\",\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],\"x\":\""),
            text.replace("1.5", "1e999"),
            text.replace("60.5", "-1"),
        ] {
            assert_ne!(odd, text);
            assert!(read_first(&odd).is_none(), "{odd}");
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
        assert!(read_first(&format!("{without},\"environment\":{{\"A\":\"1\"}}}}")).is_none());
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
