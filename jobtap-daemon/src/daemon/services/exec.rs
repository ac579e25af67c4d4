//! `rexec.*`. The table of services says who may call it, and that announcements are recorded.

use std::sync::Arc;

use tokio::sync::mpsc::{Sender, channel};

use super::handle::{Context, Handle, PendingResponse, written};
use crate::daemon::node_commands::{NodeCommands, Running};
use crate::exec::nodes::ToCommand;
use crate::rpc::errno::{ENODATA, ENOENT, ENOSYS};
use crate::rpc::service::Service;
use crate::rpc::services::Done;
use crate::rpc::services::exec::{Announce, Exec, Happened, Kill, Write};
use crate::rpc::{RpcError, RpcResult};

impl Handle for Announce {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        PendingResponse::now::<Self>(&Done {})
    }
}

impl Handle for Exec {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { rank, command } = self;
        let commands = commands(context)?;
        let running = commands.run(rank, command);
        let (to, feed) = channel(1);
        tokio::spawn(pass_on(Arc::clone(commands), running, to));
        Ok(PendingResponse::Feed(feed))
    }
}

impl Handle for Write {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { key, data, eof } = self;
        let more = data.map(ToCommand::Input).into_iter();
        let messages = more.chain(eof.then_some(ToCommand::EndOfInput)).collect();
        send::<Self>(context, key, messages)
    }
}

impl Handle for Kill {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { key, signum } = self;
        send::<Self>(context, key, vec![ToCommand::Signal(signum)])
    }
}

fn commands<'a>(context: &Context<'a>) -> Result<&'a Arc<NodeCommands>, RpcError> {
    context.parts.commands.as_ref().ok_or_else(|| {
        RpcError::new(ENOSYS, "all ranks are this host, where a client runs its commands itself")
    })
}

/// Passes on what happens to a command, until it has ended or its client has left.
async fn pass_on(commands: Arc<NodeCommands>, running: Running, client: Sender<RpcResult>) {
    let Running { key, mut happenings } = running;
    loop {
        let happened = tokio::select! {
            happened = happenings.recv() => happened,
            () = client.closed() => None,
        };
        let Some(happened) = happened else { break };
        let response = written::<Exec>(&Happened { key, happened });
        if client.send(response).await.is_err() {
            break;
        }
    }
    commands.forget(key);
    let _ = client.send(Err(RpcError::new(ENODATA, ""))).await;
}

/// Sends messages to a command. The response comes when they are on their way, so that a client that waits for it can't
/// send faster than the node takes.
fn send<S: Service<Response = Done>>(
    context: &Context<'_>,
    key: u64,
    messages: Vec<ToCommand>,
) -> Result<PendingResponse, RpcError> {
    let gone = || RpcError::new(ENOENT, "the command has ended");
    let to = commands(context)?.sender(key).ok_or_else(gone)?;
    PendingResponse::one(async move {
        for message in messages {
            to.send(message).await.map_err(|_| gone())?;
        }
        written::<S>(&Done {})
    })
}
