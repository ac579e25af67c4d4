//! The protocol: requests of tasks, the store that they share, and the responses. It does no I/O.
//!
//! A request of version 1 is a line, `cmd=put kvsname=f1 key=a value=b`. One of version 2 begins with its length in
//! six characters, and its fields end with semicolons: `    23cmd=kvs-get;key=a;...`. A task chooses the version by
//! its first line.

use std::collections::HashMap;

use jobtap_core::job::{JobId, TaskMap};

use serde_json::json;

use super::memory::{ENTRY, Share};

/// The longest names and values, as `get_maxes` reports them.
const KEY: usize = 256;
const VALUE: usize = 1024;

/// The longest name of a thread, in bytes: libraries use numbers.
const THREAD: usize = 64;

/// The number of values of the host that a task can wait for at once, each in a thread of its own.
pub(super) const WAITS: usize = 8;

/// The bytes of the keys and values that all hosts of a job together put into one exchange. They come to each host in one
/// line, which may have twice as many.
const MOST_ACROSS: usize = 32 << 20;

/// The keys under which a library looks for the places of all tasks: in PMI's form, and in Flux's.
const MAPPING: &str = "PMI_process_mapping";
const TASKMAP: &str = "flux.taskmap";

/// Why a job ends, if the task that ends it says nothing.
const NO_REASON: &str = "aborted";

/// The node of a task that isn't in the map of its job.
const NO_NODE: u64 = 0;

/// A text that is not a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The result of one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The length of the request in bytes.
    pub(super) used: usize,
    /// Responses, with the ranks of the tasks that get them.
    pub(super) responses: Vec<(u32, Vec<u8>)>,
    /// Why the task ends the whole job, if it does.
    pub(super) abort: Option<String>,
    /// The tasks of this host wait for those of others.
    pub(super) exchange: Option<Exchange>,
}

/// What the tasks of this host have put into the store since the last exchange with other hosts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The number of the exchange, from 1.
    pub(super) round: u32,
    /// Keys and values.
    pub(super) values: Vec<(String, String)>,
}

/// The state of a job.
#[derive(Debug)]
pub(super) struct Wireup {
    name: String,
    size: u32,
    values: HashMap<String, String>,
    /// By rank, the node of a task.
    nodes: Vec<u64>,
    /// Values of a node, which its tasks may wait for.
    of_node: HashMap<(u64, String), String>,
    /// The memory that the values take.
    share: Share,
    /// By rank, whether the task speaks version 2.
    second: Vec<bool>,
    /// The tasks that wait until all do, each with the number of its thread.
    fence: Vec<(u32, Option<String>)>,
    /// The tasks that wait for a value of their node.
    waiting: Vec<(u32, Option<String>, String)>,
    /// The exchange with other hosts, if the job has tasks there.
    across: Option<Across>,
}

/// The exchange with the other hosts of a job.
#[derive(Debug)]
struct Across {
    /// The number of tasks on this host.
    own: usize,
    /// The last exchange.
    round: u32,
    /// What was put since, and the memory that it takes.
    fresh: Vec<(String, String)>,
    bytes: usize,
    /// How much this host may put into one exchange: the values of all hosts come to each of them in one message.
    most: usize,
}

impl Across {
    fn is_full(&self, key: &str, value: &str) -> bool {
        self.bytes + key.len() + value.len() > self.most
    }
}

/// The fields of a request of version 2.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Wireup {
    /// A job whose tasks are on the nodes of this map.
    pub(super) fn new(job: JobId, taskmap: &TaskMap, share: Share) -> Self {
        let size = u32::try_from(taskmap.ntasks()).unwrap_or(u32::MAX);
        let node_of = |rank| taskmap.node_of(u64::from(rank)).unwrap_or(NO_NODE);
        let flux = json!({"version": 1, "map": taskmap.to_value()});
        let places = [(MAPPING, taskmap.to_pmi()), (TASKMAP, flux.to_string())];
        // A map that is too long for a value is left out, as in Flux: a library then assumes that each task is
        // alone on its node.
        let places = places.into_iter().filter(|(_, text)| text.len() <= VALUE);
        Self {
            name: job.as_u64().to_string(),
            size,
            values: places.map(|(key, text)| (key.to_owned(), text)).collect(),
            nodes: (0..size).map(node_of).collect(),
            of_node: HashMap::new(),
            share,
            second: vec![false; size as usize],
            fence: Vec::new(),
            waiting: Vec::new(),
            across: None,
        }
    }

    /// Serves only this number of the job's tasks: the others are on other hosts.
    pub(super) fn for_part(self, own: usize) -> Self {
        let hosts = self.nodes.iter().max().map_or(1, |last| last + 1);
        let most = MOST_ACROSS / usize::try_from(hosts).unwrap_or(usize::MAX).max(1);
        Self { across: Some(Across { own, round: 0, fresh: Vec::new(), bytes: 0, most }), ..self }
    }

    fn node_of(&self, rank: u32) -> u64 {
        self.nodes.get(rank as usize).copied().unwrap_or(NO_NODE)
    }

    /// Handles the first request in `bytes`; `None` if it isn't complete.
    ///
    /// # Errors
    /// The bytes are not a request.
    pub(super) fn next(&mut self, rank: u32, bytes: &[u8]) -> Result<Option<Outcome>, Malformed> {
        match self.second.get(rank as usize) {
            Some(true) => self.next_second(rank, bytes),
            Some(false) => self.next_first(rank, bytes),
            None => Err(Malformed),
        }
    }

    fn next_first(&mut self, rank: u32, bytes: &[u8]) -> Result<Option<Outcome>, Malformed> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = bytes.get(..end).and_then(|line| std::str::from_utf8(line).ok());
        let mut outcome = self.first(rank, line.ok_or(Malformed)?)?;
        outcome.used = end + 1;
        Ok(Some(outcome))
    }

    /// A line of version 1.
    fn first(&mut self, rank: u32, line: &str) -> Result<Outcome, Malformed> {
        // The value is the last field, and the only one that could have blanks.
        let (head, value) = match line.split_once(" value=") {
            Some((head, value)) => (head, Some(value)),
            None => (line, None),
        };
        let field = |name: &str| {
            let fields = head.split_ascii_whitespace().filter_map(|word| word.split_once('='));
            fields.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let mut outcome = Outcome::default();
        let mut say = |text: String| outcome.responses.push((rank, format!("{text}\n").into()));
        let command = field("cmd").or_else(|| field("mcmd")).ok_or(Malformed)?;
        match command {
            "init" => {
                let second = field("pmi_version") == Some("2");
                if let Some(task) = self.second.get_mut(rank as usize) {
                    *task = second;
                }
                let (version, sub) = if second { (2, 0) } else { (1, 1) };
                say(format!(
                    "cmd=response_to_init rc=0 pmi_version={version} pmi_subversion={sub}"
                ));
            }
            "get_maxes" => {
                say(format!("cmd=maxes rc=0 kvsname_max={KEY} keylen_max={KEY} vallen_max={VALUE}"))
            }
            "get_appnum" => say("cmd=appnum rc=0 appnum=0".to_owned()),
            "get_my_kvsname" => say(format!("cmd=my_kvsname rc=0 kvsname={}", self.name)),
            "get_universe_size" => say(format!("cmd=universe_size rc=0 size={}", self.size)),
            "put" => {
                let key = field("key").ok_or(Malformed)?;
                say(match self.put(key, value.unwrap_or_default()) {
                    Ok(()) => "cmd=put_result rc=0 msg=success".to_owned(),
                    Err(why) => format!("cmd=put_result rc=-1 msg={why}"),
                });
            }
            "get" => say(match self.values.get(field("key").ok_or(Malformed)?) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            }),
            "barrier_in" => self.enter(&mut outcome, rank, None)?,
            "finalize" => say("cmd=finalize_ack rc=0".to_owned()),
            "abort" => {
                let why = line.split_once(" error_msg=").map(|(_, text)| text);
                outcome.abort = Some(reason(why));
            }
            "publish_name" => say("cmd=publish_result rc=-1 info=unsupported".to_owned()),
            "unpublish_name" => say("cmd=unpublish_result rc=-1 info=unsupported".to_owned()),
            "lookup_name" => say("cmd=lookup_result rc=-1 info=unsupported".to_owned()),
            _ => return Err(Malformed),
        }
        Ok(outcome)
    }

    fn next_second(&mut self, rank: u32, bytes: &[u8]) -> Result<Option<Outcome>, Malformed> {
        let Some((length, rest)) = bytes.split_at_checked(6) else { return Ok(None) };
        let length: usize = std::str::from_utf8(length)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or(Malformed)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let fields = fields(std::str::from_utf8(body).map_err(|_| Malformed)?);
        let mut outcome = self.second(rank, &fields)?;
        outcome.used = 6 + length;
        Ok(Some(outcome))
    }

    /// A request of version 2.
    fn second(&mut self, rank: u32, fields: &Fields) -> Result<Outcome, Malformed> {
        let command = fields.get("cmd").ok_or(Malformed)?;
        let thread = fields.get("thrid").map(str::to_owned);
        if thread.as_ref().is_some_and(|thread| thread.len() > THREAD) {
            return Err(Malformed);
        }
        let mut outcome = Outcome::default();
        let mut say = |text: &[(&str, &str)]| {
            outcome.responses.push((rank, answer(command, thread.as_deref(), text)));
        };
        match command {
            "fullinit" => {
                let (rank, size) = (rank.to_string(), self.size.to_string());
                say(&[
                    ("pmi-version", "2"),
                    ("pmi-subversion", "0"),
                    ("rank", &rank),
                    ("size", &size),
                    ("appnum", "0"),
                    ("debugged", "FALSE"),
                    ("pmiverbose", "FALSE"),
                    ("rc", "0"),
                ]);
            }
            "job-getid" => say(&[("jobid", &self.name), ("rc", "0")]),
            "info-getjobattr" => {
                let size = self.size.to_string();
                let key = fields.get("key").ok_or(Malformed)?;
                let value = if key == "universeSize" { Some(&size) } else { self.values.get(key) };
                say(&found(value));
            }
            "kvs-put" => {
                let key = fields.get("key").ok_or(Malformed)?;
                match self.put(key, fields.get("value").unwrap_or_default()) {
                    Ok(()) => say(&[("rc", "0")]),
                    Err(why) => say(&[("rc", "-1"), ("errmsg", why)]),
                }
            }
            "kvs-get" => say(&found(self.values.get(fields.get("key").ok_or(Malformed)?))),
            "kvs-fence" => self.enter(&mut outcome, rank, thread)?,
            "info-putnodeattr" => {
                let key = fields.get("key").ok_or(Malformed)?.to_owned();
                let value = fields.get("value").unwrap_or_default().to_owned();
                let node = self.node_of(rank);
                if let Err(why) = self.charge(&key, &value) {
                    say(&[("rc", "-1"), ("errmsg", why)]);
                } else {
                    say(&[("rc", "0")]);
                    let nodes = &self.nodes;
                    let here = |(task, _, name): &mut (u32, Option<String>, String)| {
                        *name == key && nodes.get(*task as usize).is_none_or(|other| *other == node)
                    };
                    for (rank, thread, _) in self.waiting.extract_if(.., here) {
                        let text = found(Some(&value));
                        let response = answer("info-getnodeattr", thread.as_deref(), &text);
                        outcome.responses.push((rank, response));
                    }
                    self.of_node.insert((node, key), value);
                }
            }
            "info-getnodeattr" => {
                let key = fields.get("key").ok_or(Malformed)?;
                let value = self.of_node.get(&(self.node_of(rank), key.to_owned()));
                let waits = self.waiting.iter().filter(|(waiting, ..)| *waiting == rank).count();
                if value.is_some() || fields.get("wait") != Some("TRUE") {
                    say(&found(value));
                } else if key.len() > KEY || waits == WAITS {
                    let why = if key.len() > KEY { "invalid_key_length" } else { "too_many_waits" };
                    say(&[("rc", "-1"), ("errmsg", why)]);
                } else {
                    self.waiting.push((rank, thread, key.to_owned()));
                }
            }
            "finalize" => {
                say(&[("rc", "0")]);
                // A program that the task executes next begins again.
                if let Some(task) = self.second.get_mut(rank as usize) {
                    *task = false;
                }
            }
            "abort" => outcome.abort = Some(reason(fields.get("msg"))),
            // Commands that start other jobs or find them are not served.
            _ => say(&[("rc", "-1"), ("errmsg", "unsupported")]),
        }
        Ok(outcome)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        if self.across.as_ref().is_some_and(|across| across.is_full(key, value)) {
            return Err("no_space");
        }
        self.charge(key, value)?;
        if let Some(across) = &mut self.across {
            across.bytes += key.len() + value.len();
            across.fresh.push((key.to_owned(), value.to_owned()));
        }
        self.values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Counts what is stored, so that a user can't fill the shepherd's memory.
    fn charge(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        if key.is_empty() || key.len() > KEY {
            return Err("invalid_key_length");
        }
        if value.len() > VALUE {
            return Err("invalid_value_length");
        }
        if self.share.take(key.len() + value.len() + ENTRY) { Ok(()) } else { Err("no_space") }
    }

    /// Makes a task wait for all others. When the last one has entered, all of them get responses.
    fn enter(
        &mut self,
        outcome: &mut Outcome,
        rank: u32,
        thread: Option<String>,
    ) -> Result<(), Malformed> {
        if self.fence.iter().any(|(task, _)| *task == rank) {
            return Err(Malformed);
        }
        self.fence.push((rank, thread));
        match &mut self.across {
            None if self.fence.len() == self.size as usize => outcome.responses = self.leave(),
            Some(across) if self.fence.len() == across.own => {
                across.round += 1;
                across.bytes = 0;
                let values = std::mem::take(&mut across.fresh);
                outcome.exchange = Some(Exchange { round: across.round, values });
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the values of the tasks on all hosts. Returns the responses to the tasks that waited for them; none if this
    /// exchange isn't the one that they wait for.
    pub(super) fn exchanged(
        &mut self,
        round: u32,
        values: Vec<(String, String)>,
    ) -> Vec<(u32, Vec<u8>)> {
        let waits = |across: &Across| across.round == round && self.fence.len() == across.own;
        if !self.across.as_ref().is_some_and(waits) {
            return Vec::new();
        }
        for (key, value) in values {
            // Each host has counted its own; a value without room is missing, as where it was put.
            if self.values.contains_key(&key) || self.charge(&key, &value).is_ok() {
                self.values.insert(key, value);
            }
        }
        self.leave()
    }

    /// The responses to the tasks that have waited for each other.
    fn leave(&mut self) -> Vec<(u32, Vec<u8>)> {
        let all = std::mem::take(&mut self.fence);
        let leave = |(rank, thread): (u32, Option<String>)| {
            let response = match self.second.get(rank as usize) {
                Some(true) => answer("kvs-fence", thread.as_deref(), &[("rc", "0")]),
                _ => b"cmd=barrier_out rc=0\n".to_vec(),
            };
            (rank, response)
        };
        all.into_iter().map(leave).collect()
    }
}

/// The fields of a response with a value, which may be missing.
fn found(value: Option<&String>) -> Vec<(&str, &str)> {
    match value {
        Some(value) => vec![("found", "TRUE"), ("value", value.as_str()), ("rc", "0")],
        None => vec![("found", "FALSE"), ("rc", "0")],
    }
}

/// The reason why a job ends, as given by the task that ends it.
fn reason(text: Option<&str>) -> String {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    text.unwrap_or(NO_REASON).chars().take(VALUE).collect()
}

/// The fields of a request of version 2. A semicolon in a value is written twice.
fn fields(body: &str) -> Fields {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut characters = body.chars().peekable();
    while let Some(c) = characters.next() {
        if c != ';' || characters.next_if_eq(&';').is_some() {
            field.push(c);
            continue;
        }
        if let Some((key, value)) = field.split_once('=') {
            fields.push((key.to_owned(), value.to_owned()));
        }
        field.clear();
    }
    Fields(fields)
}

/// A response of version 2.
fn answer(command: &str, thread: Option<&str>, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut body = format!("cmd={command}-response;");
    for (key, value) in thread.map(|thread| ("thrid", thread)).iter().chain(fields) {
        body.push_str(&format!("{key}={};", value.replace(';', ";;")));
    }
    format!("{:6}{body}", body.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::memory::{Memory, OF_USER};
    use super::*;

    /// A job of `size` tasks on one node.
    fn wireup(size: u32) -> Wireup {
        Wireup::new(JobId::new(7), &TaskMap::block(&[size]), Memory::default().share(1))
    }

    /// Sends a request of a task, and returns the responses with the ranks that get them.
    fn send(wireup: &mut Wireup, rank: u32, request: &str) -> Vec<(u32, String)> {
        let outcome = wireup.next(rank, request.as_bytes()).unwrap().unwrap();
        assert_eq!(outcome.used, request.len(), "{request}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        outcome.responses.into_iter().map(|(rank, bytes)| (rank, text(bytes))).collect()
    }

    #[track_caller]
    fn says(wireup: &mut Wireup, rank: u32, request: &str, response: &str) {
        assert_eq!(send(wireup, rank, request), [(rank, response.to_owned())], "{request}");
    }

    fn second(body: &str) -> String {
        format!("{:6}{body}", body.len())
    }

    #[test]
    fn tasks_on_several_hosts_wait_for_each_other() {
        let map = TaskMap::block(&[2, 1]);
        let part = |own| Wireup::new(JobId::new(7), &map, Memory::default().share(1)).for_part(own);
        let (mut first, mut second) = (part(2), part(1));
        let enter = |wireup: &mut Wireup, rank| {
            let outcome = wireup.next(rank, b"cmd=barrier_in\n").unwrap().unwrap();
            assert_eq!(outcome.responses, []);
            outcome.exchange
        };
        send(&mut first, 1, "cmd=put kvsname=7 key=a value=1\n");
        send(&mut second, 2, "cmd=put kvsname=7 key=b value=2\n");
        assert_eq!(enter(&mut first, 0), None);
        let one = enter(&mut first, 1).unwrap();
        let two = enter(&mut second, 2).unwrap();
        assert_eq!((one.round, two.round), (1, 1));
        let all = [one.values, two.values].concat();
        assert_eq!(
            all,
            [("a", "1"), ("b", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert_eq!(first.exchanged(2, all.clone()), [], "another round");
        let out = b"cmd=barrier_out rc=0\n".to_vec();
        assert_eq!(first.exchanged(1, all.clone()), [(0, out.clone()), (1, out.clone())]);
        assert_eq!(first.exchanged(1, all.clone()), [], "once");
        assert_eq!(second.exchanged(1, all), [(2, out)]);
        let found = "cmd=get_result rc=0 msg=success value=2\n";
        says(&mut first, 0, "cmd=get kvsname=7 key=b\n", found);
        // Only what is new is sent on.
        assert_eq!(enter(&mut second, 2).unwrap(), Exchange { round: 2, values: Vec::new() });
    }

    #[test]
    fn what_a_host_puts_into_one_exchange_is_bounded() {
        let map = TaskMap::block(&[1, 1]);
        let part = Wireup::new(JobId::new(7), &map, Memory::default().share(1)).for_part(1);
        let (mut part, value) = (part, "v".repeat(VALUE));
        let mut put = |number: usize| part.put(&format!("{number:06}"), &value);
        let most = MOST_ACROSS / 2 / (VALUE + 6);
        assert!((0..most).all(|number| put(number).is_ok()));
        assert_eq!(put(most), Err("no_space"));
    }

    #[test]
    fn tasks_exchange_values_by_version_1() {
        let job = &mut wireup(2);
        for (request, response) in [
            (
                "cmd=init pmi_version=1 pmi_subversion=1\n",
                "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
            ),
            ("cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=1024\n"),
            ("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n"),
            ("cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=7\n"),
            ("cmd=get_universe_size\n", "cmd=universe_size rc=0 size=2\n"),
            (
                "cmd=get kvsname=7 key=PMI_process_mapping\n",
                "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n",
            ),
            ("cmd=put kvsname=7 key=a value=b c=d\n", "cmd=put_result rc=0 msg=success\n"),
        ] {
            says(job, 0, request, response);
        }
        assert_eq!(send(job, 0, "cmd=barrier_in\n"), []);
        let out = "cmd=barrier_out rc=0\n".to_owned();
        assert_eq!(send(job, 1, "cmd=barrier_in\n"), [(0, out.clone()), (1, out)]);
        says(job, 1, "cmd=get kvsname=7 key=a\n", "cmd=get_result rc=0 msg=success value=b c=d\n");
        says(
            job,
            1,
            "cmd=get kvsname=7 key=x\n",
            "cmd=get_result rc=-1 msg=key_not_found value=unknown\n",
        );
        says(job, 1, "cmd=finalize\n", "cmd=finalize_ack rc=0\n");
        assert_eq!(send(job, 1, "cmd=barrier_in\n"), [], "the next barrier waits for both again");
    }

    #[test]
    fn tasks_exchange_values_by_version_2() {
        let job = &mut wireup(2);
        for rank in [0, 1] {
            says(
                job,
                rank,
                "cmd=init pmi_version=2 pmi_subversion=0\n",
                "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
            );
        }
        for (request, response) in [
            (
                "cmd=fullinit;pmijobid=x;pmirank=0;threaded=TRUE;",
                "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;\
                 debugged=FALSE;pmiverbose=FALSE;rc=0;",
            ),
            ("cmd=job-getid;thrid=5;", "cmd=job-getid-response;thrid=5;jobid=7;rc=0;"),
            (
                "cmd=info-getjobattr;key=PMI_process_mapping;",
                "cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,2));rc=0;",
            ),
            ("cmd=info-getjobattr;key=x;", "cmd=info-getjobattr-response;found=FALSE;rc=0;"),
            ("cmd=kvs-put;key=a;value=b;;c;", "cmd=kvs-put-response;rc=0;"),
            ("cmd=kvs-get;key=a;", "cmd=kvs-get-response;found=TRUE;value=b;;c;rc=0;"),
            ("cmd=spawn;", "cmd=spawn-response;rc=-1;errmsg=unsupported;"),
        ] {
            says(job, 0, &second(request), &second(response));
        }
        assert_eq!(send(job, 0, &second("cmd=kvs-fence;thrid=3;")), []);
        assert_eq!(
            send(job, 1, &second("cmd=kvs-fence;")),
            [
                (0, second("cmd=kvs-fence-response;thrid=3;rc=0;")),
                (1, second("cmd=kvs-fence-response;rc=0;"))
            ]
        );
        // A task waits for a value of its host until another one puts it.
        assert_eq!(send(job, 1, &second("cmd=info-getnodeattr;key=k;wait=TRUE;")), []);
        assert_eq!(
            send(job, 0, &second("cmd=info-putnodeattr;key=k;value=v;")),
            [
                (0, second("cmd=info-putnodeattr-response;rc=0;")),
                (1, second("cmd=info-getnodeattr-response;found=TRUE;value=v;rc=0;"))
            ]
        );
        says(job, 1, &second("cmd=finalize;"), &second("cmd=finalize-response;rc=0;"));
    }

    #[test]
    fn a_task_waits_for_few_values_of_its_host() {
        let job = &mut wireup(2);
        send(job, 0, "cmd=init pmi_version=2 pmi_subversion=0\n");
        let wait = |key: &str| second(&format!("cmd=info-getnodeattr;key={key};wait=TRUE;"));
        let refused =
            |why: &str| second(&format!("cmd=info-getnodeattr-response;rc=-1;errmsg={why};"));
        says(job, 0, &wait(&"k".repeat(257)), &refused("invalid_key_length"));
        for number in 0..WAITS {
            assert_eq!(send(job, 0, &wait(&format!("k{number}"))), []);
        }
        says(job, 0, &wait("k"), &refused("too_many_waits"));
        let long = second(&format!("cmd=kvs-fence;thrid={};", "5".repeat(65)));
        assert_eq!(job.next(0, long.as_bytes()), Err(Malformed));
    }

    #[test]
    fn tasks_learn_which_of_them_share_a_node() {
        let value = |map: &TaskMap, key: &str| {
            let mut job = Wireup::new(JobId::new(7), map, Memory::default().share(1));
            send(&mut job, 0, &format!("cmd=get kvsname=7 key={key}\n")).remove(0).1
        };
        let found = |text: &str| format!("cmd=get_result rc=0 msg=success value={text}\n");
        let cyclic = TaskMap::cyclic(&[2, 2], 1);
        assert_eq!(value(&cyclic, MAPPING), found("(vector,(0,2,1),(0,2,1))"));
        assert_eq!(value(&cyclic, TASKMAP), found(r#"{"version":1,"map":[[0,2,1,2]]}"#));
        // A map that is too long for a value.
        let scattered = TaskMap::of_nodes((0..1000).map(|task| task * task % 7));
        assert!(value(&scattered, MAPPING).contains("key_not_found"));
    }

    #[test]
    fn values_of_a_node_are_for_its_tasks_alone() {
        let map = TaskMap::block(&[1, 2]);
        let job = &mut Wireup::new(JobId::new(7), &map, Memory::default().share(1));
        for rank in 0..3 {
            send(job, rank, "cmd=init pmi_version=2 pmi_subversion=0\n");
        }
        let get = second("cmd=info-getnodeattr;key=k;wait=TRUE;");
        assert_eq!((send(job, 0, &get), send(job, 2, &get)), (vec![], vec![]), "both wait");
        let found = second("cmd=info-getnodeattr-response;found=TRUE;value=v;rc=0;");
        let put = second("cmd=info-putnodeattr;key=k;value=v;");
        let done = second("cmd=info-putnodeattr-response;rc=0;");
        assert_eq!(send(job, 1, &put), [(1, done.clone()), (2, found.clone())]);
        assert_eq!(send(job, 0, &put), [(0, done), (0, found)]);
    }

    #[test]
    fn an_abort_has_the_text_of_the_task() {
        let job = &mut wireup(2);
        let mut why = |request: &str| {
            let outcome = job.next(1, request.as_bytes()).unwrap().unwrap();
            assert_eq!(outcome.responses.len(), 0);
            outcome.abort.unwrap()
        };
        assert_eq!(why("cmd=abort exitcode=42\n"), "aborted");
        assert_eq!(why("cmd=abort exitcode=42 error_msg=no x=1 left \n"), "no x=1 left");
        assert_eq!(why(&format!("cmd=abort error_msg={}\n", "x".repeat(5000))).len(), VALUE);
        send(job, 1, "cmd=init pmi_version=2 pmi_subversion=0\n");
        let outcome = job.next(1, second("cmd=abort;isworld=TRUE;msg=a;;b;").as_bytes());
        assert_eq!(outcome.unwrap().unwrap().abort.as_deref(), Some("a;b"));
    }

    #[test]
    fn a_task_that_runs_a_second_program_begins_again() {
        let job = &mut wireup(1);
        for version in ["2", "1"] {
            send(job, 0, &format!("cmd=init pmi_version={version} pmi_subversion=0\n"));
            let finalize =
                if version == "2" { second("cmd=finalize;") } else { "cmd=finalize\n".to_owned() };
            send(job, 0, &finalize);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_stored() {
        let job = &mut wireup(2);
        let put = |key: usize, value: usize| {
            format!("cmd=put kvsname=7 key={} value={}\n", "k".repeat(key), "v".repeat(value))
        };
        says(job, 0, &put(256, 1024), "cmd=put_result rc=0 msg=success\n");
        says(job, 0, &put(257, 1), "cmd=put_result rc=-1 msg=invalid_key_length\n");
        says(job, 0, &put(1, 1025), "cmd=put_result rc=-1 msg=invalid_value_length\n");
        assert!(job.share.take(OF_USER - 256 - 1024 - ENTRY));
        says(job, 0, &put(1, 1), "cmd=put_result rc=-1 msg=no_space\n");
    }

    #[test]
    fn a_task_cannot_enter_a_barrier_twice() {
        let job = &mut wireup(2);
        assert_eq!(send(job, 0, "cmd=barrier_in\n"), []);
        assert_eq!(job.next(0, b"cmd=barrier_in\n"), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_served_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            version in 1..=2,
        ) {
            let mut job = wireup(2);
            send(&mut job, 0, &format!("cmd=init pmi_version={version} pmi_subversion=0\n"));
            let used = job.next(0, &bytes).ok().flatten().map_or(0, |outcome| outcome.used);
            prop_assert!(used <= bytes.len());
        }

        #[test]
        fn values_of_version_2_come_back_as_they_were(value in "[^\\n]{0,50}") {
            let mut job = wireup(2);
            send(&mut job, 0, "cmd=init pmi_version=2 pmi_subversion=0\n");
            let escaped = value.replace(';', ";;");
            send(&mut job, 0, &second(&format!("cmd=kvs-put;key=a;value={escaped};")));
            prop_assert_eq!(job.values.get("a"), Some(&value));
        }
    }
}
