//! What the manager has promised: a second, small description of it, from what is durable and what was told alone.
//!
//! Each rule has a name, which a violation begins with.

use std::collections::{BTreeMap, BTreeSet};

use jobtap_core::eventlog::{EventEntry, decode_log};
use jobtap_core::job::{JobId, State};
use jobtap_core::resource::{Idset, ResourceSet};
use jobtap_daemon::store::{Key, Store};
use serde_json::Value;

use crate::client::{Asked, Told};
use crate::disk::DiskStore;
use crate::model::Model;
use crate::shepherd::Started;

/// The wait status of a job that has lost a node.
const LOST: i64 = (128 + 9) << 8;

/// A broken promise: the name of the rule, and what has broken it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What has happened.
    pub text: String,
}

/// How much later than its end a job is told that its time is up, in seconds.
const MOMENT: f64 = 2.0;

/// Fails with a violation unless `holds`.
fn need(holds: bool, rule: &'static str, text: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, text: text() }) }
}

/// The place of the last event of this name.
fn last_of(events: &[EventEntry], name: &str) -> Option<usize> {
    events.iter().rposition(|event| &*event.name == name)
}

/// Whether all tasks of a job have exited with 0.
fn ended_well(events: &[EventEntry]) -> bool {
    let finish = last_of(events, "finish").and_then(|at| events.get(at)?.context.as_ref());
    finish.and_then(|context| context.get("status")?.as_i64()) == Some(0)
}

/// Whether a job that has finished had started before, with the resources that it had then.
fn had_started(events: &[EventEntry]) -> bool {
    let until = last_of(events, "finish").and_then(|at| events.get(..at)).unwrap_or_default();
    last_of(until, "start") > last_of(until, "alloc")
}

/// What is durable about a job.
#[derive(Default)]
pub struct Truth {
    /// The text of its log.
    log: String,
    /// Its events.
    pub events: Vec<EventEntry>,
    /// Where it is according to its log.
    pub state: Option<State>,
    /// Its user.
    pub user: u64,
    /// What it has, as long as it has it.
    holds: Option<ResourceSet>,
    /// When its time is up, in seconds since 1970.
    expires: Option<f64>,
    /// When it got what it has, by the oracle's time.
    allocated: Option<f64>,
    /// When it had started with that.
    started: Option<f64>,
    /// Whether its submission was acknowledged.
    acknowledged: bool,
    /// Whether its removal was asked for.
    purged: bool,
}

/// All that is known.
#[derive(Default)]
pub struct Oracle {
    jobs: BTreeMap<u64, Truth>,
    /// Who has each core of each rank.
    cores: BTreeMap<(u32, u32), u64>,
    /// How often the processes of a job were started on a rank.
    starts: BTreeMap<(u64, u32), u32>,
    /// The job arrays that were acknowledged.
    pub arrays: BTreeSet<u64>,
    /// The jobs that were removed on request.
    removed: BTreeSet<u64>,
    /// Whether guests may see the jobs of others.
    pub private: bool,
    /// The seconds that have passed, whatever clocks show.
    pub passed: f64,
    /// How many checks were made, by rule.
    pub checks: BTreeMap<&'static str, u64>,
}

impl Oracle {
    /// The jobs that are known to be durable.
    #[must_use]
    pub fn jobs(&self) -> &BTreeMap<u64, Truth> {
        &self.jobs
    }

    fn count(&mut self, rule: &'static str) {
        *self.checks.entry(rule).or_default() += 1;
    }

    /// Looks at what has become durable about these jobs.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn committed(&mut self, store: &DiskStore, jobs: &[u64]) -> Result<(), Violation> {
        for id in jobs {
            self.look_at(store, *id)?;
        }
        // One commit may have the end of one job and the start of the next.
        jobs.iter().for_each(|id| self.give_back(*id));
        jobs.iter().try_for_each(|id| self.take_cores(*id))
    }

    /// Looks at all jobs, after the store was opened again.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn reopened(&mut self, store: &DiskStore) -> Result<(), Violation> {
        let found = store
            .job_ids()
            .map_err(|error| Violation { rule: "readable", text: error.to_string() })?;
        let all: BTreeSet<u64> = self.jobs.keys().copied().chain(found).collect();
        let all: Vec<u64> = all.into_iter().collect();
        self.committed(store, &all)
    }

    fn look_at(&mut self, store: &DiskStore, id: u64) -> Result<(), Violation> {
        self.count("durable");
        self.count("order");
        let unreadable = |error: &dyn std::fmt::Display| Violation {
            rule: "readable",
            text: format!("{}: {error}", JobId::new(id)),
        };
        let log = store.read_log(&Key::eventlog(id)).map_err(|error| unreadable(&error))?;
        let Some(log) = log else {
            if let Some(truth) = self.jobs.get(&id) {
                need(truth.purged || !truth.acknowledged, "durable", || {
                    format!("{} is gone", JobId::new(id))
                })?;
                self.give_back(id);
                self.jobs.remove(&id);
                self.removed.insert(id);
            }
            return Ok(());
        };
        let log = String::from_utf8(log).map_err(|error| unreadable(&error))?;
        let truth = self.jobs.entry(id).or_default();
        need(log.starts_with(&truth.log), "durable", || {
            format!("{}: the log was\n{}and is now\n{log}", JobId::new(id), truth.log)
        })?;
        let events = decode_log(&log).map_err(|error| unreadable(&error))?;
        let model = Model::from_log(&events).map_err(|text| Violation {
            rule: "order",
            text: format!("{}: {text}\n{log}", JobId::new(id)),
        })?;
        need(!ended_well(&events) || had_started(&events), "order", || {
            format!("{} has succeeded and never started\n{log}", JobId::new(id))
        })?;
        (truth.state, truth.events, truth.log) = (model.state, events, log);
        if let Some(first) = truth.events.first() {
            let user = first.context.as_ref().and_then(|context| context.get("userid"));
            truth.user = user.and_then(Value::as_u64).unwrap_or(0);
        }
        let last = |name: &str| last_of(&truth.events, name);
        // A job that is requeued may start more than once.
        let has_started = model.holds && last("start") > last("alloc");
        let now = Some(self.passed);
        truth.started = truth.started.or(now).filter(|_| has_started);
        truth.allocated = truth.allocated.or(now).filter(|_| model.holds);
        truth.holds = None;
        if model.holds && !model.bypass {
            let text = store.get(&Key::resources(id)).map_err(|error| unreadable(&error))?;
            let text = text.ok_or_else(|| Violation {
                rule: "durable",
                text: format!("{}: alloc without R", JobId::new(id)),
            })?;
            let value: Value = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
            let set = ResourceSet::from_value(&value).map_err(|error| unreadable(&error))?;
            truth.expires = truth.expiration(&value);
            truth.holds = Some(set.without_ranks(&model.given_back));
        }
        Ok(())
    }

    fn give_back(&mut self, id: u64) {
        self.cores.retain(|_, holder| *holder != id);
    }

    fn take_cores(&mut self, id: u64) -> Result<(), Violation> {
        self.count("once");
        let Some(set) = self.jobs.get(&id).and_then(|truth| truth.holds.clone()) else {
            return Ok(());
        };
        for node in set.iter() {
            for core in node.cores().iter() {
                if let Some(other) = self.cores.insert((node.rank(), core), id) {
                    let (id, other) = (JobId::new(id), JobId::new(other));
                    let text = format!("core {core} of rank {} has {other} and {id}", node.rank());
                    return Err(Violation { rule: "once", text });
                }
            }
        }
        Ok(())
    }

    /// Looks at a start of processes, beside the other jobs whose processes run on this node.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn started(&mut self, started: &Started) -> Result<(), Violation> {
        self.count("start");
        let Started { job, rank } = started;
        let id = job.id.as_u64();
        let count = self.starts.entry((id, *rank)).or_default();
        *count += 1;
        need(*count == 1, "start", || format!("{} on rank {rank}: {count} starts", job.id))?;
        let Some(truth) = self.jobs.get(&id) else {
            let text = format!("{} runs, and nothing of it is durable", job.id);
            return Err(Violation { rule: "start", text });
        };
        if job.after.is_some() {
            // Begun without asking: its events become durable a moment later.
            return Ok(());
        }
        let has = |name: &str| truth.events.iter().any(|event| &*event.name == name);
        need(has("alloc"), "start", || format!("{} runs before alloc is durable", job.id))?;
        need(!has("free"), "start", || format!("{} starts after its free", job.id))?;
        let count = |name: &str| truth.events.iter().filter(|event| &*event.name == name).count();
        need(count("prolog-start") == count("prolog-finish"), "prolog", || {
            format!("{} runs in its prolog", job.id)
        })?;
        let allocated = truth.holds.as_ref().is_none_or(|set| set.ranks().contains(*rank));
        need(allocated, "start", || format!("{} has no rank {rank}", job.id))
    }

    /// Checks that a job whose processes run has not passed its time limit. `now` is in seconds since 1970. A job that
    /// started late may end later by the same time.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn in_time(&mut self, id: u64, now: f64) -> Result<(), Violation> {
        self.count("limit");
        let Some(truth) = self.jobs.get(&id) else { return Ok(()) };
        let (Some(allocated), Some(started)) = (truth.allocated, truth.started) else {
            return Ok(());
        };
        let late = started - allocated + MOMENT;
        let is_over = truth.expires.is_some_and(|expires| now > expires + late);
        let is_told = last_of(&truth.events, "exception") > last_of(&truth.events, "alloc");
        need(!is_over || is_told, "limit", || {
            format!("{} runs on at {now}\n{}", JobId::new(id), truth.log)
        })
    }

    /// Looks at a response.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn told(&mut self, told: &Told) -> Result<(), Violation> {
        self.count("told");
        let Told { user, asked, result } = told;
        match (asked, result) {
            (Asked::Submit, Ok(value)) => {
                let id = value.get("id").and_then(Value::as_u64).unwrap_or(0);
                if self.removed.contains(&id) {
                    return Ok(());
                }
                let truth = self.jobs.get_mut(&id);
                let truth = truth.ok_or_else(|| Violation {
                    rule: "acknowledged",
                    text: format!("{} was acknowledged and isn't durable", JobId::new(id)),
                })?;
                truth.acknowledged = true;
                need(truth.user == u64::from(*user), "acknowledged", || {
                    format!("{} is of user {} and not {user}", JobId::new(id), truth.user)
                })
            }
            (Asked::SubmitArray, Ok(value)) => {
                self.arrays.extend(value.get("id").and_then(Value::as_u64));
                Ok(())
            }
            (Asked::Journal, Ok(value)) => self.in_journal(value),
            (Asked::Raise { id, kind }, Ok(_)) => self.has_event(*id, "exception", "type", kind),
            (Asked::Memo { id, value }, Ok(_)) => {
                let Some(truth) = self.jobs.get(id) else { return Ok(()) };
                let has = truth.events.iter().any(|event| {
                    let memo = event.context.as_ref().and_then(|context| context.get("sim"));
                    &*event.name == "memo" && memo.and_then(Value::as_u64) == Some(*value)
                });
                need(has || truth.purged, "acknowledged", || {
                    format!("the memo {value} of {} isn't durable", JobId::new(*id))
                })
            }
            (Asked::Watch { id, seen }, Ok(value)) => self.watched(*id, *seen, value),
            (Asked::Forbidden { id }, Ok(value)) => need(false, "guests", || {
                format!("user {user} gets {} of another user: {value}", JobId::new(*id))
            }),
            (Asked::List, Ok(value)) => self.listed(*user, value),
            _ => Ok(()),
        }
    }

    fn has_event(&self, id: u64, name: &str, key: &str, text: &str) -> Result<(), Violation> {
        let Some(truth) = self.jobs.get(&id) else { return Ok(()) };
        let has = truth.events.iter().any(|event| {
            let value = event.context.as_ref().and_then(|context| context.get(key));
            &*event.name == name && value.and_then(Value::as_str) == Some(text)
        });
        need(has || truth.purged, "acknowledged", || {
            format!("{name} {text} of {} was acknowledged and isn't durable", JobId::new(id))
        })
    }

    /// What a watcher sees is what is durable, line by line.
    fn watched(&self, id: u64, seen: usize, value: &Value) -> Result<(), Violation> {
        let line = value.get("event").and_then(Value::as_str).unwrap_or_default();
        let Some(truth) = self.jobs.get(&id) else { return Ok(()) };
        let durable = truth.log.lines().nth(seen);
        need(durable == Some(line.trim_end()) || truth.purged, "watched", || {
            format!("event {seen} of {} is {durable:?}, and a watcher got {line}", JobId::new(id))
        })
    }

    /// What a watcher of all jobs sees is durable.
    fn in_journal(&self, value: &Value) -> Result<(), Violation> {
        let id = value.get("id").and_then(Value::as_u64).unwrap_or(0);
        let Some(truth) = self.jobs.get(&id) else { return Ok(()) };
        let events = value.get("events").and_then(Value::as_array);
        for event in events.into_iter().flatten() {
            let has = |name: &EventEntry| {
                let named = event.get("name").and_then(Value::as_str);
                let time = event.get("timestamp").and_then(Value::as_f64);
                named == Some(&*name.name) && time == Some(name.timestamp.as_secs())
            };
            // These are announced, and stand in no log.
            let name = event.get("name").and_then(Value::as_str);
            let is_announced = matches!(name, Some("annotations" | "memo" | "flux-restart"));
            need(truth.purged || is_announced || truth.events.iter().any(has), "watched", || {
                format!("a watcher of all jobs sees {event} of {}", JobId::new(id))
            })?;
        }
        Ok(())
    }

    /// Looks at a process of a prolog that begins on a node.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn process(&mut self, rank: u32, job: u64) -> Result<(), Violation> {
        self.count("prolog");
        let id = JobId::new(job);
        let Some(truth) = self.jobs.get(&job) else {
            let text = format!("the prolog of {id} runs, and nothing of the job is durable");
            return Err(Violation { rule: "prolog", text });
        };
        let has = |name: &str| truth.events.iter().any(|event| &*event.name == name);
        need(has("prolog-start"), "prolog", || format!("the prolog of {id} isn't durable"))?;
        need(!has("start"), "prolog", || format!("a prolog of {id} runs after its start"))?;
        let allocated = truth.holds.as_ref().is_none_or(|set| set.ranks().contains(rank));
        need(allocated, "prolog", || format!("the prolog of {id} runs on rank {rank}"))
    }

    /// Looks at whose processes run on a node. Those of a job that has given back its resources are gone, unless its end
    /// was decided without its node.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn running(&mut self, rank: u32, running: &[JobId]) -> Result<(), Violation> {
        for id in running {
            self.count("left");
            let Some(truth) = self.jobs.get(&id.as_u64()) else { continue };
            let is_lost = truth.events.iter().any(|event| {
                let kind = event.context.as_ref().and_then(|context| context.get("type"));
                let kind = kind.and_then(Value::as_str);
                let status = event.context.as_ref().and_then(|context| context.get("status"));
                // The status of a job whose node is lost while it ends.
                let killed = status.and_then(Value::as_i64).is_some_and(|status| status >= LOST);
                killed || matches!(kind, Some("node-failure" | "exec" | "scheduler-restart"))
            });
            let is_free = truth.events.iter().any(|event| &*event.name == "free");
            need(is_lost || !is_free, "left", || {
                format!("{id} has processes on rank {rank} after its free\n{}", truth.log)
            })?;
        }
        Ok(())
    }

    /// Looks at the processes that run beside each other on a node. A job whose end was decided without its node may
    /// leave processes behind until the node is back.
    ///
    /// # Errors
    /// A promise is broken.
    pub fn beside(&mut self, started: &Started, others: &[JobId]) -> Result<(), Violation> {
        self.count("beside");
        let cores = |id: u64| -> BTreeSet<u32> {
            let held = self.jobs.get(&id).and_then(|truth| truth.holds.as_ref());
            let node = held.and_then(|set| set.rank(started.rank));
            node.map(|node| node.cores().iter().collect()).unwrap_or_default()
        };
        let own = cores(started.job.id.as_u64());
        for other in others {
            let shared = cores(other.as_u64()).intersection(&own).next().copied();
            need(shared.is_none(), "beside", || {
                format!("{} runs beside {other} on core {shared:?}", started.job.id)
            })?;
        }
        Ok(())
    }

    fn listed(&self, user: u32, value: &Value) -> Result<(), Violation> {
        let jobs = value.get("jobs").and_then(Value::as_array);
        for job in jobs.into_iter().flatten() {
            let owner = job.get("userid").and_then(Value::as_u64);
            let is_own = owner == Some(u64::from(user)) || user == 0;
            need(is_own || !self.private, "guests", || format!("user {user} is shown {job}"))?;
            let id = job.get("id").and_then(Value::as_u64).unwrap_or(0);
            let known = self.jobs.get(&id);
            need(known.is_some() || self.removed.contains(&id), "listed", || {
                format!("user {user} is shown {job}, which is not durable")
            })?;
            let began = job.get("t_run").is_some_and(Value::is_number);
            let has_alloc =
                known.is_none_or(|job| job.events.iter().any(|event| &*event.name == "alloc"));
            need(!began || has_alloc, "listed", || {
                format!("user {user} is shown {job}, whose alloc isn't durable")
            })?;
        }
        Ok(())
    }

    /// Notes that a job may be removed from now on.
    pub fn purged(&mut self, id: u64) {
        if let Some(truth) = self.jobs.get_mut(&id) {
            truth.purged = true;
        }
    }

    /// The jobs that have not ended, with their states and events.
    pub fn active(&self) -> impl Iterator<Item = (u64, &Truth)> {
        let is_over = |truth: &Truth| truth.state == Some(State::Inactive);
        self.jobs.iter().filter(move |(_, truth)| !is_over(truth)).map(|(id, truth)| (*id, truth))
    }

    /// The ranks on which a job has resources.
    #[must_use]
    pub fn ranks_of(&self, id: u64) -> Idset {
        let held = self.jobs.get(&id).and_then(|truth| truth.holds.as_ref());
        held.map(ResourceSet::ranks).unwrap_or_default()
    }
}

impl Truth {
    /// When its time is up, by the resources that it was given and what was changed since.
    fn expiration(&self, resources: &Value) -> Option<f64> {
        let updated = last_of(&self.events, "resource-update");
        let updated = updated.filter(|_| updated > last_of(&self.events, "alloc"));
        let updated =
            updated.and_then(|at| self.events.get(at)?.context.as_ref()?.get("expiration"));
        let given = resources.pointer("/execution/expiration");
        updated.or(given)?.as_f64().filter(|expires| *expires > 0.0)
    }

    /// The names of its events.
    #[must_use]
    pub fn shown(&self) -> String {
        self.log.clone()
    }
}
