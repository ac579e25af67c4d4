//! What a test asks of queues, as administrators do.

use serde_json::Value;

use super::job::TestJob;
use super::manager::TestManager;
use crate::engine::{Cred, Engine, Request};
use crate::queue::{Queues, Target};

const OWNER: Cred = Cred { userid: TestJob::OWNER, owner: true };

impl TestManager {
    /// Starts a queue. Named queues are stopped until somebody starts them.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn start_queue(&mut self, name: &str) -> Result<(), String> {
        self.set_start(Target::named(name), true, None)
    }

    /// Starts all queues.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn start_queues(&mut self) -> Result<(), String> {
        self.set_start(Target::all(), true, None)
    }

    /// Stops a queue, with a reason if there is one.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn stop_queue(&mut self, name: &str, reason: Option<&str>) -> Result<(), String> {
        self.set_start(Target::named(name), false, reason)
    }

    /// Enables submission to a queue.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn enable_queue(&mut self, name: &str) -> Result<(), String> {
        let (target, reason) = (Target::named(name), None);
        self.change(Request::QueueEnable { target, enable: true, reason })
    }

    /// Disables submission to a queue.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn disable_queue(&mut self, name: &str, reason: &str) -> Result<(), String> {
        let (target, reason) = (Target::named(name), Some(reason.to_owned()));
        self.change(Request::QueueEnable { target, enable: false, reason })
    }

    /// The queues as plugins see them; `None` while the manager is dead.
    pub fn queues(&self) -> Option<&Queues> {
        self.engine().map(Engine::queues)
    }

    /// A queue's status object (RFC 33), as administrators are shown it: also whether its scheduler is
    /// offline.
    ///
    /// # Errors
    /// When there is no such queue.
    pub fn queue_status(&self, name: &str) -> Result<Value, String> {
        let engine = self.engine().ok_or("the manager is dead")?;
        engine.queue_status(Some(name)).map_err(|error| error.text)
    }

    fn set_start(
        &mut self,
        target: Target,
        start: bool,
        reason: Option<&str>,
    ) -> Result<(), String> {
        let (reason, nocheckpoint) = (reason.map(str::to_owned), false);
        self.change(Request::QueueStart { target, start, reason, nocheckpoint })
    }

    fn change(&mut self, request: Request) -> Result<(), String> {
        let reply = self.request(OWNER, request);
        self.answer(reply).ok_or("the manager has not answered")?.map(drop)
    }
}
