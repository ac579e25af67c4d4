//! A process that uses PMI: one of a job's tasks, or alone.

use super::alone::Values;
use super::client::{Client, KEY, Most, Socket, VALUE};
use super::error::Error;
use super::mapping::Mapping;
use super::text::{Text, decimal};

/// The key whose value says which tasks share a node.
const MAPPING: &[u8] = b"PMI_process_mapping";

/// The mapping and the name of a process that is alone.
const ALONE: &[u8] = b"(vector,(0,1,1))";
const OWN_NAME: &[u8] = b"singleton";

/// A process that has initialized PMI.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one, and nothing is allocated")]
pub(crate) enum Process<S> {
    Alone(Values),
    Task { client: Client<S>, rank: i32, size: i32 },
}

impl<S: Socket> Process<S> {
    pub(crate) const ALONE: Self = Self::Alone(Values::EMPTY);

    /// Creates the task with this rank in a job of `size` tasks.
    pub(crate) fn task(socket: S, rank: i32, size: i32) -> Result<Self, Error> {
        if !(0..size).contains(&rank) {
            return Err(Error::Fail);
        }
        Ok(Self::Task { client: Client::start(socket)?, rank, size })
    }

    pub(crate) fn rank(&self) -> i32 {
        match self {
            Self::Alone(_) => 0,
            Self::Task { rank, .. } => *rank,
        }
    }

    pub(crate) fn size(&self) -> i32 {
        match self {
            Self::Alone(_) => 1,
            Self::Task { size, .. } => *size,
        }
    }

    pub(crate) fn universe_size(&mut self) -> Result<i32, Error> {
        match self {
            Self::Alone(_) => Ok(1),
            Self::Task { client, .. } => client.universe_size(),
        }
    }

    pub(crate) fn application(&mut self) -> Result<i32, Error> {
        match self {
            Self::Alone(_) => Ok(0),
            Self::Task { client, .. } => client.application(),
        }
    }

    /// The name under which the tasks share their values.
    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Self::Alone(_) => OWN_NAME,
            Self::Task { client, .. } => client.name(),
        }
    }

    pub(crate) fn most(&self) -> Most {
        match self {
            Self::Alone(_) => Most::OWN,
            Self::Task { client, .. } => client.most(),
        }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check_key(key)?;
        if value.len() > self.most().value {
            return Err(Error::ValueLength);
        }
        // In a request the value ends at the end of the line.
        if value.contains(&b'\n') || core::str::from_utf8(value).is_err() {
            return Err(Error::Value);
        }
        match self {
            Self::Alone(values) => values.put(key, value),
            Self::Task { client, .. } => client.put(key, value),
        }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<&[u8], Error> {
        self.check_key(key)?;
        match self {
            Self::Alone(_) if key == MAPPING => Ok(ALONE),
            Self::Alone(values) => values.get(key).ok_or(Error::Key),
            Self::Task { client, .. } => client.get(key),
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        if key.is_empty() || key.len() > self.most().key {
            return Err(Error::KeyLength);
        }
        // Blanks and `=` would start another field of the request.
        let fits = |byte: &u8| byte.is_ascii_graphic() && *byte != b'=';
        key.iter().all(fits).then_some(()).ok_or(Error::Key)
    }

    pub(crate) fn barrier(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(_) => Ok(()),
            Self::Task { client, .. } => client.barrier(),
        }
    }

    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        match self {
            Self::Alone(_) => Ok(()),
            Self::Task { client, .. } => client.finish(),
        }
    }

    /// Calls `take` with the rank of each task on this process's node, until `take` returns false. If the job has no
    /// valid mapping, that is only the process's own rank.
    pub(crate) fn clique(&mut self, mut take: impl FnMut(i32) -> bool) -> Result<(), Error> {
        let (rank, size) = (self.rank(), self.size());
        let text = self.mapping()?;
        let mapping = text.as_ref().and_then(|text| Mapping::parse(text.bytes()));
        match mapping.and_then(|mapping| Some((mapping, mapping.node(rank, size)?))) {
            Some((mapping, node)) => mapping.tasks(node, size, take),
            None => {
                take(rank);
            }
        }
        Ok(())
    }

    fn mapping(&mut self) -> Result<Option<Text<VALUE>>, Error> {
        match self.get(MAPPING) {
            Ok(text) => Ok(Text::concat(&[text])),
            Err(Error::Key) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the key of a value that the tasks on this process's node share.
    pub(crate) fn node_key(&mut self, name: &[u8]) -> Result<Text<KEY>, Error> {
        let (rank, size) = (self.rank(), self.size());
        let text = self.mapping()?;
        let mapping = text.as_ref().and_then(|text| Mapping::parse(text.bytes()));
        let node = mapping.and_then(|mapping| mapping.node(rank, size)).unwrap_or(0);
        Text::concat(&[b"node-", decimal(node).bytes(), b".", name]).ok_or(Error::KeyLength)
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::tests::{START, Scripted};
    use super::*;

    fn task(rank: i32, answers: &[&str]) -> Box<Process<Scripted>> {
        let socket = Scripted::new(&[&START, answers].concat());
        Box::new(Process::task(socket, rank, 4).unwrap())
    }

    fn clique(process: &mut Process<Scripted>) -> Vec<i32> {
        let mut found = Vec::new();
        let all = process.clique(|rank| {
            found.push(rank);
            true
        });
        all.unwrap();
        found
    }

    #[test]
    fn a_process_that_is_alone_has_its_own_values() {
        let mut alone = Box::new(Process::<Scripted>::ALONE);
        assert_eq!((alone.rank(), alone.size(), alone.universe_size()), (0, 1, Ok(1)));
        alone.put(b"key", b"value").unwrap();
        assert_eq!(alone.get(b"key"), Ok(&b"value"[..]));
        assert_eq!(alone.get(b"other"), Err(Error::Key));
        assert_eq!(clique(&mut alone), [0]);
        assert_eq!((alone.barrier(), alone.finish()), (Ok(()), Ok(())));
    }

    #[test]
    fn the_clique_is_the_tasks_on_the_same_node() {
        let says = "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))\n";
        assert_eq!(clique(&mut task(1, &[says])), [1, 3]);
        let unknown = "cmd=get_result rc=-1 msg=key_not_found\n";
        assert_eq!(clique(&mut task(1, &[unknown])), [1]);
        assert_eq!(clique(&mut task(1, &["cmd=get_result rc=0 value=(x\n"])), [1]);
        assert_eq!(task(3, &[says]).node_key(b"a").unwrap().bytes(), b"node-1.a");
    }

    #[test]
    fn what_cannot_be_in_a_line_is_refused_before_it_is_sent() {
        let mut task = task(0, &[]);
        for (key, value, error) in [
            (&b""[..], &b"v"[..], Error::KeyLength),
            (&[b'k'; 257], b"v", Error::KeyLength),
            (b"a b", b"v", Error::Key),
            (b"a=b", b"v", Error::Key),
            (b"a\n", b"v", Error::Key),
            (b"a\xff", b"v", Error::Key),
            (b"a", b"v\ncmd=abort exitcode=0", Error::Value),
            (b"a", b"\xff", Error::Value),
            (b"a", &[b'v'; 1025], Error::ValueLength),
        ] {
            assert_eq!(task.put(key, value), Err(error));
        }
        assert_eq!(task.node_key(&[b'n'; 300]).unwrap_err(), Error::Fail, "nobody answers");
    }

    #[test]
    fn a_rank_that_is_none_of_the_job_is_refused() {
        for (rank, size) in [(4, 4), (-1, 4), (0, 0), (0, -1)] {
            assert!(Process::task(Scripted::new(&START), rank, size).is_err());
        }
    }
}
