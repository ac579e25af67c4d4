//! The processes of plugins in a test: they end well at once, or when and how the test says.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use super::manager::TestManager;
use crate::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use crate::job::WaitStatus;
use crate::plugin::{OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Stream};

/// What runs, and what ran.
#[derive(Debug, Default)]
pub(super) struct Processes {
    hold: bool,
    /// No limit if not said.
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

    /// Begins what waits, as far as there are slots.
    fn begin(&mut self) {
        while self.slots.is_none_or(|slots| self.running.len() < slots)
            && let Some((key, mut next)) = self.waiting.pop_first()
        {
            self.started.push(next.process.clone());
            next.answer.started();
            if self.hold {
                self.running.insert(key, next);
            } else {
                next.answer.send(Ok(ended(WaitStatus::SUCCESS)));
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

    /// The manager has died: nobody waits for them any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        self.running.clear();
    }
}

fn ended(status: WaitStatus) -> ProcessEnd {
    ProcessEnd { status, stdout: Vec::new(), stderr: Vec::new() }
}

impl TestManager {
    /// From now on a plugin's process ends only when [`end_process`](Self::end_process) says so, or by
    /// SIGKILL.
    pub fn hold_processes(&mut self) {
        self.processes.hold = true;
    }

    /// From now on only so many processes run at once; the others wait, and begin in the order of asking.
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

    /// All processes of plugins that have begun.
    pub fn started_processes(&self) -> &[Process] {
        &self.processes.started
    }

    /// The processes that run, each with the signals that it got.
    pub fn running_processes(&self) -> impl Iterator<Item = (&Process, &[i32])> {
        let running = self.processes.running.values();
        running.map(|running| (&running.process, running.signals.as_slice()))
    }

    /// The oldest running process of this program prints a line.
    ///
    /// # Panics
    /// When none runs.
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
    /// When none runs.
    #[track_caller]
    pub fn end_process(&mut self, program: &str, status: WaitStatus) {
        self.answer_process(program, Ok(ended(status)));
    }

    /// The oldest running process of this program turns out not to have started.
    ///
    /// # Panics
    /// When none runs.
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
