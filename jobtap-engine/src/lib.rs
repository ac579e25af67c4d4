//! The engine: the life cycle of jobs, as a pure state machine. An [`Input`] and the time go in,
//! [`Effects`] come out. It does no I/O and reads no clock, and it has no threads.
//!
//! ```text
//!  Input ──▶ Engine::handle ──▶ the part that it concerns ──▶ Agenda ──▶ parts, one piece of work
//!                                                                        after the other
//!            Effects ◀── writes, responses, commands ◀───────────────────┘
//! ```
//!
//! | folder or file | what it holds |
//! |---|---|
//! | `api` | inputs and effects |
//! | `events`, `clock` | contexts of events; the time |
//! | `transcript` | what a handler has returned and asked for, as text that can be compared |
//! | `shadows` | plugins that are called alongside the live ones: what each keeps, and how answers are compared |
//! | `agenda` | what is still to be done for the present input |
//! | `turn` | what every step works with: the time, the agenda, the effects |
//! | `jobs` | all jobs, and what events do to them (RFC 21) |
//! | `timers` | timers of the engine and of plugins |
//! | `alloc` | queues, resources and nodes |
//! | `exec` | starting and ending jobs outside, and simulated ones |
//! | `plugins` | the loaded plugins, and what is open with them |
//! | `arrays` | job arrays, and how their elements become jobs |
//! | `submissions` | what is checked before any plugin sees a submission, and who waits for the answer |
//! | `core` | the parts side by side |
//! | `dispatch` | how the handlers of plugins and shadows are called, and what follows from what they ask for |
//! | `life_cycle` | what follows from an event, and the manager's part in each state |
//! | `allocations` | nodes that an elastic instance asks other job managers for |
//! | `requests` | what clients ask for |
//! | `restart` | how a manager continues from the store |
//! | this file | `Engine`, which routes each piece of work to the right function |
//! | `replay` | recorded jobs, shown to the plugins of an `Engine` again |
//! | `mirror` | jobs of another job manager, for hosts that run plugins inside it |
//! | `parts` | jobs across nodes, made of what each node reports about its part |
//!
//! A file imports only from rows above its own in this table. A part owns its data and changes it by its own methods.
//! A function that concerns several parts takes these parts, in the order `turn`, `jobs`, `plugins`, `alloc`, `timers`,
//! so that its signature says what it may touch; or of the turn only the agenda or the effects, if it needs no more.
//! The whole `Core` goes to what calls plugins, since a handler may read everything, and to what concerns most of the
//! parts.

mod agenda;
mod alloc;
mod allocations;
mod api;
mod arrays;
mod clock;
mod core;
mod dispatch;
mod events;
mod exec;
mod jobs;
mod life_cycle;
mod mirror;
pub mod parts;
mod plugins;
mod prefill;
mod replay;
mod requests;
mod restart;
mod shadows;
mod submissions;
mod timers;
mod transcript;
mod turn;

// What the engine is built on, by the names that it has for authors.
use jobtap_sdk::{
    allocation, array, eventlog, host, job, jobspec, json_text, json_type, kept, plugin, queue,
    resource, sched, settings, slurm, suggest, topic,
};

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

pub use alloc::node_events::NodeLogError;
pub use alloc::nodes::RESOURCE_LOG;
pub use alloc::retained::{RETAINED, RetainedError};
pub use allocations::{ALLOCATION_LOG, AllocationLogError};
pub use api::*;
pub use arrays::{ARRAY, ArrayKey, ArrayLogError};
pub use dispatch::{INSTANCE_DATA, PluginStatus, ShadowDifference, ShadowReport, ShadowUser};
pub use exec::{ExecConfigError, end_of_started};
pub use mirror::{JobNow, Mirror, NotApplied, Obsolete};
pub use replay::{RecordedJob, ReplayComparison, ReplayOptions, Replayed, ReplayedAnswer, replay};
pub use requests::listing::{JobBrief, Listed, Listing};
pub use requests::submit::ENVIRONMENT;
pub use requests::waits_for::WaitCount;
pub use restart::{ReadJob, RestoreError};

use self::core::Core;
use crate::host::{HandlerStats, Registry, RemoteSink, Ticks};
use crate::job::{Job, JobId, State, Timestamp, Uid};
use crate::queue::Queues;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicId;
use agenda::{Agenda, Cause, Frame, PendingDispatch, Purpose, Work};
use alloc::Allocation;
use alloc::alloc_queues::AllocQueues;
use alloc::{maintenance, node_events, schedule};
use arrays::Arrays;
use arrays::make::{self, Filled};
use clock::Clock;
use dispatch::{
    chains, commands, dependencies, frames, introduction, loading, priorities, remote, removal,
    retention, shadow,
};
use exec::config::ExecConfig;
use exec::{simulated, time_limit};
use jobs::Jobs;
use jobs::waiters::Waiters;
use life_cycle::actions;
use plugins::Plugins;
use requests::{listing, nodes, purge, queues, submit, update, waits_for, why};
use submissions::Submissions;
use submissions::ingest::Ingest;
use timers::{Due, Timers};
use turn::Turn;

/// The number of jobs that are asked for their priorities in a part of the work. It is small enough that these jobs are
/// still in the processor's cache when they are tidied and written.
const PART: usize = 4096;

/// What an engine is made of.
pub struct Setup {
    /// The user who owns the instance.
    pub owner: Uid,
    /// All resources that jobs can have.
    pub resources: ResourceSet,
    /// The configuration of the instance, an object.
    pub config: Value,
    /// The directory of the configuration, if it comes from a file.
    pub config_directory: Option<PathBuf>,
    /// The linked plugins.
    pub registry: Registry,
    /// Where work outside the engine's thread sends its calls back into plugins.
    pub remote: Arc<dyn RemoteSink>,
    /// Clocks for what handlers cost.
    pub ticks: Ticks,
    /// What the hosts can run.
    pub host_check: HostCheck,
}

/// The engine: decides what becomes of each job.
///
/// A new engine gets its plugins from [`new`](Self::new), its jobs from the `restore` functions, and
/// begins work with [`start`](Self::start). From then on it is driven by [`handle`](Self::handle).
pub struct Engine {
    core: Core,
}

impl Engine {
    /// Makes an engine with its plugins loaded: those that load by default, then those that `[job-manager] plugins` in
    /// the configuration names.
    ///
    /// # Errors
    /// When the configuration has a value that cannot be used, or a plugin cannot be loaded; the text
    /// names it.
    pub fn new(now: Timestamp, setup: Setup) -> Result<Self, StartError> {
        let Setup {
            owner,
            resources,
            config,
            config_directory,
            registry,
            remote,
            ticks,
            host_check,
        } = setup;
        ticks.calls().set_thread();
        let queues = Queues::read(&config).map_err(StartError::from_error)?;
        let alloc_queues = AllocQueues::new(&queues, &registry).map_err(StartError::from_error)?;
        queues::stop_at_restart(&config)?;
        let exec = ExecConfig::read(&config).map_err(StartError::from_error)?;
        let ingest = Ingest::read(&config).map_err(StartError::from_error)?;
        let (allocations, resources) =
            allocations::tables::at_start(&config, resources).map_err(StartError::from_error)?;
        let mut core = Core {
            config,
            config_directory,
            turn: Turn {
                owner,
                clock: Clock::new(now),
                agenda: Agenda::default(),
                effects: Effects::default(),
            },
            jobs: Jobs::default(),
            plugins: Plugins::new(registry, remote, ticks),
            submissions: Submissions::new(ingest, host_check),
            arrays: Arrays::default(),
            waiters: Waiters::default(),
            alloc: Allocation::new(queues, alloc_queues, &resources),
            allocations,
            exec,
            timers: Timers::default(),
            started: false,
        };
        purge::read_limits(&mut core.jobs, &core.config).map_err(StartError::from_error)?;
        if !core.allocations.tables.is_empty() {
            core.alloc.nodes.is_elastic = true;
            core.alloc.pool.let_hosts_change();
        }
        let Core { turn, alloc, timers, config, .. } = &mut core;
        node_events::read_config(turn, alloc, timers, config, false)
            .map_err(StartError::from_error)?;
        loading::load_configured(&mut core)?;
        Ok(Self { core })
    }

    /// Takes one input, with the present time, and works until nothing is left to do for it.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Effects {
        if self.gather(now, input) == Gathered::Part {
            self.settle_all();
        }
        self.take_effects()
    }

    /// Like [`handle`](Self::handle), but the effects wait until [`take_effects`](Self::take_effects) is called, so
    /// that those of many inputs are in one list. If this is only a part of the work, [`go_on`](Self::go_on) has to be
    /// called before the next input.
    pub fn gather(&mut self, now: Timestamp, input: Input) -> Gathered {
        let core = &mut self.core;
        core.turn.clock.now = now;
        match input {
            Input::Request { reply, cred, request } => {
                if let Some((reply, cred, request)) = prefill::admit(core, reply, cred, request) {
                    requests::handle(core, reply, cred, request);
                }
            }
            Input::Allocation(event) => allocations::reports::handle(core, event),
            Input::Exec(event) => {
                let Core { turn, jobs, alloc, timers, exec, .. } = core;
                exec::handle_report(turn, jobs, alloc, timers, *exec, event);
            }
            Input::Timer(id) => self.fire(id),
            Input::WentForward { by } => {
                let Core { turn, jobs, alloc, timers, exec, .. } = core;
                timers.went_forward(&mut turn.effects, by);
                time_limit::move_with_clock(turn, jobs, &alloc.nodes, *exec, by);
            }
            Input::Remote(call) => remote::resume(core, call.plugin, call.work),
            Input::Requester { user, requester } => {
                requests::slurm::begin::identified(core, user, requester)
            }
            Input::Abandoned(reply) => {
                core.plugins.abandon(reply);
                core.waiters.abandon(reply);
                core.arrays.abandon(reply);
                core.alloc.nodes.abandon(reply);
            }
        }
        self.settle()
    }

    /// Does the next part of the work for the last input.
    pub fn go_on(&mut self) -> Gathered {
        self.settle()
    }

    /// Sets whether anything watches jobs; initially the engine assumes so. While nothing does, the effects have only
    /// the number of [events](Effect::Publish): an event is dropped as soon as it has happened, and its memory is used
    /// for the next one.
    pub fn set_watched(&mut self, watched: bool) {
        self.core.turn.effects.set_watched(watched);
    }

    /// Takes the effects of the inputs that were [gathered](Self::gather) since the last call.
    pub fn take_effects(&mut self) -> Effects {
        self.core.turn.effects.take()
    }

    /// Takes the log lines among these effects, which need not wait for the others.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.core.turn.effects.log)
    }

    /// Ends the engine: stores what the next one continues from, and refuses the requests that wait for
    /// jobs. The plugins aren't removed, and their `unload` isn't called.
    pub fn finish(&mut self, now: Timestamp) -> Effects {
        self.core.turn.clock.now = now;
        let Core { turn, jobs, waiters, alloc, .. } = &mut self.core;
        waiters.refuse_all(&mut turn.effects);
        queues::checkpoint(&mut turn.effects, jobs, &alloc.queues);
        self.take_effects()
    }

    /// Dispatches one topic as an event would. For benchmarks.
    #[doc(hidden)]
    pub fn dispatch_for_benchmark(&mut self, topic: TopicId, job: JobId) {
        if self.core.plugins.stack.handles(topic) {
            frames::notify(&mut self.core, PendingDispatch { topic, job, cause: Cause::None });
        }
        self.run_all();
    }

    /// Works off the agenda and allocates resources, until neither leads to more.
    fn settle_all(&mut self) {
        while self.settle() == Gathered::Part {}
    }

    /// Like [`settle_all`](Self::settle_all), until a part of the work is done.
    fn settle(&mut self) -> Gathered {
        let gathered = self.settle_part();
        let Core { turn, jobs, arrays, .. } = &mut self.core;
        arrays.write(&mut turn.effects, turn.clock.now);
        arrays.purge(&mut turn.effects, jobs.inactive.oldest());
        gathered
    }

    fn settle_part(&mut self) -> Gathered {
        loop {
            if self.run() == Gathered::Part {
                return Gathered::Part;
            }
            if let Some((reply, cred, request)) = self.core.alloc.prefill.take_request() {
                requests::handle(&mut self.core, reply, cred, request);
                continue;
            }
            if self.core.started {
                match make::fill(&mut self.core) {
                    Filled::None => {}
                    Filled::Some => continue,
                    Filled::Part => return Gathered::Part,
                }
            }
            let Core { turn, jobs, alloc, timers, started, .. } = &mut self.core;
            if !*started || !schedule::run(turn, jobs, alloc, timers) {
                break;
            }
        }
        prefill::follow_schedule(&mut self.core);
        make::time_refused(&mut self.core);
        allocations::planning::follow(&mut self.core);
        let Core { turn, jobs, waiters, alloc, arrays, .. } = &mut self.core;
        let (counts, waiting) = (&jobs.counts.all, || arrays.waiting());
        let is_settled = || alloc.alloc_queues.is_empty();
        waiters.answer_idle(&mut turn.effects, counts, waiting, is_settled);
        jobs.tidy(&mut turn.effects);
        Gathered::All
    }

    /// Works until the agenda is empty.
    fn run_all(&mut self) {
        while self.run() == Gathered::Part {}
    }

    /// Like [`run_all`](Self::run_all), until a part of the work is done. Routes each piece of work to what it concerns.
    fn run(&mut self) -> Gathered {
        let core = &mut self.core;
        let mut asked = 0;
        while let Some(work) = core.turn.agenda.pop() {
            let Core { turn, jobs, plugins, alloc, .. } = &mut *core;
            match work {
                Work::ApplyNextEvent(id) => life_cycle::apply_next(core, id),
                Work::Notify(pending) => frames::notify(core, pending),
                Work::Frame(frame) => {
                    if let Some(frame) = frames::run(core, frame) {
                        finish_dispatch(core, *frame);
                    }
                }
                Work::Chain(key) => {
                    if let Some(chain) = chains::run(core, key) {
                        requests::slurm::finish::finish(core, *chain);
                    }
                }
                Work::Commands(commands) => commands::carry_out_next(core, commands),
                Work::Recall(id) => prefill::recall(&mut turn.effects, &mut alloc.prefill, id),
                Work::Reports(events) => {
                    let Core { turn, jobs, alloc, timers, exec, .. } = &mut *core;
                    for event in events {
                        exec::handle_report(turn, jobs, alloc, timers, *exec, event);
                    }
                }
                Work::Act(id) => actions::act(core, id),
                Work::Submission(id, step) => submit::step(core, id, step),
                Work::Resume(id) => restart::resume(core, id),
                Work::Orphans(id, step) => restart::handle_orphans(turn, jobs, plugins, id, step),
                Work::RemoveRecord(id) => {
                    plugins.shadows.forget(id);
                    jobs.remove(id);
                    core.arrays.note_purge();
                }
                Work::PostToEach(ids, entry) => {
                    requests::post_to_next(&mut turn.agenda, jobs, ids, entry)
                }
                Work::AskPriorities(ids) if asked >= PART && turn.agenda.is_dispensable() => {
                    turn.agenda.push(Work::AskPriorities(ids));
                    return Gathered::Part;
                }
                Work::AskPriorities(ids) => {
                    asked += 1;
                    priorities::ask_next(turn, jobs, plugins, ids);
                }
                Work::CloseFaulted(plugin) => removal::close_faulted(core, plugin),
                Work::FreeUnconfirmed(plugin, job) => {
                    retention::free_unconfirmed(&mut turn.effects, plugins, alloc, plugin, job)
                }
                Work::Introduce(plugin, ids) => {
                    introduction::introduce_next(turn, jobs, plugins, plugin, ids)
                }
                Work::IntroduceInactive(plugin, ids) => {
                    introduction::introduce_next_inactive(&mut turn.agenda, plugins, plugin, ids);
                }
            }
        }
        Gathered::All
    }

    /// Does what is due when a timer fires.
    fn fire(&mut self, id: TimerId) {
        let core = &mut self.core;
        let Some(due) = core.timers.fire(id, core.turn.clock.now) else { return };
        let Core { turn, jobs, alloc, timers, .. } = &mut *core;
        match due {
            Due::Expire(job) => time_limit::expire(turn, jobs, job),
            Due::Warn { job, warning, expiry } => {
                time_limit::warn(&mut turn.effects, jobs, job, warning, expiry)
            }
            Due::Simulated(job) => simulated::time_out(turn, jobs, job),
            Due::MaintenanceEnd => node_events::end_maintenance(turn, alloc, timers),
            Due::MaintenanceTooNear => maintenance::has_come_too_near(alloc),
            Due::Heartbeat => purge::heartbeat(core),
            Due::AllocationPlan => allocations::planning::run(core),
            // Elements are made when the work for the timer is done.
            Due::RefusedElements => core.arrays.timer_has_fired(),
            Due::SlowLines => prefill::end_slow(turn, alloc, timers),
            Due::Plugin(plugin, _, work) => remote::resume(core, plugin, work),
        }
    }
}

/// Continues after all handlers of a dispatch have been called, according to its purpose.
fn finish_dispatch(core: &mut Core, mut frame: Frame) {
    let Core { turn, jobs, plugins, .. } = &mut *core;
    shadow::beside_live::finish(turn.clock.now, jobs, plugins, &mut frame);
    match frame.purpose {
        Purpose::Notify => frames::finish_notify(turn, jobs, frame),
        Purpose::Introduce => frames::log_refusal(&mut turn.effects, &frame),
        Purpose::Gate(next) => submit::finish_gate(core, frame, next),
        Purpose::Recheck => dependencies::finish_recheck(turn, jobs, plugins, &frame),
        Purpose::PriorityGet => priorities::take_answer(turn, jobs, frame),
        Purpose::Update => update::finish_dispatch(core, frame),
    }
}

/// Restoring, before [`start`](Engine::start).
impl Engine {
    /// Lets the engine hand short jobs to the executor ahead of their turn: see [`ExecStart::after`]. Called before
    /// [`start`](Self::start), with the jobs that the executor has begun by itself for an earlier manager, each after the
    /// job before it.
    pub fn use_prefill(&mut self, begun: &[(JobId, JobId)]) {
        self.core.alloc.prefill.support();
        prefill::restore(&mut self.core, begun);
    }

    /// Restores a job. Plugins are shown an inactive one now, as in Flux, so the caller restores the jobs in the order
    /// of their ids.
    pub fn restore(&mut self, job: ReadJob) {
        // What plugins asked for when they got their configurations waits until all jobs are restored.
        let earlier = std::mem::take(&mut self.core.turn.agenda);
        restart::restore(&mut self.core, job);
        self.run_all();
        self.core.turn.agenda = earlier;
        self.core.jobs.tidy(&mut self.core.turn.effects);
    }

    /// Describes where a summary differs from what the eventlog says; for tests.
    ///
    /// # Errors
    /// When the eventlog cannot be replayed.
    #[doc(hidden)]
    pub fn summary_difference(
        stored: StoredJob,
        summary: &str,
    ) -> Result<Option<String>, RestoreError> {
        restart::summary_difference(stored, summary)
    }

    /// Restores an array from what is stored below its id. To be called before its jobs are restored.
    ///
    /// # Errors
    /// When a part of it can't be read: then it is not known which elements are jobs.
    pub fn restore_array(
        &mut self,
        id: JobId,
        jobspec: String,
        elements: &str,
        eventlog: &str,
    ) -> Result<(), ArrayLogError> {
        let array = arrays::Array::stored(id, jobspec, elements, eventlog)?;
        self.core.jobs.note_id(id);
        self.core.arrays.restore(array);
        Ok(())
    }

    /// Restores the data that a plugin stored about the instance, under [`INSTANCE_DATA`] and its name.
    pub fn restore_instance_data(&mut self, plugin: &str, text: &str) {
        // A value that cannot be read is reported when the plugin asks for it.
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        self.core.plugins.instance_data.insert(plugin.to_owned(), value);
    }

    /// Restores what a plugin retained of a job's resources: the value that is stored under
    /// [`RETAINED`] and `key`.
    ///
    /// # Errors
    /// When the value cannot be read; then nothing is retained.
    pub fn restore_retained(&mut self, key: &str, text: &str) -> Result<(), RetainedError> {
        self.core.alloc.retained.restore(key, text)
    }

    /// Restores the state of the nodes from their stored log.
    ///
    /// # Errors
    /// When a line cannot be read: then it is not known which nodes are drained.
    pub fn restore_nodes(&mut self, log: &str) -> Result<(), NodeLogError> {
        node_events::restore(&mut self.core.alloc.nodes, log)
    }

    /// Restores the allocations that an earlier manager has asked for, from their stored log, [`ALLOCATION_LOG`]. To be
    /// called before [`restore_nodes`](Self::restore_nodes) and [`restore`](Self::restore): the nodes of these allocations
    /// have their own names then.
    ///
    /// # Errors
    /// When the log can't be read, or the configuration has no place for an allocation that may still run. The manager
    /// must not start then: it could ask for an allocation twice, or forget one.
    pub fn restore_allocations(&mut self, log: &str) -> Result<(), AllocationLogError> {
        allocations::restart::restore(&mut self.core, log)
    }

    /// Restores a [`checkpoint`](Self::checkpoint) of the last run. What it does not contain stays as it is.
    ///
    /// # Errors
    /// When a later version of the manager wrote it.
    pub fn restore_checkpoint(&mut self, checkpoint: &Value) -> Result<(), StartError> {
        let Core { jobs, alloc, config, .. } = &mut self.core;
        restart::restore_checkpoint(jobs, alloc, config, checkpoint)
    }

    /// Stops scheduling in all queues, for this run only, so that an administrator can look at the jobs first. To be
    /// called after [`restore_checkpoint`](Self::restore_checkpoint).
    pub fn stop_queues_for_this_run(&mut self, reason: &str) {
        self.core.alloc.queues.stop_for_this_run(reason);
    }

    /// Begins work: introduces the restored jobs to the plugins, and continues each of them.
    pub fn start(&mut self, now: Timestamp) -> Effects {
        self.core.turn.clock.now = now;
        restart::start(&mut self.core);
        self.settle_all();
        self.take_effects()
    }

    /// What a restart must know besides the jobs' own keys.
    pub fn checkpoint(&self) -> Write {
        queues::checkpoint_of(&self.core.jobs, &self.core.alloc.queues)
    }
}

/// What clients read. This takes no input and changes nothing.
impl Engine {
    /// The user and state of a job; `None` if clients cannot know about it.
    pub fn job_exists(&self, id: JobId) -> Option<JobBrief> {
        listing::brief(&self.core, id)
    }

    /// A job as plugins see it.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.core.jobs.job(id)
    }

    /// `job-list.list`: `{"jobs":[..]}`, pending jobs by priority, then running ones by start, then
    /// inactive ones by end.
    ///
    /// # Errors
    /// When the constraint cannot be read.
    pub fn list(&self, payload: &Value) -> Result<Value, RequestError> {
        listing::list(&self.core, payload)
    }

    /// Begins a listing that is read job by job by [`next_listed`](Self::next_listed), so that neither
    /// its response nor the work for it is larger than its reader can take.
    ///
    /// # Errors
    /// When the constraint cannot be read.
    pub fn begin_list(&self, payload: &Value) -> Result<Listing, RequestError> {
        listing::begin(&self.core, payload)
    }

    /// The next step of a listing. Each job is listed once, as it is when its turn comes, if it is selected then.
    pub fn next_listed(&self, listing: &mut Listing) -> Listed {
        listing::next(&self.core, listing)
    }

    /// The number of running jobs, in RUN or CLEANUP.
    pub fn running_jobs(&self) -> u64 {
        self.core.jobs.counts.all.count(&[State::Run, State::Cleanup])
    }

    /// The ids of all active jobs, in order.
    pub fn active_jobs(&self) -> Vec<JobId> {
        listing::active_ids(&self.core)
    }

    /// `job-list.list-id`: `{"job":{..}}`.
    ///
    /// # Errors
    /// ENOENT for an unknown job.
    pub fn list_id(&self, id: JobId) -> Result<Value, RequestError> {
        listing::list_id(&self.core, id)
    }

    /// `job-list.job-stats`.
    pub fn job_stats(&self) -> Value {
        listing::stats(&self.core)
    }

    /// `job-list.array`: what has become of the elements of an array, as sets of indexes:
    /// `{"id","userid","urgency","name","queue","t_submit","count","indexes","waiting","pending","running","completed",
    /// "failed","canceled","timeout","over","refused"}`. `pending` and `running` are numbers of jobs; `refused` is there
    /// while elements are refused.
    ///
    /// # Errors
    /// ENOENT for an unknown array.
    pub fn array(&self, id: JobId) -> Result<Value, RequestError> {
        requests::arrays::array(&self.core, id)
    }

    /// `job-list.arrays`: `{"arrays":[..]}`, all arrays with elements that aren't jobs yet; of one user, if one is given.
    pub fn arrays(&self, userid: Option<Uid>) -> Value {
        requests::arrays::open(&self.core, userid)
    }

    /// `job-list.elements`: the jobs of these elements of an array, `{"jobs":{"INDEX":ID}}`. Elements that aren't jobs
    /// yet are left out, and with `active` those whose jobs are inactive.
    ///
    /// # Errors
    /// ENOENT for an unknown array.
    pub fn elements(
        &self,
        id: JobId,
        indexes: Option<&Idset>,
        active: bool,
    ) -> Result<Value, RequestError> {
        requests::arrays::elements(&self.core, id, indexes, active)
    }

    /// `job-manager.getinfo`.
    pub fn getinfo(&self) -> Value {
        let newest = self.core.jobs.newest_id.map_or(0, JobId::as_u64);
        serde_json::json!({ "max_jobid": newest })
    }

    /// `job-manager.why`: what a job waits for, `{"id","state","reasons":[{"kind","text",..}]}`. The
    /// text of a reason is a sentence for the user.
    ///
    /// # Errors
    /// ENOENT for an unknown job, EPERM for another user's.
    pub fn why(&self, id: JobId, cred: Cred) -> Result<Value, RequestError> {
        why::why(&self.core, id, cred)
    }

    /// What a job or the pending elements of an array wait for first; `None` for one that isn't known or waits for
    /// nothing.
    pub fn waits_for(&self, id: JobId) -> Option<WaitsFor> {
        waits_for::of_id(&self.core, id)
    }

    /// Begins to count how many jobs wait for what, those of one user or all; [`count_waits`](Self::count_waits) counts
    /// them.
    pub fn begin_waits(&self, userid: Option<Uid>) -> WaitCount {
        waits_for::begin_count(&self.core, userid)
    }

    /// Counts up to this many more jobs. Returns false when all are counted.
    pub fn count_waits(&self, count: &mut WaitCount, jobs: usize) -> bool {
        waits_for::count_next(&self.core, count, jobs)
    }

    /// The resources that are not allocated.
    pub fn free_resources(&self) -> &ResourceSet {
        self.core.alloc.pool.free()
    }

    /// The named queues.
    pub fn queues(&self) -> &Queues {
        &self.core.alloc.queues
    }

    /// `job-manager.queue-list`: `{"queues":[NAME,..]}`, empty for the anonymous queue.
    pub fn queue_names(&self) -> Value {
        queues::names(&self.core.alloc)
    }

    /// `job-manager.queue-status`: the status object of RFC 33 of one queue.
    ///
    /// # Errors
    /// EINVAL for an unknown queue, or when none is named and there are named queues.
    pub fn queue_status(&self, name: Option<&str>) -> Result<Value, RequestError> {
        queues::status(&self.core.alloc, name)
    }

    /// `job-manager.queue-overview`: `{"queues":[{..}]}`, each queue with its status, defaults, limits, scheduler and
    /// resources, in the order of the configuration.
    pub fn queue_overview(&self) -> Value {
        queues::overview(&self.core.alloc)
    }

    /// `allocation.list`: the tables and allocations of an elastic instance, `{"allocations":[..],"tables":[..]}`; both
    /// lists are empty for other instances. Times are UNIX times; a key without a value is absent.
    ///
    /// Each allocation is `{"id","table","state","job","reason","ranks","nodes","hosts","online","time_limit","t_asked",
    /// "t_started","t_end","t_idle"}`. `state` is `asked`, `waiting`, `running`, `draining` or `ending`; `job` is its id
    /// outside; `reason` is why it waits or is given back; `ranks` are the places of its nodes and `nodes` the number of them;
    /// `hosts` is the hostlist of the nodes that have joined, `online` the ranks of those that aren't lost; `time_limit` is in seconds; `t_end` is
    /// when it ends at the latest; `t_idle` is since when it has had no job.
    ///
    /// Each table is `{"name","engine","nodes","cores","gpus","min","max","time_limit","count","core_hours",
    /// "core_hours_per_day","requests","requests_per_hour","refusals","refusal","t_next"}`. `count` is the number of its
    /// allocations; `core_hours` are those that were used in the last 24 hours or are granted; `requests` is the number of
    /// the last hour; `refusals` is how often it was refused since a node has last joined, `refusal` the last reason;
    /// `t_next` is when it may be asked again, if it has to wait.
    pub fn allocations(&self) -> Value {
        allocations::listing::list(&self.core)
    }

    /// `job-manager.alloc-query`: `{"queue_length","alloc_pending","running"}`.
    pub fn alloc_query(&self) -> Value {
        queues::alloc_query(&self.core)
    }

    /// `resource.status`: all resources, and the state of the nodes.
    pub fn resource_status(&self) -> Value {
        nodes::status(&self.core.alloc, self.core.turn.clock.now)
    }

    /// `sched.resource-status`: what the scheduler can allocate, which part of that is down, and what is allocated.
    pub fn sched_resource_status(&self) -> Value {
        nodes::sched_status(&self.core.alloc)
    }

    /// The loaded plugins in stack order.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        loading::list(&self.core.plugins)
    }

    /// The shadows in the order in which they were loaded. A shadow that was stopped is `faulted`.
    pub fn shadows(&self) -> Vec<PluginStatus> {
        shadow::manage::list(&self.core.plugins)
    }

    /// What a shadow would have done differently from the live plugins.
    ///
    /// # Errors
    /// When no shadow of this name is loaded.
    pub fn shadow_report(&self, name: &str) -> Result<ShadowReport, RequestError> {
        shadow::report(&self.core, name)
    }

    /// Statistics about the handlers of all plugins, or of one.
    ///
    /// # Errors
    /// When no plugin of this name is loaded.
    pub fn plugin_stats(
        &self,
        name: Option<&str>,
    ) -> Result<Vec<(String, Vec<HandlerStats>)>, RequestError> {
        requests::plugins::stats(&self.core.plugins, name)
    }

    /// The JSON Schema of a linked plugin's own configuration; null when it takes none.
    ///
    /// # Errors
    /// When no plugin of this name is linked.
    pub fn plugin_schema(&self, name: &str) -> Result<Value, RequestError> {
        requests::plugins::schema(&self.core.plugins, name)
    }
}

/// For tests that decide themselves which job starts.
impl Engine {
    /// Allocates resources to a job in SCHED, bypassing its scheduler; returns whether there were enough.
    pub fn allocate_now(&mut self, now: Timestamp, id: JobId) -> (bool, Effects) {
        self.core.turn.clock.now = now;
        let Core { turn, jobs, alloc, .. } = &mut self.core;
        let granted = schedule::allocate_now(turn, jobs, alloc, id);
        self.settle_all();
        (granted, self.take_effects())
    }
}
