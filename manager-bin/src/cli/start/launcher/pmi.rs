//! A client of PMI-1's wire protocol, which `mpiexec` of MPICH, Flux and Slurm's `--mpi=pmi2` all serve.
//!
//! A request is a line, and so is its response: `cmd=get kvsname=K key=K`, `cmd=get_result rc=0 value=V`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use jobtap_core::job::TaskMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a response may take that needs nobody else.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest piece of a value. Slurm takes no request of more than 1,024 bytes, although it says that a value alone may
/// have as many.
const PIECE: usize = 512;

/// The key under which launchers say which node each task is on.
const MAPPING: &str = "PMI_process_mapping";

/// The longest response.
const LONGEST: usize = 64 << 10;

/// PMI doesn't work.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli::start) enum PmiError {
    /// The environment is incomplete.
    #[error("{0} is missing, or no number that makes sense")]
    Variable(&'static str),
    /// The connection is broken.
    #[error("no connection: {0}")]
    Io(#[from] io::Error),
    /// Nothing came.
    #[error("no response to {request:?} within {} s: not all tasks have started", .limit.as_secs())]
    Silent {
        /// The request.
        request: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A response that isn't one.
    #[error("{response:?} is no response to {request:?}")]
    Unexpected {
        /// The request.
        request: String,
        /// What came.
        response: String,
    },
}

/// A connection to the launcher.
pub(in crate::cli::start) struct Pmi {
    file: File,
    unread: Vec<u8>,
    rank: u32,
    size: u32,
    name: String,
    /// The longest value.
    most: usize,
}

impl Pmi {
    /// Begins to use this connection, for the task that the environment names.
    pub(super) fn connect_as_told(file: File) -> Result<Self, PmiError> {
        let variable = |name: &'static str| {
            let value = std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
            value.ok_or(PmiError::Variable(name))
        };
        let (rank, size) = (variable("PMI_RANK")?, variable("PMI_SIZE")?);
        if rank >= size {
            return Err(PmiError::Variable("PMI_RANK"));
        }
        Self::connect(file, rank, size)
    }

    pub(super) fn connect(file: File, rank: u32, size: u32) -> Result<Self, PmiError> {
        let mut pmi = Self { file, unread: Vec::new(), rank, size, name: String::new(), most: 0 };
        pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", PATIENCE)?;
        let maxes = pmi.ask("cmd=get_maxes", "maxes", PATIENCE)?;
        pmi.most = maxes.get("vallen_max").and_then(|most| most.parse().ok()).unwrap_or(256);
        let name = pmi.ask("cmd=get_my_kvsname", "my_kvsname", PATIENCE)?;
        pmi.name = name.get("kvsname").unwrap_or_default().to_owned();
        Ok(pmi)
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Stores a value for the other tasks, who can read it after the next barrier. It must have no blanks. One that is
    /// longer than a value may be is stored in pieces.
    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let most = self.most.saturating_sub(8).clamp(1, PIECE);
        let pieces: Vec<&[u8]> = value.as_bytes().chunks(most).collect();
        self.put_one(&format!("{key}.n"), &pieces.len().to_string())?;
        for (number, piece) in pieces.into_iter().enumerate() {
            self.put_one(&format!("{key}.{number}"), &String::from_utf8_lossy(piece))?;
        }
        Ok(())
    }

    fn put_one(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.name);
        self.ask(&request, "put_result", PATIENCE).map(drop)
    }

    /// Reads a value that a task has stored.
    pub(super) fn get(&mut self, key: &str) -> Result<String, PmiError> {
        let pieces = self.get_one(&format!("{key}.n"))?;
        let pieces: u32 = pieces
            .parse()
            .map_err(|_| PmiError::Unexpected { request: key.to_owned(), response: pieces })?;
        (0..pieces).map(|number| self.get_one(&format!("{key}.{number}"))).collect()
    }

    fn get_one(&mut self, key: &str) -> Result<String, PmiError> {
        let request = format!("cmd=get kvsname={} key={key}", self.name);
        let response = self.ask(&request, "get_result", PATIENCE)?;
        Ok(response.get("value").unwrap_or_default().to_owned())
    }

    /// The nodes of the tasks, if the launcher names them all.
    pub(super) fn task_map(&mut self) -> Option<TaskMap> {
        // A launcher that doesn't know the key responds with an error. What else is wrong, the next request shows, too.
        let map: TaskMap = self.get_one(MAPPING).ok()?.parse().ok()?;
        (map.ntasks() == u64::from(self.size)).then_some(map)
    }

    /// Waits until all tasks have come here.
    pub(super) fn barrier(&mut self, limit: Duration) -> Result<(), PmiError> {
        self.ask("cmd=barrier_in", "barrier_out", limit).map(drop)
    }

    /// Says that PMI isn't used any more.
    pub(super) fn finalize(mut self) -> Result<(), PmiError> {
        self.ask("cmd=finalize", "finalize_ack", PATIENCE).map(drop)
    }

    fn ask(
        &mut self,
        request: &str,
        expected: &str,
        limit: Duration,
    ) -> Result<Response, PmiError> {
        self.file.write_all(format!("{request}\n").as_bytes())?;
        let line = self.line(request, limit)?;
        let response = Response(line);
        let fits = response.get("cmd") == Some(expected)
            && response.get("rc").is_none_or(|code| code == "0");
        match fits {
            true => Ok(response),
            // The request may have the identity of the instance, which is not for a log.
            false => Err(PmiError::Unexpected {
                request: request.split(" value=").next().unwrap_or_default().to_owned(),
                response: response.0,
            }),
        }
    }

    fn line(&mut self, request: &str, limit: Duration) -> Result<String, PmiError> {
        let until = Instant::now() + limit;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=end).collect();
                line.pop();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if self.unread.len() > LONGEST {
                return Err(io::Error::from(io::ErrorKind::InvalidData).into());
            }
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut ready, Some(&left)).map_err(io::Error::from)? == 0 {
                let request = request.split(' ').next().unwrap_or_default().to_owned();
                return Err(PmiError::Silent { request, limit });
            }
            let mut bytes = [0; 4096];
            match self.file.read(&mut bytes)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                count => self.unread.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            }
        }
    }
}

/// A line of fields, `cmd=maxes vallen_max=1024`.
struct Response(String);

impl Response {
    fn get(&self, name: &str) -> Option<&str> {
        let fields = self.0.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        fields.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A launcher that serves one task, whose values may have so many bytes.
    fn launcher(most: usize) -> Pmi {
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut values: HashMap<String, String> = HashMap::new();
            let mut write = there.try_clone().unwrap();
            for line in BufReader::new(there).lines() {
                let line = Response(line.unwrap());
                let key = line.get("key").unwrap_or_default().to_owned();
                let response = match line.get("cmd").unwrap() {
                    "init" => "cmd=response_to_init rc=0".to_owned(),
                    "get_maxes" => format!("cmd=maxes rc=0 vallen_max={most}"),
                    "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=k".to_owned(),
                    "put" => {
                        let value = line.get("value").unwrap().to_owned();
                        assert!(value.len() < most, "{value}");
                        values.insert(key, value);
                        "cmd=put_result rc=0".to_owned()
                    }
                    "get" => match values.get(&key) {
                        Some(value) => format!("cmd=get_result rc=0 value={value}"),
                        None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
                    },
                    "finalize" => "cmd=finalize_ack rc=0".to_owned(),
                    _ => continue,
                };
                writeln!(write, "{response}").unwrap();
            }
        });
        Pmi::connect(File::from(OwnedFd::from(here)), 0, 1).unwrap()
    }

    #[test]
    fn long_values_come_in_pieces() {
        let mut pmi = launcher(64);
        let value = "abc=".repeat(100);
        pmi.put("a", &value).unwrap();
        assert_eq!(pmi.get("a").unwrap(), value);
        pmi.finalize().unwrap();
    }

    #[test]
    fn a_missing_value_and_a_silent_launcher_are_errors() {
        let mut pmi = launcher(64);
        let missing = pmi.get("b").unwrap_err().to_string();
        assert!(missing.contains("key_not_found"), "{missing}");
        let silent = pmi.barrier(Duration::from_millis(1)).unwrap_err();
        assert!(silent.to_string().contains("not all tasks have started"), "{silent}");
    }
}
