//! What administrators and plugins ask about nodes: drain, undrain, lost and found.

use serde_json::{Map, Value, json};

use super::api::{Cred, Effect, ReplyTo, RequestError, Write};
use super::nodes::{RESOURCE_LOG, rank_word};
use super::requests::{owner_only, refused};
use super::{Engine, Level, events};
use crate::eventlog::{EventEntry, decode_log};
use crate::job::{JobId, State};
use crate::resource::{Idset, ResourceSet};

const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;

/// What can be asked about the nodes. Targets are ranks (`0-3`) or hosts (`n[0-3]`).
#[derive(Debug, Clone, PartialEq)]
pub enum NodeRequest {
    /// `resource.drain` (owner): no new jobs there.
    Drain {
        /// Which nodes.
        targets: String,
        /// Why.
        reason: Option<String>,
        /// What becomes of reasons that are there.
        mode: DrainMode,
    },
    /// `resource.undrain` (owner): jobs again.
    Undrain {
        /// Which nodes.
        targets: String,
        /// Why.
        reason: Option<String>,
        /// Nodes that aren't drained are no error.
        force: bool,
    },
    /// `resource.offline` (owner): the nodes are lost. They are drained, and their jobs end by a
    /// `node-failure` exception.
    Offline {
        /// Which nodes.
        targets: String,
        /// Why; also the reason of the drain.
        reason: Option<String>,
    },
    /// `resource.online` (owner): the nodes are there again. They stay drained.
    Online {
        /// Which nodes.
        targets: String,
    },
    /// `resource.reload` (owner): other resources from now on, until the next start.
    Reload {
        /// All of them.
        resources: Box<ResourceSet>,
        /// Also when jobs hold what is no longer there.
        force: bool,
    },
    /// The resources are there until then, in UNIX seconds; 0 for ever. No client asks for that: the
    /// manager does when it is a job of another one whose end has moved.
    End(f64),
    /// `resource.journal` (owner): the log of nodes, then each new line; a stream of
    /// `{"events":[..]}`.
    Journal,
    /// `resource.maintenance-add` (owner): nodes that are to be empty for a while; answer `{"id"}`.
    Maintain {
        /// Which nodes.
        targets: String,
        /// From when, UNIX seconds; now if it isn't said.
        from: Option<f64>,
        /// Until when, UNIX seconds; for ever if it isn't said.
        to: Option<f64>,
        /// Why.
        reason: String,
    },
    /// `resource.maintenance-remove` (owner).
    EndMaintenance {
        /// As it was answered.
        id: u64,
    },
}

/// What a drain does to nodes that are drained already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DrainMode {
    /// It is refused.
    #[default]
    New,
    /// They stay as they are; one without a reason gets this one.
    Update,
    /// They get this reason.
    Overwrite,
    /// They get this reason, and count as drained now.
    Restamp,
}

impl Engine {
    pub(super) fn node_request(&mut self, reply: ReplyTo, cred: Cred, request: NodeRequest) {
        if let Err(error) = owner_only(cred) {
            return self.reply(reply, Err(error));
        }
        let result = match request {
            NodeRequest::Drain { targets, reason, mode } => {
                self.drain_request(cred, &targets, reason.as_deref(), mode)
            }
            NodeRequest::Undrain { targets, reason, force } => {
                self.undrain_request(cred, &targets, reason.as_deref(), force)
            }
            NodeRequest::Offline { targets, reason } => {
                self.targets(&targets).map(|ranks| self.lose(cred, &ranks, reason.as_deref()))
            }
            NodeRequest::Online { targets } => self.targets(&targets).map(|ranks| {
                let back = ranks.intersection(&self.nodes.offline);
                self.node_event("online", &back, Map::new());
            }),
            NodeRequest::Reload { resources, force } => self.reload_nodes(&resources, force),
            NodeRequest::End(end) => self.move_end(end),
            NodeRequest::Journal => {
                let events = json!({ "events": self.nodes.log });
                self.effects.after.push(Effect::Respond { to: reply, payload: events });
                return self.nodes.watchers.push(reply);
            }
            NodeRequest::Maintain { targets, from, to, reason } => {
                let id = self.maintain(&targets, from, to, &reason);
                return self.reply(reply, id.map(|id| json!({ "id": id })));
            }
            NodeRequest::EndMaintenance { id } => self.end_maintenance(id),
        };
        self.reply(reply, result.map(|()| json!({})));
    }

    pub(super) fn targets(&self, text: &str) -> Result<Idset, RequestError> {
        self.nodes.targets(text).map_err(|text| refused(EINVAL, text))
    }

    fn drain_request(
        &mut self,
        cred: Cred,
        targets: &str,
        reason: Option<&str>,
        mode: DrainMode,
    ) -> Result<(), RequestError> {
        let ranks = self.targets(targets)?;
        let excluded = ranks.intersection(&self.nodes.excluded);
        if !excluded.is_empty() {
            let text = format!("{} {excluded} excluded", rank_word(&excluded));
            return Err(refused(EINVAL, text));
        }
        let known = ranks.intersection(&self.nodes.drained_ranks());
        if mode == DrainMode::New && !known.is_empty() {
            let text = format!("{} {known} already drained", rank_word(&known));
            return Err(refused(EEXIST, text));
        }
        self.drain_nodes(&ranks, reason, mode, cred.userid.as_u32());
        Ok(())
    }

    /// Drains nodes; those that are drained already are treated by the mode.
    pub(super) fn drain_nodes(
        &mut self,
        ranks: &Idset,
        reason: Option<&str>,
        mode: DrainMode,
        userid: u32,
    ) {
        let changes = |rank: &u32| match (mode, self.nodes.drained.get(rank)) {
            (_, None) | (DrainMode::Overwrite | DrainMode::Restamp, _) => true,
            (DrainMode::New | DrainMode::Update, Some(known)) => {
                known.reason.is_none() && reason.is_some()
            }
        };
        let ranks: Idset = ranks.iter().filter(changes).collect();
        let overwrite = match mode {
            DrainMode::New | DrainMode::Update => 0,
            DrainMode::Overwrite => 1,
            DrainMode::Restamp => 2,
        };
        let mut context = Map::new();
        if let Some(reason) = reason {
            context.insert("reason".to_owned(), reason.into());
        }
        context.insert("overwrite".to_owned(), overwrite.into());
        context.insert("userid".to_owned(), userid.into());
        self.node_event("drain", &ranks, context);
    }

    fn undrain_request(
        &mut self,
        cred: Cred,
        targets: &str,
        reason: Option<&str>,
        force: bool,
    ) -> Result<(), RequestError> {
        let ranks = self.targets(targets)?;
        let drained = self.nodes.drained_ranks();
        let not = ranks.difference(&drained);
        if !force && !not.is_empty() {
            return Err(refused(EINVAL, format!("{} {not} not drained", rank_word(&not))));
        }
        let mut context = Map::new();
        if let Some(reason) = reason {
            context.insert("reason".to_owned(), reason.into());
        }
        context.insert("userid".to_owned(), cred.userid.as_u32().into());
        self.node_event("undrain", &ranks.intersection(&drained), context);
        Ok(())
    }

    fn reload_nodes(&mut self, resources: &ResourceSet, force: bool) -> Result<(), RequestError> {
        if resources.is_empty() {
            return Err(refused(EINVAL, "R has no resources"));
        }
        let allocated = self.pool.allocated();
        if !force && !allocated.is_subset(resources) {
            let missing = allocated.difference(&resources.intersection(&allocated));
            let text = format!("jobs hold {}, which is not there", missing.summary());
            return Err(refused(EBUSY, text));
        }
        let end = resources.expiration();
        if end.is_some_and(|end| end <= self.now.as_secs()) {
            return Err(refused(EINVAL, "R has expired"));
        }
        let before = self.nodes.inventory.expiration();
        self.nodes.inventory = resources.clone();
        let ranks = resources.ranks();
        self.nodes.drained.retain(|rank, _| ranks.contains(*rank));
        self.nodes.offline = self.nodes.offline.intersection(&ranks);
        self.nodes.excluded = self.nodes.excluded.intersection(&ranks);
        self.pool.set_inventory(resources, &self.nodes.excluded);
        let define = [("method", json!("reload")), ("ranks", json!(ranks.to_string()))];
        self.post_node_event(events::with(self.now, "resource-define", define));
        if end != before {
            self.instance_ends(before.unwrap_or(0.0), end.unwrap_or(0.0));
        }
        Ok(())
    }

    fn move_end(&mut self, end: f64) -> Result<(), RequestError> {
        let mut resources = self.nodes.inventory.clone();
        resources.set_expiration(end).map_err(|error| refused(EINVAL, error.to_string()))?;
        self.reload_nodes(&resources, true)
    }

    /// The end of the instance has moved (0: there is none), and with it the end of jobs that have none
    /// of their own.
    fn instance_ends(&mut self, before: f64, end: f64) {
        let by = |from: f64| ((end - from) * 100.0).round() / 100.0;
        let moved = |from: f64| format!("from {from:.2} to {end:.2} ({:+})", by(from));
        self.log(Level::Info, format!("resource expiration updated {}", moved(before)));
        for id in self.active.clone() {
            let Some(record) = self.jobs.get(&id) else { continue };
            let unlimited = record.job.state == State::Run && record.job.jobspec.duration() == 0.0;
            let Some(resources) = record.job.resources().filter(|_| unlimited) else { continue };
            let theirs = resources.expiration().unwrap_or(0.0);
            self.post(id, events::with(self.now, "resource-update", [("expiration", json!(end))]));
            self.log(Level::Info, format!("updated expiration of {id} {}", moved(theirs)));
        }
    }

    /// Nodes are gone: no new jobs there, and those that are there end.
    fn lose(&mut self, cred: Cred, ranks: &Idset, reason: Option<&str>) {
        let lost = ranks.difference(&self.nodes.offline);
        self.node_event("offline", &lost, Map::new());
        let reason = reason.unwrap_or("node failure");
        self.drain_nodes(&lost, Some(reason), DrainMode::Update, cred.userid.as_u32());
        for id in self.jobs_on(&lost) {
            let Some(held) = self.jobs.get(&id).and_then(|record| record.job.resources()) else {
                continue;
            };
            let theirs = held.ranks().intersection(&lost);
            let note = format!("node failure on {}", self.nodes.named(&theirs));
            self.raise_fatal(id, "node-failure", &note);
        }
    }

    /// The jobs that run on one of these nodes.
    pub(super) fn jobs_on(&self, ranks: &Idset) -> Vec<JobId> {
        let on = |id: &&JobId| {
            self.jobs.get(id).is_some_and(|record| {
                record.job.state == State::Run
                    && record.job.resources().is_some_and(|held| held.ranks().intersects(ranks))
            })
        };
        self.active.iter().filter(on).copied().collect()
    }

    /// Logs an event about nodes and does what follows from it; nothing happens for no nodes.
    fn node_event(&mut self, name: &'static str, ranks: &Idset, more: Map<String, Value>) {
        if ranks.is_empty() {
            return;
        }
        let mut context = Map::new();
        context.insert("idset".to_owned(), ranks.to_string().into());
        context.insert("nodelist".to_owned(), self.nodes.hosts(ranks).into());
        context.extend(more);
        self.post_node_event(events::given(self.now, name, Some(context)));
    }

    /// Logs an event about nodes and applies it.
    pub(super) fn post_node_event(&mut self, entry: EventEntry) {
        self.nodes.apply(&entry);
        let (seq, key) = (self.nodes.lines, RESOURCE_LOG.to_owned());
        self.nodes.lines += 1;
        self.effects.writes.push(Write::AppendInstance { key, seq, line: entry.encode() });
        for to in &self.nodes.watchers {
            let payload = json!({ "events": [entry] });
            self.effects.after.push(Effect::Respond { to: *to, payload });
        }
        self.nodes.log.push(entry);
        self.refresh_nodes();
    }

    /// Tells the pool what it may give out.
    pub(super) fn refresh_nodes(&mut self) {
        self.pool.set_down(self.nodes.down());
        let maintenance: Vec<_> =
            self.nodes.maintenance(self.now).map(|r| r.maintenance.clone()).collect();
        if maintenance != self.pool.maintenance() {
            self.pool.set_maintenance(maintenance);
        }
        self.arm_maintenance();
    }

    /// Takes over the stored log of nodes. Before [`start`](Self::start).
    ///
    /// # Errors
    /// When a line can't be understood: then nobody knows which nodes are drained.
    pub fn restore_nodes(&mut self, log: &str) -> Result<(), String> {
        self.nodes.lines = log.lines().count() as u64;
        let entries =
            decode_log(log).map_err(|error| format!("{RESOURCE_LOG} is damaged: {error}"))?;
        for entry in &entries {
            self.nodes.apply(entry);
        }
        self.nodes.log = entries;
        Ok(())
    }

    /// The first event of a run.
    pub(super) fn start_nodes(&mut self) {
        let (ranks, online) = (self.nodes.inventory.ranks(), self.nodes.online());
        let context = [
            ("ranks", json!(ranks.to_string())),
            ("online", json!(online.to_string())),
            ("exclude", json!(self.nodes.excluded.to_string())),
            ("nodelist", json!(self.nodes.inventory.nodelist().to_string())),
        ];
        self.post_node_event(events::with(self.now, "restart", context));
        let method = match self.config.pointer("/resource/config") {
            Some(_) => "configuration",
            None => "dynamic-discovery",
        };
        let define = [("method", json!(method))];
        self.post_node_event(events::with(self.now, "resource-define", define));
    }

    /// Reads `resource.exclude` and `resource.maintenance`.
    pub(super) fn read_nodes(&mut self) -> Result<(), String> {
        let excluded = match self.config.pointer("/resource/exclude") {
            None => Idset::new(),
            Some(Value::String(text)) if text.is_empty() => Idset::new(),
            Some(Value::String(text)) => {
                self.nodes.targets(text).map_err(|error| format!("resource.exclude: {error}"))?
            }
            Some(_) => return Err("resource.exclude must be a string".to_owned()),
        };
        let maintenance = self.configured_maintenance()?;
        let before = std::mem::replace(&mut self.nodes.excluded, excluded.clone());
        self.nodes.configured = maintenance;
        if before != excluded {
            self.pool.set_excluded(&excluded);
        }
        if self.running {
            self.node_event("exclude", &excluded.difference(&before), Map::new());
            self.node_event("unexclude", &before.difference(&excluded), Map::new());
            self.refresh_nodes();
        }
        Ok(())
    }

    /// `resource.status`: all resources, and what is the matter with nodes.
    pub fn resource_status(&self) -> Value {
        let nodes = &self.nodes;
        json!({
            "R": r(&nodes.inventory),
            "online": nodes.online().to_string(),
            "offline": nodes.offline.to_string(),
            "exclude": nodes.excluded.to_string(),
            "torpid": "",
            "allocated": self.pool.allocated().ranks().to_string(),
            "housekeeping": self.kept_ranks().to_string(),
            "drain": nodes.drain_json(),
            "maintenance": self.maintenance_json(),
        })
    }

    /// `sched.resource-status`: what the scheduler has, what of it is down, what jobs hold.
    pub fn sched_resource_status(&self) -> Value {
        let all = self.pool.all();
        let down = all.with_ranks(self.pool.down());
        json!({ "all": r(all), "down": r(&down), "allocated": r(&self.pool.allocated()) })
    }

    /// Nodes are drained on behalf of a plugin or of the execution system; reasons that are there stay.
    pub(super) fn drain_for_owner(&mut self, ranks: &Idset, reason: &str) {
        let known = ranks.intersection(&self.nodes.inventory.ranks());
        if known.is_empty() {
            let text = format!("drain: {} {ranks} not found: {reason}", rank_word(ranks));
            return self.log(Level::Warning, text);
        }
        let owner = self.owner.as_u32();
        self.drain_nodes(&known, Some(reason), DrainMode::Update, owner);
    }
}

/// R as JSON; null can't happen, as its text is JSON.
fn r(set: &ResourceSet) -> Value {
    serde_json::from_str(&set.to_json()).unwrap_or_default()
}
