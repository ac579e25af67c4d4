//! `job-list.*`: information about jobs.

use std::sync::Arc;

use jobtap_core::engine::Cred;
use jobtap_core::job::Uid;
use serde_json::{Value, json};

use super::handle::{Context, Handle, PendingResponse, written};
use super::{changes, listing, waits};
use crate::rpc::RpcError;
use crate::rpc::errno::EINVAL;
use crate::rpc::service::Service;
use crate::rpc::services::job_list::{
    Changes, GetArray, GetStats, GetUsers, GetWaits, List, ListArrays, ListElements, ListId,
};

impl Handle for List {
    fn handle(mut self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if context.parts.privacy.is_hidden_from(context.cred, context.claim) {
            self.constraint = Some(own_jobs(context.cred, self.constraint));
        }
        Ok(PendingResponse::Jobs(Box::pin(listing::begin(context.engine.clone(), json!(self)))))
    }
}

/// A constraint for the client's own jobs that satisfy `asked`.
fn own_jobs(cred: Cred, asked: Option<Value>) -> Value {
    let own = json!({ "userid": [cred.userid] });
    match asked {
        Some(asked) if asked != json!({}) => json!({ "and": [own, asked] }),
        _ => own,
    }
}

impl Handle for ListId {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(move |engine, _| engine.list_id(self.id))
    }
}

impl Handle for GetArray {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(move |engine, _| engine.array(self.id))
    }
}

impl Handle for ListArrays {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let own = context.parts.privacy.is_hidden_from(context.cred, context.claim);
        let userid = match own {
            true => Some(context.cred.userid),
            false => self.userid.map(Uid::new),
        };
        context.read(move |engine, _| Ok(engine.arrays(userid)))
    }
}

impl Handle for ListElements {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(move |engine, _| engine.elements(self.id, self.indexes.as_ref(), self.active))
    }
}

impl Handle for GetStats {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read(|engine, _| Ok(engine.job_stats()))
    }
}

impl Handle for GetWaits {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { ids } = self;
        if ids.len() > MOST_IDS {
            let words = format!("{}: more than {MOST_IDS} ids are refused", Self::TOPIC);
            return Err(RpcError::new(EINVAL, words));
        }
        let own = context.parts.privacy.is_hidden_from(context.cred, context.claim);
        let userid = own.then_some(context.cred.userid);
        let waits = waits::count(context.engine.clone(), ids, userid);
        PendingResponse::one(async move { written::<Self>(&waits.await?) })
    }
}

/// The maximum number of jobs in a request for what they wait for: the answer is made in one turn of the engine.
const MOST_IDS: usize = 256;

impl Handle for Changes {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if !context.streaming {
            return Err(RpcError::proto(format!("{}: the responses are a stream", Self::TOPIC)));
        }
        Ok(PendingResponse::Feed(changes::stream(context)))
    }
}

impl Handle for GetUsers {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { userids } = self;
        if userids.len() > MOST_USERS {
            let words = format!("{}: more than {MOST_USERS} users are refused", Self::TOPIC);
            return Err(RpcError::new(EINVAL, words));
        }
        let names = Arc::clone(&context.parts.user_names);
        PendingResponse::one(async move { written::<Self>(&names.look_up(&userids).await) })
    }
}

/// The maximum number of users in a request: all of them are looked up by one call of getent(1).
const MOST_USERS: usize = 256;
