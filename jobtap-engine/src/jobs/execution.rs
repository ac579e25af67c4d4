//! How far the execution of a job has come.

use crate::api::TimerId;
use crate::kept::Moment;

/// The execution of one job.
#[derive(Debug, Default)]
pub(crate) struct Execution {
    pub(crate) phase: Phase,
    pub(crate) reattach: Reattach,
    pub(crate) simulation: Simulation,
    /// The timer that ends the job when its time is up.
    pub(crate) expiry: Option<TimerId>,
    /// When its tasks exited, if they did so while no manager ran.
    pub(crate) completed: Moment,
    pub(crate) prep: PrepStage,
    /// An identical job is submitted in its place. Once that job is accepted the eventlog says so.
    pub(crate) resubmitted: bool,
}

/// Which of Slurm's prologs and epilogs were called. Only in memory: what is open at a restart has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum PrepStage {
    /// None.
    #[default]
    None,
    /// The prolog in the controller.
    Controller,
    /// The prologs on the nodes.
    Nodes,
    /// One of them has failed, and the job ends as soon as it is known whether it has a successor.
    Failed,
    /// The epilogs.
    Epilogs,
}

/// What has been asked of the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// Nothing yet.
    #[default]
    Idle,
    /// Nothing, and nothing will be: the job ended in its prolog.
    Skipped,
    /// To start the job when another one has ended: its turn has not come.
    Ahead,
    /// The same. The executor has begun it, and it gets its resources now.
    Begun,
    /// The same. The executor has begun it for an earlier manager, and reports what that one has missed when it is asked to
    /// start the job.
    BegunEarlier,
    /// To start the job. Its last report is still to come.
    Started,
    /// To end it. Its last report is still to come.
    Ending,
    /// The last report has arrived.
    Released,
}

impl Phase {
    /// Whether the executor still has something to report.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Phase::Started | Phase::Ending)
    }
}

/// How far a job that ran before a restart is back under the manager's control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reattach {
    /// This manager controls the job: it has started it, or has caught up with it.
    #[default]
    Done,
    /// The executor was asked to reattach to the job and has not answered.
    Requested,
    /// The executor has answered, and still reports what the job did while no manager ran.
    CatchingUp,
}

/// The state of a job that is executed without processes, if it is simulated and its simulation has begun.
///
/// Boxed, since a pending job has none.
#[derive(Debug, Default)]
pub(crate) struct Simulation(Option<Box<Stage>>);

#[derive(Debug)]
enum Stage {
    /// It executes.
    Running(Simulated),
    /// It has finished. The release is posted once no other event waits, as a real execution's last
    /// report comes after everything that `finish` caused.
    ReleaseDue,
}

/// One simulated job while it executes.
#[derive(Debug, Default)]
pub(crate) struct Simulated {
    pub(crate) timer: Option<TimerId>,
    pub(crate) started: bool,
    /// A client says when the job starts and finishes.
    pub(crate) overridden: bool,
    pub(crate) wait_status: i32,
}

impl Simulation {
    /// Begins the execution of a job.
    pub(crate) fn begin(&mut self, simulated: Simulated) {
        self.0 = Some(Box::new(Stage::Running(simulated)));
    }

    /// The simulated job, while it executes.
    pub(crate) fn running(&self) -> Option<&Simulated> {
        match self.0.as_deref()? {
            Stage::Running(simulated) => Some(simulated),
            Stage::ReleaseDue => None,
        }
    }

    /// The simulated job, while it executes.
    pub(crate) fn running_mut(&mut self) -> Option<&mut Simulated> {
        match self.0.as_deref_mut()? {
            Stage::Running(simulated) => Some(simulated),
            Stage::ReleaseDue => None,
        }
    }

    /// Ends the simulation, if the job executes.
    pub(crate) fn take(&mut self) -> Option<Simulated> {
        match self.0.take().map(|stage| *stage) {
            Some(Stage::Running(simulated)) => Some(simulated),
            Some(Stage::ReleaseDue) => {
                self.finish();
                None
            }
            None => None,
        }
    }

    /// Notes that the job has finished, so that its release is due.
    pub(crate) fn finish(&mut self) {
        self.0 = Some(Box::new(Stage::ReleaseDue));
    }

    /// Returns whether the release is due; if so, it no longer is.
    pub(crate) fn take_release(&mut self) -> bool {
        let due = matches!(self.0.as_deref(), Some(Stage::ReleaseDue));
        if due {
            self.0 = None;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_is_ended_once() {
        let mut simulation = Simulation::default();
        simulation.begin(Simulated::default());
        assert!(simulation.take().is_some());
        assert!(simulation.take().is_none());
        assert!(simulation.running().is_none());
    }

    #[test]
    fn a_release_that_is_due_is_taken_once() {
        let mut simulation = Simulation::default();
        simulation.finish();
        assert!(simulation.take().is_none(), "it has finished");
        assert!(simulation.take_release());
        assert!(!simulation.take_release());
    }
}
