//! A manager without a socket, a clock or processes: the engine in virtual time, with or without a store.
//! It makes the state of many jobs in the time that the engine alone needs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use jobtap_core::engine::{
    Cred, Effect, Effects, Engine, HostCheck, Input, ReplyTo, Request, RequestError, Requester,
    Setup, Submission, TimerId,
};
use jobtap_core::host::{Registry, RemoteCall, RemoteSink, Ticks};
use jobtap_core::job::{Timestamp, Uid};
use jobtap_core::jobspec::Jobspec;

use super::{BenchError, config};
use crate::daemon::resources::TestSize;
use crate::daemon::{now, resources, store_ops, token};
use crate::store::{Op, Store};

/// Changes that are committed together.
const GROUP: usize = 4096;

/// A manager of engine and store alone.
pub(super) struct Offline {
    engine: Engine,
    now: f64,
    /// Timers by the bits of their times, which are in the order of the times, since these are positive.
    timers: BinaryHeap<Reverse<(u64, TimerId)>>,
    store: Option<Arc<dyn Store>>,
    pending: Vec<Op>,
    refused: Option<RequestError>,
}

/// Drops the work of asynchronous handlers, which isn't measured here.
struct Nowhere;

impl RemoteSink for Nowhere {
    fn send(&self, _call: RemoteCall) {}
}

impl Offline {
    /// Starts a manager with the linked plugins.
    pub(super) fn new(store: Option<Arc<dyn Store>>) -> Result<Self, BenchError> {
        let host = resources::hostname();
        let config = config(&host);
        let found = resources::discover(&config, &TestSize::default(), None)
            .map_err(crate::daemon::StartError::from)?;
        let started = now();
        let setup = Setup {
            owner: owner(),
            resources: found.resources,
            config,
            config_directory: None,
            registry: Registry::linked()?,
            remote: Arc::new(Nowhere),
            ticks: Ticks::default(),
            host_check: HostCheck::default(),
        };
        let mut engine = Engine::new(started, setup)?;
        let first = engine.start(started);
        let mut manager = Self {
            engine,
            now: started.as_secs(),
            timers: BinaryHeap::new(),
            store,
            pending: Vec::new(),
            refused: None,
        };
        manager.take(first)?;
        Ok(manager)
    }

    /// Submits a job.
    pub(super) fn submit(&mut self, jobspec: Jobspec) -> Result<(), BenchError> {
        let signed = token(&jobspec.value().to_string(), owner());
        let submission = Submission { jobspec, signed, urgency: 16, flags: 0 };
        let request = Input::Request {
            reply: ReplyTo(0),
            cred: Cred { userid: owner(), owner: true },
            request: Request::Submit(Box::new(submission)),
        };
        let effects = self.engine.handle(Timestamp::from_secs(self.now), request);
        self.take(effects)
    }

    /// Advances time until no timer is due within `until` seconds from now.
    pub(super) fn pass(&mut self, seconds: f64) -> Result<(), BenchError> {
        let until = self.now + seconds;
        while let Some(Reverse((bits, id))) = self.timers.peek().copied() {
            let at = f64::from_bits(bits);
            if at > until {
                break;
            }
            self.timers.pop();
            self.now = self.now.max(at);
            let effects = self.engine.handle(Timestamp::from_secs(self.now), Input::Timer(id));
            self.take(effects)?;
        }
        self.now = until;
        Ok(())
    }

    /// Commits everything, with what an orderly shutdown writes.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        let effects = Effects { writes: vec![self.engine.checkpoint()], ..Effects::default() };
        self.take(effects)?;
        self.commit()
    }

    /// Returns the number of jobs in a state, by its name in `job-stats`.
    pub(super) fn count(&self, state: &str) -> u64 {
        let stats = self.engine.job_stats();
        let count = stats.pointer(&format!("/job_states/{state}"));
        count.and_then(serde_json::Value::as_u64).unwrap_or(0)
    }

    fn take(&mut self, effects: Effects) -> Result<(), BenchError> {
        let mut users = Vec::new();
        for effect in effects.after {
            match effect {
                Effect::Timer { id, at } => self.timers.push(Reverse((at.as_secs().to_bits(), id))),
                Effect::Reply { result: Err(error), .. } => self.refused = Some(error),
                Effect::LookUp { user } => users.push(user),
                _ => {}
            }
        }
        if let Some(error) = self.refused.take() {
            return Err(error.into());
        }
        if self.store.is_some() {
            for write in effects.writes {
                store_ops(write, &mut self.pending)?;
            }
            if self.pending.len() >= GROUP {
                self.commit()?;
            }
        }
        for user in users {
            // Requests wait for an answer; this one is not the system's, which would be measured too.
            let requester = Requester::default();
            let answer = Input::Requester { user, requester };
            let effects = self.engine.handle(Timestamp::from_secs(self.now), answer);
            self.take(effects)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BenchError> {
        match &self.store {
            Some(store) => Ok(store.commit(std::mem::take(&mut self.pending))?),
            None => Ok(()),
        }
    }
}

/// The user who runs the benchmark.
fn owner() -> Uid {
    Uid::new(rustix::process::geteuid().as_raw())
}
