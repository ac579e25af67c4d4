//! Requests over the socket of a process, and their responses.
//!
//! Each is a line: the response to `cmd=get kvsname=7 key=a` is `cmd=get_result rc=0 value=b`. After an invalid
//! response the client sends no more requests, since it could no longer match responses to requests.

use super::error::Error;
use super::text::{Text, decimal, number, split_once};

/// The maximum lengths of names, keys and values in bytes.
pub(crate) const NAME: usize = 256;
pub(crate) const KEY: usize = 256;
pub(crate) const VALUE: usize = 1024;

/// The maximum length of a line, which is a request or a response.
pub(crate) const LINE: usize = 2048;

/// The connection to the other end, which responds to requests.
pub(crate) trait Socket {
    /// Sends all bytes.
    fn send(&self, bytes: &[u8]) -> Result<(), Error>;

    /// Waits until there is something to receive, and returns the number of bytes written to `buffer`.
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error>;
}

#[derive(Debug)]
pub(crate) struct Client<S> {
    socket: S,
    /// The last response, and what was received after it.
    input: [u8; LINE],
    /// The length of the last response in `input`, including its newline, and the number of bytes received in all.
    taken: usize,
    received: usize,
    broken: bool,
    name: Text<NAME>,
    most: Most,
}

/// The maximum lengths that the other end allows, without the terminating NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) name: usize,
    pub(crate) key: usize,
    pub(crate) value: usize,
}

impl Most {
    /// The limits of this library's own buffers.
    pub(crate) const OWN: Self = Self { name: NAME, key: KEY, value: VALUE };
}

/// A line that is a response.
#[derive(Clone, Copy, Debug)]
struct Answer<'l>(&'l [u8]);

impl<'l> Answer<'l> {
    /// Returns a field that can't contain blanks.
    fn field(self, name: &[u8]) -> Option<&'l [u8]> {
        let head = split_once(self.0, b" value=").map_or(self.0, |(head, _)| head);
        let words = head.split(|byte| *byte == b' ');
        let mut fields = words.filter_map(|word| split_once(word, b"="));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn number(self, name: &[u8]) -> Option<i32> {
        self.field(name).and_then(number)
    }

    /// Returns the value, which is the last field and may contain blanks.
    fn value(self) -> Option<&'l [u8]> {
        split_once(self.0, b" value=").map(|(_, value)| value)
    }

    /// Whether the request succeeded. Some responses have no `rc`, which counts as success.
    fn served(self) -> bool {
        self.field(b"rc").is_none_or(|rc| rc == b"0")
    }
}

impl<S: Socket> Client<S> {
    /// Introduces the process to the other end.
    pub(crate) fn start(socket: S) -> Result<Self, Error> {
        let mut client = Self {
            socket,
            input: [0; LINE],
            taken: 0,
            received: 0,
            broken: false,
            name: Text::EMPTY,
            most: Most::OWN,
        };
        let version: &[&[u8]] = &[b"cmd=init pmi_version=1 pmi_subversion=1"];
        let answer = client.ask(version, b"response_to_init")?;
        if !answer.served() || answer.number(b"pmi_version") != Some(1) {
            return Err(Error::Fail);
        }
        let answer = client.ask(&[b"cmd=get_maxes"], b"maxes")?;
        let most = |name: &[u8], own: usize| {
            let theirs = answer.number(name).and_then(|most| usize::try_from(most).ok());
            theirs.filter(|most| *most > 0).map(|most| most.min(own)).ok_or(Error::Fail)
        };
        client.most = Most {
            name: most(b"kvsname_max", NAME)?,
            key: most(b"keylen_max", KEY)?,
            value: most(b"vallen_max", VALUE)?,
        };
        let answer = client.ask(&[b"cmd=get_my_kvsname"], b"my_kvsname")?;
        let name = answer.field(b"kvsname").and_then(|name| Text::concat(&[name]));
        client.name = name.ok_or(Error::Fail)?;
        Ok(client)
    }

    /// The name under which the job's tasks share values.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.bytes()
    }

    pub(crate) fn most(&self) -> Most {
        self.most
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let name = self.name.clone();
        let request: &[&[u8]] =
            &[b"cmd=put kvsname=", name.bytes(), b" key=", key, b" value=", value];
        self.ask(request, b"put_result")?.served().then_some(()).ok_or(Error::Fail)
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<&[u8], Error> {
        let name = self.name.clone();
        let request: &[&[u8]] = &[b"cmd=get kvsname=", name.bytes(), b" key=", key];
        let answer = self.ask(request, b"get_result")?;
        if !answer.served() {
            return Err(Error::Key);
        }
        answer.value().ok_or(Error::Fail)
    }

    /// Waits until all tasks of the job have entered the barrier.
    pub(crate) fn barrier(&mut self) -> Result<(), Error> {
        let answer = self.ask(&[b"cmd=barrier_in"], b"barrier_out")?;
        answer.served().then_some(()).ok_or(Error::Fail)
    }

    pub(crate) fn universe_size(&mut self) -> Result<i32, Error> {
        let answer = self.ask(&[b"cmd=get_universe_size"], b"universe_size")?;
        answer.number(b"size").filter(|_| answer.served()).ok_or(Error::Fail)
    }

    pub(crate) fn application(&mut self) -> Result<i32, Error> {
        let answer = self.ask(&[b"cmd=get_appnum"], b"appnum")?;
        answer.number(b"appnum").filter(|_| answer.served()).ok_or(Error::Fail)
    }

    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.ask(&[b"cmd=finalize"], b"finalize_ack")?;
        Ok(())
    }

    /// Sends a request and waits for its response, whose `cmd` must be `answer`.
    fn ask(&mut self, request: &[&[u8]], answer: &[u8]) -> Result<Answer<'_>, Error> {
        if self.broken {
            return Err(Error::Fail);
        }
        let mut line = Text::<LINE>::concat(request).ok_or(Error::Length)?;
        line.push(b"\n").ok_or(Error::Length)?;
        // Cleared only if the expected response arrives.
        self.broken = true;
        self.socket.send(line.bytes())?;
        let length = self.receive_line()?;
        let line = Answer(self.input.get(..length).unwrap_or_default());
        if line.field(b"cmd") != Some(answer) {
            return Err(Error::Fail);
        }
        self.broken = false;
        Ok(line)
    }

    /// Receives a line into the beginning of `input` and returns its length without the newline.
    fn receive_line(&mut self) -> Result<usize, Error> {
        self.input.copy_within(self.taken..self.received, 0);
        self.received -= self.taken;
        self.taken = 0;
        loop {
            let there = self.input.get(..self.received).unwrap_or_default();
            if let Some(end) = there.iter().position(|byte| *byte == b'\n') {
                self.taken = end + 1;
                return Ok(end);
            }
            let room = self.input.get_mut(self.received..).unwrap_or_default();
            // A line that doesn't fit into the buffer is an error, and so is the end of the stream.
            let most = room.len();
            let received = if most == 0 { 0 } else { self.socket.receive(room)? };
            if received == 0 || received > most {
                return Err(Error::Fail);
            }
            self.received += received;
        }
    }
}

/// Returns the request to abort the whole job, with a text that says why. Control characters become blanks; the text is
/// cut off before a byte that isn't UTF-8.
pub(crate) fn abort_request(exit_code: i32, why: &[u8]) -> Text<LINE> {
    let mut line = Text::EMPTY;
    let _ = line.push(b"cmd=abort exitcode=");
    let _ = line.push(decimal(exit_code).bytes());
    let why = utf8(why.get(..VALUE).unwrap_or(why)).trim_ascii();
    if !why.is_empty() {
        let _ = line.push(b" error_msg=");
        for byte in why {
            let _ = line.push(&[if byte.is_ascii_control() { b' ' } else { *byte }]);
        }
    }
    let _ = line.push(b"\n");
    line
}

/// Returns the longest prefix of a text that is UTF-8.
fn utf8(text: &[u8]) -> &[u8] {
    match core::str::from_utf8(text) {
        Ok(_) => text,
        Err(error) => text.get(..error.valid_up_to()).unwrap_or_default(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A socket whose other end responds to each request with the next of `answers`.
    #[derive(Debug, Default)]
    pub(crate) struct Scripted {
        answers: RefCell<VecDeque<Vec<u8>>>,
        pending: RefCell<Vec<u8>>,
        pub(crate) requests: RefCell<Vec<String>>,
        /// The maximum number of bytes received at once.
        step: Cell<usize>,
    }

    pub(crate) const START: [&str; 3] = [
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=1024\n",
        "cmd=my_kvsname rc=0 kvsname=7\n",
    ];

    impl Scripted {
        pub(crate) fn new(answers: &[&str]) -> Self {
            let answers = answers.iter().map(|answer| answer.as_bytes().to_vec()).collect();
            let socket = Self { answers: RefCell::new(answers), ..Self::default() };
            socket.step.set(3);
            socket
        }

        /// Returns a client that has been started and then gets these responses.
        pub(crate) fn started(answers: &[&str]) -> Client<Self> {
            Client::start(Self::new(&[&START, answers].concat())).unwrap()
        }
    }

    impl Socket for Scripted {
        fn send(&self, bytes: &[u8]) -> Result<(), Error> {
            self.requests.borrow_mut().push(String::from_utf8(bytes.to_vec()).unwrap());
            let answer = self.answers.borrow_mut().pop_front().unwrap_or_default();
            self.pending.borrow_mut().extend(answer);
            Ok(())
        }

        fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
            let mut pending = self.pending.borrow_mut();
            let size = self.step.get().min(pending.len()).min(buffer.len());
            buffer[..size].copy_from_slice(&pending[..size]);
            pending.drain(..size);
            Ok(size)
        }
    }

    #[test]
    fn values_with_blanks_come_as_they_are() {
        let mut client = Scripted::started(&[
            "cmd=put_result rc=0 msg=success\n",
            "cmd=get_result rc=0 msg=success value=b c=d value=e\n",
            "cmd=get_result rc=-1 msg=key_not_found value=unknown\n",
        ]);
        client.put(b"a", b"b c").unwrap();
        assert_eq!(client.get(b"a").unwrap(), b"b c=d value=e");
        assert_eq!(client.get(b"x"), Err(Error::Key));
        let requests = client.socket.requests.borrow()[3..].join("");
        assert_eq!(
            requests,
            "cmd=put kvsname=7 key=a value=b c\ncmd=get kvsname=7 key=a\ncmd=get kvsname=7 key=x\n"
        );
    }

    #[test]
    fn after_a_wrong_answer_nothing_more_is_asked() {
        for wrong in ["cmd=put_result rc=0\n", "\n", "x", "", "cmd=barrier_out", "\0\0\n"] {
            let mut client = Scripted::started(&[wrong, "cmd=barrier_out rc=0\n"]);
            assert_eq!(client.barrier(), Err(Error::Fail), "{wrong:?}");
            assert_eq!(client.barrier(), Err(Error::Fail), "{wrong:?}");
            assert_eq!(client.socket.requests.borrow().len(), START.len() + 1);
        }
        let long = format!("cmd=barrier_out x={}\n", "x".repeat(LINE));
        assert_eq!(Scripted::started(&[&long]).barrier(), Err(Error::Fail));
    }

    #[test]
    fn an_introduction_without_what_it_needs_fails() {
        let [init, maxes, name] = START;
        for answers in [
            ["cmd=response_to_init rc=-1\n", maxes, name],
            ["cmd=response_to_init rc=0 pmi_version=2\n", maxes, name],
            [init, "cmd=maxes kvsname_max=256 keylen_max=0 vallen_max=1024\n", name],
            [init, "cmd=maxes kvsname_max=256 keylen_max=-5 vallen_max=x\n", name],
            [init, maxes, "cmd=my_kvsname rc=0\n"],
        ] {
            assert!(Client::start(Scripted::new(&answers)).is_err(), "{answers:?}");
        }
        let long = format!("cmd=my_kvsname kvsname={}\n", "n".repeat(NAME + 1));
        assert!(Client::start(Scripted::new(&[init, maxes, &long])).is_err());
        let large = "cmd=maxes kvsname_max=99999 keylen_max=64 vallen_max=99999\n";
        let client = Client::start(Scripted::new(&[init, large, name])).unwrap();
        assert_eq!(client.most(), Most { name: NAME, key: 64, value: VALUE });
    }

    #[test]
    fn an_abort_is_one_line_whatever_its_text_is() {
        let line = |why: &[u8]| String::from_utf8(abort_request(3, why).bytes().to_vec()).unwrap();
        assert_eq!(line(b""), "cmd=abort exitcode=3\n");
        assert_eq!(line(b"no\nway: 1=2\n"), "cmd=abort exitcode=3 error_msg=no way: 1=2\n");
        assert_eq!(line(b"no \xff way"), "cmd=abort exitcode=3 error_msg=no\n");
        assert!(line(&[b'x'; 5000]).len() < LINE);
    }

    proptest! {
        #[test]
        fn any_answers_are_taken_or_refused(
            answers in proptest::collection::vec("(cmd=(get_result|barrier_out|x))?[ -~\n]{0,40}\n?", 0..4),
        ) {
            let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
            let mut client = Scripted::started(&answers);
            for _ in 0..4 {
                if client.broken {
                    prop_assert_eq!(client.barrier(), Err(Error::Fail));
                }
                let _ = client.get(b"a").map(<[u8]>::len);
            }
        }
    }
}
