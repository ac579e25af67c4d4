//! The processes of plugins in a test. They succeed at once, or end when and how the test tells them to.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use super::manager::TestManager;
use crate::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use crate::job::WaitStatus;
use crate::plugin::{OutputLine, Process, ProcessEnd, ProcessError, Stream};

/// The processes that are waiting, running, and have been started.
#[derive(Debug, Default)]
pub(super) struct Processes {
    hold: bool,
    /// How processes end that end at once; `None` is success.
    pub(super) end: Option<ProcessEnd>,
    /// The limit of running processes; `None` for no limit.
    slots: Option<usize>,
    waiting: BTreeMap<ProcessKey, Running>,
    started: Vec<Process>,
    running: BTreeMap<ProcessKey, Running>,
}

#[derive(Debug)]
struct Running {
    plugin: PluginKey,
    process: Process,
    lines: Option<LineSink>,
    answer: ProcessAnswer,
    signals: Vec<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Running {
    /// Prints a line: the plugin gets it at once if it asked for lines, and with the end in any case.
    fn print(&mut self, stream: Stream, text: &str) {
        let printed = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        printed.extend_from_slice(text.as_bytes());
        printed.push(b'\n');
        if let Some(lines) = &self.lines {
            for line in text.split('\n') {
                lines.send(OutputLine { stream, text: line.to_owned() });
            }
        }
    }

    fn end(self, status: WaitStatus) {
        let Self { answer, stdout, stderr, .. } = self;
        answer.send(Ok(ProcessEnd { status, stdout, stderr }));
    }
}

impl Processes {
    pub(super) fn follow(&mut self, plugin: PluginKey, command: ProcessCommand) {
        match command {
            ProcessCommand::Run { key, process, lines, answer } => {
                let (signals, stdout, stderr) = Default::default();
                let waiting = Running { plugin, process, lines, answer, signals, stdout, stderr };
                self.waiting.insert(key, waiting);
            }
            ProcessCommand::Signal { key, signum } => self.signal(key, signum),
            ProcessCommand::KillAll => {
                self.waiting.retain(|_, waiting| waiting.plugin != plugin);
                self.running.retain(|_, running| running.plugin != plugin);
            }
        }
        self.begin();
    }

    /// Starts waiting processes, within the limit.
    fn begin(&mut self) {
        while self.slots.is_none_or(|slots| self.running.len() < slots)
            && let Some((key, mut next)) = self.waiting.pop_first()
        {
            self.started.push(next.process.clone());
            next.answer.started();
            if self.hold {
                self.running.insert(key, next);
            } else {
                let end = self.end.clone().unwrap_or(ProcessEnd::new(WaitStatus::SUCCESS));
                next.answer.send(Ok(end));
            }
        }
    }

    fn signal(&mut self, key: ProcessKey, signum: i32) {
        const SIGKILL: i32 = 9;
        if let Some(waiting) = self.waiting.remove(&key) {
            return waiting.end(WaitStatus::from_signal(signum));
        }
        let Some(running) = self.running.get_mut(&key) else {
            return;
        };
        running.signals.push(signum);
        if signum == SIGKILL
            && let Some(killed) = self.running.remove(&key)
        {
            killed.end(WaitStatus::from_signal(signum));
        }
    }

    /// Drops all processes, since the manager that waited for them has crashed.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        self.running.clear();
    }
}

impl TestManager {
    /// From now on, processes of plugins end only by [`end_process`](Self::end_process) or by SIGKILL.
    pub fn hold_processes(&mut self) {
        self.processes.hold = true;
    }

    /// Limits the number of processes that run at the same time. Others start in the order of their
    /// requests.
    ///
    /// ```
    /// # use jobtap_core::job::WaitStatus;
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// # #[derive(Default)]
    /// # struct Scratch;
    /// # #[jobtap_plugin(name = "scratch")]
    /// # impl Scratch {
    /// #     #[on("job.new")]
    /// #     fn make(remote: Remote<Self>) {
    /// #         remote.clone().spawn(async move {
    /// #             let _ = remote.run_process(Process::new("make-scratch")).await;
    /// #         });
    /// #     }
    /// # }
    /// let mut m = TestManager::new().plugin::<Scratch>().start();
    /// m.hold_processes();
    /// m.limit_processes(1);
    /// m.submit(TestJob::new()).unwrap();
    /// m.submit(TestJob::new()).unwrap();
    /// assert_eq!(m.started_processes().len(), 1);
    /// m.end_process("make-scratch", WaitStatus::SUCCESS);
    /// assert_eq!(m.started_processes().len(), 2);
    /// ```
    pub fn limit_processes(&mut self, slots: usize) {
        self.processes.slots = Some(slots);
    }

    /// All processes of plugins that have been started.
    pub fn started_processes(&self) -> &[Process] {
        &self.processes.started
    }

    /// The running processes, each with the signals that it has received.
    pub fn running_processes(&self) -> impl Iterator<Item = (&Process, &[i32])> {
        let running = self.processes.running.values();
        running.map(|running| (&running.process, running.signals.as_slice()))
    }

    /// Lets the oldest running process of this program print a line. The plugin gets it as a line if it asked
    /// for lines, and in [`ProcessEnd`] when the process has ended.
    ///
    /// ```
    /// # use jobtap_core::job::WaitStatus;
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// #[derive(Default)]
    /// struct Licences;
    ///
    /// #[jobtap_plugin(name = "licences")]
    /// impl Licences {
    ///     #[on("job.state.depend")]
    ///     async fn wait(remote: Remote<Self>) -> Result<(), Reject> {
    ///         let end = remote.run_process(Process::new("count-licences")).await?;
    ///         let free: u32 = String::from_utf8(end.stdout)?.trim().parse()?;
    ///         Reject::when(free == 0, "there is no licence left")
    ///     }
    /// }
    ///
    /// let mut m = TestManager::new().plugin::<Licences>().start();
    /// m.hold_processes();
    /// let id = m.submit(TestJob::new()).unwrap();
    /// m.process_prints("count-licences", Stream::Stdout, "0");
    /// m.end_process("count-licences", WaitStatus::SUCCESS);
    /// m.assert_exception(id, "dependency", "there is no licence left");
    /// ```
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn process_prints(&mut self, program: &str, stream: Stream, text: &str) {
        let mut running = self.processes.running.values_mut();
        match running.find(|running| running.process.program == program) {
            Some(running) => running.print(stream, text),
            None => panic!("no process of {program} runs"),
        }
        self.settle_all();
    }

    /// Ends the oldest running process of this program. Its [`ProcessEnd`] contains what it has
    /// [printed](Self::process_prints).
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn end_process(&mut self, program: &str, status: WaitStatus) {
        self.take_process(program).end(status);
        self.go_on_after_process();
    }

    /// Lets the start of the oldest running process of this program fail.
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn fail_process(&mut self, program: &str, kind: ErrorKind) {
        let failed = self.take_process(program);
        let (program, reason) = (program.to_owned(), kind.to_string());
        failed.answer.send(Err(ProcessError::Start { program, reason, kind }));
        self.go_on_after_process();
    }

    /// Takes the oldest running process of a program.
    #[track_caller]
    fn take_process(&mut self, program: &str) -> Running {
        let of = |running: &Running| running.process.program == program;
        let key = self.processes.running.iter().find(|(_, running)| of(running));
        let key = key.map(|(key, _)| *key);
        match key.and_then(|key| self.processes.running.remove(&key)) {
            Some(running) => running,
            None => panic!("no process of {program} runs"),
        }
    }

    fn go_on_after_process(&mut self) {
        self.processes.begin();
        self.settle_all();
    }
}
