//! The processes of plugins in a test. They succeed at once, or end when and how the test tells them to.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use super::manager::TestManager;
use crate::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use crate::job::WaitStatus;
use crate::plugin::{OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Stream};

/// The processes that are waiting, running, and have been started.
#[derive(Debug, Default)]
pub(super) struct Processes {
    hold: bool,
    /// How those end that end at once.
    pub(super) status: WaitStatus,
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
}

impl Processes {
    pub(super) fn follow(&mut self, plugin: PluginKey, command: ProcessCommand) {
        match command {
            ProcessCommand::Run { key, process, lines, answer } => {
                let signals = Vec::new();
                self.waiting.insert(key, Running { plugin, process, lines, answer, signals });
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
                next.answer.send(Ok(ended(self.status)));
            }
        }
    }

    fn signal(&mut self, key: ProcessKey, signum: i32) {
        const SIGKILL: i32 = 9;
        if let Some(waiting) = self.waiting.remove(&key) {
            return waiting.answer.send(Ok(ended(WaitStatus::from_signal(signum))));
        }
        let Some(running) = self.running.get_mut(&key) else {
            return;
        };
        running.signals.push(signum);
        if signum == SIGKILL
            && let Some(killed) = self.running.remove(&key)
        {
            killed.answer.send(Ok(ended(WaitStatus::from_signal(signum))));
        }
    }

    /// Drops all processes, since the manager that waited for them has crashed.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        self.running.clear();
    }
}

fn ended(status: WaitStatus) -> ProcessEnd {
    ProcessEnd { status, stdout: Vec::new(), stderr: Vec::new() }
}

impl TestManager {
    /// Lets the processes of plugins end only by [`end_process`](Self::end_process) or by SIGKILL from now
    /// on.
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

    /// Lets the oldest running process of this program print a line.
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn process_prints(&mut self, program: &str, stream: Stream, text: &str) {
        let mut running = self.processes.running.values();
        match running.find(|running| running.process.program == program) {
            Some(Running { lines: Some(lines), .. }) => {
                lines.send(OutputLine { stream, text: text.to_owned() });
            }
            Some(_) => {}
            None => panic!("no process of {program} runs"),
        }
        self.come_to_rest();
    }

    /// Ends the oldest running process of this program.
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn end_process(&mut self, program: &str, status: WaitStatus) {
        self.answer_process(program, Ok(ended(status)));
    }

    /// Lets the start of the oldest running process of this program fail.
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn fail_process(&mut self, program: &str, kind: ErrorKind) {
        let (program, reason) = (program.to_owned(), kind.to_string());
        self.answer_process(&program.clone(), Err(ProcessError::Start { program, reason, kind }));
    }

    #[track_caller]
    fn answer_process(&mut self, program: &str, end: ProcessResult) {
        let of = |running: &Running| running.process.program == program;
        let key = self.processes.running.iter().find(|(_, running)| of(running));
        let key = key.map(|(key, _)| *key);
        match key.and_then(|key| self.processes.running.remove(&key)) {
            Some(running) => running.answer.send(end),
            None => panic!("no process of {program} runs"),
        }
        self.processes.begin();
        self.come_to_rest();
    }
}
