//! `job-manager.*`: changes of jobs, and the state of the manager.

use jobtap_core::engine::{Engine, RaisedException, Request};
use serde_json::{Value, json};

use super::events_journal::{self, Wanted};
use super::handle::{Context, Handle, PendingResponse};
use crate::daemon::engine::answered;
use crate::daemon::rights::privacy::without_jobs;
use crate::rpc::RpcError;
use crate::rpc::errno::ENOSYS;
use crate::rpc::service::Service;
use crate::rpc::services::job_manager::{
    EventsJournal, GetInfo, GetStats, GetUptime, Kill, KillAll, Memo, Purge, PurgeId, Raise,
    RaiseAll, RaiseElements, Requeue, Restart, Restarting, SetUrgency, Update, Uptime, Wait,
    WaitArray, Why, user,
};
use crate::rpc::services::plugin::HousekeepingList;
use crate::stderr;

impl Handle for Raise {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, kind, severity, note } = self;
        Ok(PendingResponse::FromEngine(Request::Raise {
            id,
            exception: RaisedException::new(kind, severity, note),
        }))
    }
}

impl Handle for RaiseElements {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { raise: Raise { id, kind, severity, note }, indexes } = self;
        let exception = RaisedException::new(kind, severity, note);
        Ok(PendingResponse::FromEngine(Request::RaiseElements { id, indexes, exception }))
    }
}

impl Handle for WaitArray {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.wait(Request::WaitArray { id: self.id })
    }
}

impl Handle for RaiseAll {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let states = self.state_set();
        let Self { dry_run, userid, kind, severity, note, .. } = self;
        let exception = RaisedException::new(kind, severity, note);
        Ok(PendingResponse::FromEngine(Request::RaiseAll {
            dry_run,
            userid: user(userid),
            states,
            exception,
        }))
    }
}

impl Handle for Kill {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, signum, reach } = self;
        Ok(PendingResponse::FromEngine(Request::Kill { id, signum, reach }))
    }
}

impl Handle for Requeue {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, hold } = self;
        Ok(PendingResponse::FromEngine(Request::Requeue { id, hold }))
    }
}

impl Handle for KillAll {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { dry_run, userid, signum } = self;
        Ok(PendingResponse::FromEngine(Request::KillAll { dry_run, userid: user(userid), signum }))
    }
}

impl Handle for SetUrgency {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, urgency } = self;
        Ok(PendingResponse::FromEngine(Request::Urgency { id, urgency }))
    }
}

impl Handle for Update {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, updates } = self;
        Ok(PendingResponse::FromEngine(Request::Update { id, updates }))
    }
}

impl Handle for Memo {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, volatile, memo } = self;
        Ok(PendingResponse::FromEngine(Request::Memo { id, volatile, memo }))
    }
}

impl Handle for Why {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let hidden = context.parts.privacy.is_hidden_from(context.cred, context.claim);
        context.read(move |engine, cred| {
            let reasons = engine.why(self.id, cred)?;
            Ok(if hidden { without_jobs(reasons) } else { reasons })
        })
    }
}

impl Handle for Wait {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.wait(Request::Wait { id: self.job()? })
    }
}

impl Handle for Purge {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { age_limit, num_limit, batch, force } = self;
        Ok(PendingResponse::FromEngine(Request::Purge { age_limit, num_limit, batch, force }))
    }
}

impl Handle for PurgeId {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { id, force } = self;
        Ok(PendingResponse::FromEngine(Request::PurgeId { id, force }))
    }
}

impl Handle for EventsJournal {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let wanted = Wanted::from_request(self)?;
        if !context.streaming {
            return Err(RpcError::proto("job-manager.events requires streaming RPC flag"));
        }
        let (engine, records) = (context.engine.clone(), context.parts.records.clone());
        let journal = &context.parts.journal;
        Ok(PendingResponse::Feed(events_journal::stream(
            journal,
            engine,
            records,
            context.cred,
            wanted,
        )))
    }
}

impl Handle for GetInfo {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.getinfo()))
    }
}

impl Handle for GetStats {
    /// A part of the response comes from a plugin.
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let listeners = context.parts.journal.listeners();
        let stats = answered(context.engine.read(move |engine| Ok(stats(engine, listeners))));
        let topic = HousekeepingList::TOPIC.to_owned();
        let request = Request::Service { topic, payload: json!({}), streaming: false };
        let mut housekeeping = context.engine.stream(context.cred, request);
        PendingResponse::one(async move {
            let mut stats = stats.await?;
            // Without a configuration the plugin is not loaded, and nothing runs.
            let told = match housekeeping.next().await {
                Err(error) if error.errno == ENOSYS => json!({ "running": {}, "config": {} }),
                told => told?,
            };
            if let Some(stats) = stats.as_object_mut() {
                stats.insert("housekeeping".to_owned(), told);
            }
            Ok(stats)
        })
    }
}

/// The statistics of the manager itself.
fn stats(engine: &Engine, listeners: usize) -> Value {
    let (stats, info) = (engine.job_stats(), engine.getinfo());
    let jobs = |state: &str| {
        stats.pointer(&format!("/job_states/{state}")).and_then(Value::as_u64).unwrap_or(0)
    };
    let inactive = jobs("inactive");
    json!({
        "journal": { "listeners": listeners },
        "active_jobs": jobs("total").saturating_sub(inactive),
        "inactive_jobs": inactive,
        "max_jobid": info.get("max_jobid"),
        "stderr": { "dropped": stderr::dropped() },
    })
}

impl Handle for GetUptime {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let starttime = context.parts.audit.since().as_secs();
        PendingResponse::now::<Self>(&Uptime { starttime, owner: context.parts.owner })
    }
}

impl Handle for Restart {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.parts.restart.notify_one();
        PendingResponse::now::<Self>(&Restarting { pid: i32::try_from(std::process::id()).ok() })
    }
}
