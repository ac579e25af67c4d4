//! A manager without a socket, a clock or processes: the engine in virtual time. Its writes go to a store,
//! are dropped, or are handed to the measurement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use jobtap_core::engine::{
    Cred, Effect, Effects, Engine, HostCheck, Input, ReplyTo, Request, RequestError, Requester,
    Setup, Submission, TimerId,
};
use jobtap_core::host::{NoReturn, Registry, Ticks};
use jobtap_core::job::{JobId, Timestamp, Uid};
use jobtap_core::jobspec::Jobspec;
use serde_json::Value;

use super::error::BenchError;
use crate::daemon::resources::TestSize;
use crate::daemon::{now, resources, store_ops};
use crate::store::{Op, Store, request::unsigned};

/// Changes that are committed together.
pub(super) const GROUP: usize = 4096;

/// A manager that consists of the engine alone.
pub(super) struct Offline {
    engine: Engine,
    now: f64,
    /// Timers by the bits of their times, which sort as the times do, since these are positive.
    timers: BinaryHeap<Reverse<(u64, TimerId)>>,
}

impl Offline {
    /// Starts a manager with these plugins.
    pub(super) fn new(config: Value, registry: Registry) -> Result<Self, BenchError> {
        Self::start_at(config, registry, now(), Ticks::default()).map(|(manager, _)| manager)
    }

    /// Starts a manager at this time, and returns its first effects, too.
    pub(super) fn start_at(
        config: Value,
        registry: Registry,
        started: Timestamp,
        ticks: Ticks,
    ) -> Result<(Self, Effects), BenchError> {
        let found = resources::discover(&config, &TestSize::default(), None)
            .map_err(crate::daemon::StartError::from)?;
        let setup = Setup {
            owner: owner(),
            resources: found.resources,
            config,
            config_directory: None,
            registry,
            remote: Arc::new(NoReturn),
            ticks,
            host_check: HostCheck::default(),
        };
        let mut engine = Engine::new(started, setup)?;
        let first = engine.start(started);
        let timers = BinaryHeap::new();
        let mut manager = Self { engine, now: started.as_secs(), timers };
        manager.timers(&first);
        Ok((manager, first))
    }

    /// The engine.
    pub(super) fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Gives the engine an input. Plugins of `slurm.job_submit` are called only when the user of a request
    /// has been looked up, so look-ups are answered at once: the system's time for them isn't measured here.
    pub(super) fn handle(&mut self, input: Input) -> Result<Effects, BenchError> {
        let now = Timestamp::from_secs(self.now);
        let mut effects = self.engine.handle(now, input);
        while let Some(user) = take_look_up(&mut effects) {
            let requester = Requester::default();
            let more = self.engine.handle(now, Input::Requester { user, requester });
            effects.writes.extend(more.writes);
            effects.after.extend(more.after);
        }
        self.timers(&effects);
        match effects.after.iter().find_map(refused) {
            Some(error) => Err(error.clone().into()),
            None => Ok(effects),
        }
    }

    /// Submits a job.
    pub(super) fn submit(&mut self, jobspec: Jobspec) -> Result<Effects, BenchError> {
        self.handle(submission(jobspec))
    }

    /// Submits a job and returns its id.
    pub(super) fn submit_one(&mut self, jobspec: Jobspec) -> Result<JobId, BenchError> {
        let effects = self.submit(jobspec)?;
        let id = effects.after.iter().find_map(|effect| match effect {
            Effect::Reply { result: Ok(answer), .. } => answer.get("id")?.as_u64(),
            _ => None,
        });
        id.map(JobId::new).ok_or(BenchError::NoAnswer)
    }

    /// Advances time by this many seconds and handles the timers that are due until then. `take` gets all
    /// effects.
    pub(super) fn pass(
        &mut self,
        seconds: f64,
        mut take: impl FnMut(Effects) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let until = self.now + seconds;
        while let Some(Reverse((bits, id))) = self.timers.peek().copied() {
            let at = f64::from_bits(bits);
            if at > until {
                break;
            }
            self.timers.pop();
            self.now = self.now.max(next_microsecond(at));
            take(self.handle(Input::Timer(id))?)?;
        }
        self.now = self.now.max(next_microsecond(until));
        Ok(())
    }

    /// Returns the number of jobs in a state, by its name in `job-stats`.
    pub(super) fn count(&self, state: &str) -> u64 {
        let stats = self.engine.job_stats();
        let count = stats.pointer(&format!("/job_states/{state}"));
        count.and_then(Value::as_u64).unwrap_or(0)
    }

    /// Fails unless this many jobs are in a state.
    pub(super) fn expect(&self, state: &'static str, expected: u64) -> Result<(), BenchError> {
        let found = self.count(state);
        if found == expected {
            Ok(())
        } else {
            Err(BenchError::Lost { what: state, expected, found })
        }
    }

    fn timers(&mut self, effects: &Effects) {
        for effect in &effects.after {
            if let Effect::Timer { id, at } = effect {
                self.timers.push(Reverse((at.as_secs().to_bits(), *id)));
            }
        }
    }
}

/// Rounds a time up to whole microseconds, the resolution of a manager's clock.
fn next_microsecond(seconds: f64) -> f64 {
    (seconds * 1e6).ceil() / 1e6
}

/// Removes a look-up of a user from the effects, if there is one, and returns the user.
fn take_look_up(effects: &mut Effects) -> Option<Uid> {
    let is_look_up = |effect: &Effect| matches!(effect, Effect::LookUp { .. });
    match effects.after.remove(effects.after.iter().position(is_look_up)?) {
        Effect::LookUp { user } => Some(user),
        _ => None,
    }
}

fn refused(effect: &Effect) -> Option<&RequestError> {
    match effect {
        Effect::Reply { result: Err(error), .. } => Some(error),
        _ => None,
    }
}

/// A request of the user who runs the benchmark.
pub(super) fn request(request: Request) -> Input {
    Input::Request { reply: ReplyTo(0), cred: Cred { userid: owner(), owner: true }, request }
}

/// The submission of a job.
pub(super) fn submission(jobspec: Jobspec) -> Input {
    let signed = unsigned(owner().as_u32(), jobspec.value().to_string());
    request(Request::Submit(Box::new(Submission {
        jobspec,
        signed,
        urgency: 16,
        flags: 0,
        elements: None,
    })))
}

/// The user who runs the benchmark.
pub(super) fn owner() -> Uid {
    Uid::new(rustix::process::geteuid().as_raw())
}

/// Changes on their way to a store, in groups.
pub(super) struct Changes {
    store: Arc<dyn Store>,
    waiting: Vec<Op>,
}

impl Changes {
    /// Changes for this store.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, waiting: Vec::new() }
    }

    /// Adds the writes of these effects.
    pub(super) fn take(&mut self, effects: Effects) -> Result<(), BenchError> {
        for write in effects.writes {
            store_ops(write, &mut self.waiting)?;
        }
        if self.waiting.len() >= GROUP { self.commit() } else { Ok(()) }
    }

    /// Commits the waiting changes.
    pub(super) fn commit(&mut self) -> Result<(), BenchError> {
        Ok(self.store.commit(std::mem::take(&mut self.waiting))?)
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::Plugin;
    use jobtap_core::prelude::*;

    use super::*;
    use crate::bench::{jobspec, one_host};

    #[derive(Default)]
    struct Policy;

    #[jobtap_plugin(name = "policy")]
    impl Policy {
        #[on("slurm.job_submit")]
        fn submit(mut desc: Descriptor<'_>) {
            desc.comment = Some("seen".to_owned());
        }
    }

    #[test]
    fn requests_to_plugins_that_know_users_are_answered() {
        let registry = Registry::builder().plugins([Policy::DESCRIPTOR]).build().unwrap();
        let mut manager = Offline::new(one_host(), registry).unwrap();
        manager.submit_one(jobspec(60.0, 1, 1).unwrap()).unwrap();
    }
}
