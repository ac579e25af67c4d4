//! The services about nodes: from topic and payload to what the engine is asked.

use jobtap_core::engine::{Cred, DrainMode, NodeRequest, Request};

use jobtap_core::resource::ResourceSet;
use serde_json::Value;

use super::services::{Call, Fields, Read, owner};
use crate::rpc::RpcError;
use crate::rpc::errno::{EINVAL, ENOSYS};

/// What a request about nodes asks for.
pub(super) fn decode(fields: &Fields<'_>, cred: Cred) -> Result<Call, RpcError> {
    let request = match fields.topic {
        "resource.status" => return Ok(Call::Read(Read::ResourceStatus)),
        "sched.resource-status" => return Ok(Call::Read(Read::SchedStatus)),
        "resource.journal" => {
            owner(cred)?;
            return Ok(Call::Stream(Request::Nodes(NodeRequest::Journal)));
        }
        "resource.drain" => NodeRequest::Drain {
            targets: fields.required("targets")?,
            reason: fields.optional("reason")?,
            mode: mode(fields)?,
        },
        "resource.undrain" => NodeRequest::Undrain {
            targets: fields.required("targets")?,
            reason: fields.optional("reason")?,
            force: fields.optional::<String>("mode")?.is_some_and(|mode| mode == "force"),
        },
        "resource.reload" => NodeRequest::Reload {
            resources: Box::new(resources(fields)?),
            force: fields.optional("force")?.unwrap_or(false),
        },
        "resource.offline" => NodeRequest::Offline {
            targets: fields.required("targets")?,
            reason: fields.optional("reason")?,
        },
        "resource.online" => NodeRequest::Online { targets: fields.required("targets")? },
        "resource.maintenance-add" => NodeRequest::Reserve {
            targets: fields.required("targets")?,
            from: fields.optional("from")?,
            to: fields.optional("to")?,
            reason: fields.optional("reason")?.unwrap_or_default(),
        },
        "resource.maintenance-remove" => {
            NodeRequest::RemoveReservation { id: fields.required("id")? }
        }
        topic => {
            return Err(RpcError::new(ENOSYS, format!("Unknown service method '{topic}'")));
        }
    };
    Ok(Call::Engine(Request::Nodes(request)))
}

fn resources(fields: &Fields<'_>) -> Result<ResourceSet, RpcError> {
    let r: Value = fields.required("R")?;
    r.to_string().parse().map_err(|error| RpcError::new(EINVAL, format!("R: {error}")))
}

fn mode(fields: &Fields<'_>) -> Result<DrainMode, RpcError> {
    Ok(match fields.optional::<String>("mode")?.as_deref() {
        None => DrainMode::New,
        Some("update") => DrainMode::Update,
        Some("overwrite") => DrainMode::Overwrite,
        Some("force-overwrite") => DrainMode::Restamp,
        Some(_) => return Err(RpcError::new(EINVAL, "invalid mode specified")),
    })
}
