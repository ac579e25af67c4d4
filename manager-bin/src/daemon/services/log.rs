//! `log.*`: the manager's log. The log itself is in [`log`](crate::daemon::log).

use super::{Call, Handle, Reply};
use crate::rpc::RpcError;
use crate::rpc::services::Done;
use crate::rpc::services::log::{Clear, Dmesg, Shown};

impl Handle for Dmesg {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        let log = &call.parts.log;
        if call.streaming {
            return Ok(Reply::Feed(log.follow(!self.nobacklog)));
        }
        let lines = log.lines();
        Reply::now(&Shown::All { lines: lines.iter().map(|line| line.shown()).collect() })
    }
}

impl Handle for Clear {
    fn handle(self, call: &Call<'_>) -> Result<Reply, RpcError> {
        call.parts.log.clear();
        Reply::now(&Done {})
    }
}
