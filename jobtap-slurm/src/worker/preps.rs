//! A prolog or epilog while its handlers run.
//!
//! All handlers of its topics are called. The asynchronous ones run concurrently, and the prolog or epilog
//! ends with the last of them. It fails if one handler has failed.

use futures_util::future::AbortHandle;
use jobtap_core::host::{BoundHandler, Detail, PluginKey, RequestKey};
use jobtap_core::job::{Job, JobId};
use jobtap_core::plugin::Level;
use jobtap_core::topic::TopicId;

use super::core::{Core, text_of};
use super::messages::{Message, PrepCall, Reply};
use super::open::{Open, Prep};
use crate::daemon::PrepEnd;

impl Core {
    pub(super) fn begin_prep(&mut self, key: RequestKey, call: PrepCall, reply: Reply<PrepEnd>) {
        let PrepCall { part, topics, job, node } = call;
        let Some(topic) = topics.last().copied() else { return };
        let serial = self.next_key;
        self.next_key += 1;
        let limit = self.daemon.prep_timeout(part);
        let timer = limit.map(|limit| self.after(limit, Message::PrepTimeout(serial)));
        let job = job.into_job();
        let (open, failure, is_cancelled) = Default::default();
        let calling = true;
        let prep = Prep {
            key,
            serial,
            job: job.id(),
            topic,
            calling,
            open,
            failure,
            is_cancelled,
            timer,
            reply,
        };
        self.preps.push(prep);
        for topic in topics {
            let detail = match (&node, topic.is_state_topic()) {
                (Some(node), _) => Detail::Node(node),
                (None, true) => Detail::State { prev: None, entry: None },
                (None, false) => Detail::None,
            };
            let handlers = self.stack.handlers(*topic).cloned();
            for bound in handlers.iter().flat_map(|list| list.iter()) {
                self.call_for_prep(serial, bound, *topic, &job, detail);
            }
        }
        if let Some(prep) = self.preps.iter_mut().find(|prep| prep.serial == serial) {
            prep.calling = false;
        }
        self.end_prep_if_done(serial);
    }

    fn call_for_prep(
        &mut self,
        serial: u64,
        bound: &BoundHandler,
        topic: TopicId,
        job: &Job,
        detail: Detail<'_>,
    ) {
        let called = self.call(bound, topic, Some(job), detail);
        if let Err(fault) = self.settle(called) {
            let text = text_of(&fault);
            if topic.is_state_topic() {
                // As in every host, a handler of a state topic can't fail the job: its failure is only logged.
                let line = format!("{}: job {}: {text}", topic.name(), job.id().as_u64());
                return self.log(bound.instance(), Level::Error, &line);
            }
            self.note_failure(serial, bound.plugin(), text);
        }
    }

    fn note_failure(&mut self, serial: u64, plugin: PluginKey, text: String) {
        let Some(prep) = self.preps.iter_mut().find(|prep| prep.serial == serial) else { return };
        let line = format!("{}: job {}: {text}", prep.topic.name(), prep.job.as_u64());
        prep.failure.get_or_insert(text);
        self.log_of(plugin, Level::Error, &line);
    }

    /// Notes that an asynchronous handler has begun.
    pub(super) fn open_prep(&mut self, plugin: PluginKey, job: JobId, description: String) {
        // The handlers that are being called are those of the last one.
        if let Some(prep) = self.preps.last_mut().filter(|prep| prep.calling && prep.job == job) {
            prep.open.push(Open { plugin, description, abort: None, runs_on: false });
        }
    }

    pub(super) fn begin_prep_work(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        description: &str,
        abort: AbortHandle,
        runs_on: bool,
    ) {
        if let Some((_, open)) = self.find_open(plugin, job, description) {
            open.abort = Some(abort);
            open.runs_on = runs_on;
        }
    }

    fn find_open(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        description: &str,
    ) -> Option<(u64, &mut Open)> {
        let of_job = self.preps.iter_mut().filter(|prep| prep.job == job);
        let mut all = of_job.flat_map(|prep| {
            let serial = prep.serial;
            prep.open.iter_mut().map(move |open| (serial, open))
        });
        all.find(|(_, open)| open.plugin == plugin && open.description == description)
    }

    /// Notes that an asynchronous handler has ended.
    pub(super) fn finish_prep(
        &mut self,
        plugin: PluginKey,
        job: JobId,
        description: &str,
        failure: Option<String>,
    ) {
        let Some((serial, _)) = self.find_open(plugin, job, description) else { return };
        if let Some(text) = failure {
            self.note_failure(serial, plugin, text);
        }
        if let Some(prep) = self.preps.iter_mut().find(|prep| prep.serial == serial) {
            prep.open.retain(|open| open.plugin != plugin || open.description != description);
        }
        self.end_prep_if_done(serial);
    }

    fn end_prep_if_done(&mut self, serial: u64) {
        let is_done = |prep: &Prep| prep.serial == serial && !prep.calling && prep.open.is_empty();
        let Some(place) = self.preps.iter().position(is_done) else { return };
        let prep = self.preps.remove(place);
        self.forget_data(prep.job);
        if let Some(timer) = prep.timer {
            timer.abort();
        }
        prep.reply.send(match prep.failure {
            Some(text) => PrepEnd::Failed(text),
            None if prep.is_cancelled => PrepEnd::Cancelled,
            None => PrepEnd::Done,
        });
    }

    /// Drops the work of a canceled job, except the work that is to keep running.
    pub(super) fn cancel_prep(&mut self, key: RequestKey) {
        let Some(prep) = self.preps.iter_mut().find(|prep| prep.key == key) else { return };
        prep.is_cancelled = true;
        let (serial, topic, job) = (prep.serial, prep.topic.name(), prep.job.as_u64());
        let dropped: Vec<Open> = prep.open.extract_if(.., |open| !open.runs_on).collect();
        for open in dropped {
            open.abort.iter().for_each(AbortHandle::abort);
            let text = format!("{topic}: job {job}: dropped, since the job was cancelled");
            self.log_of(open.plugin, Level::Info, &text);
        }
        self.end_prep_if_done(serial);
    }

    /// Drops all work that is still running when `PrologEpilogTimeout` has passed.
    pub(super) fn end_late_prep(&mut self, serial: u64) {
        let Some(place) = self.preps.iter().position(|prep| prep.serial == serial) else { return };
        let prep = self.preps.remove(place);
        self.forget_data(prep.job);
        for open in &prep.open {
            open.abort.iter().for_each(AbortHandle::abort);
            let (topic, job) = (prep.topic.name(), prep.job.as_u64());
            let text = format!("{topic}: job {job}: no end within PrologEpilogTimeout");
            self.log_of(open.plugin, Level::Error, &text);
        }
        prep.reply.send(PrepEnd::TimedOut);
    }
}
