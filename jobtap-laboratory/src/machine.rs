//! The machine of a simulation: from `--nodes`, else from the configuration, else from the trace.

use std::collections::BTreeMap;

use jobtap_core::allocation::Tables;
use jobtap_core::resource::ResourceSet;
use jobtap_core::simulation::{self, Header};
use jobtap_daemon::daemon::resources::{self, ResourceError};
use serde_json::Value;

use crate::error::SimulateError;

/// Equal nodes: `NODES`, `NODESxCORES` or `NODESxCORESxGPUS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    nodes: u32,
    cores: u32,
    gpus: u32,
}

/// A text that describes no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no machine: use NODES, NODESxCORES or NODESxCORESxGPUS, as 128x32x4")]
pub struct NoShape(String);

impl std::str::FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let wrong = || NoShape(text.to_owned());
        let numbers: Option<Vec<u32>> = text.split('x').map(|part| part.parse().ok()).collect();
        let (nodes, cores, gpus) = match numbers.as_deref() {
            Some([nodes]) => (*nodes, 1, 0),
            Some([nodes, cores]) => (*nodes, *cores, 0),
            Some([nodes, cores, gpus]) => (*nodes, *cores, *gpus),
            _ => return Err(wrong()),
        };
        if nodes == 0 || cores == 0 || nodes > MOST || cores > MOST || gpus > MOST {
            return Err(wrong());
        }
        Ok(Self { nodes, cores, gpus })
    }
}

/// More nodes or cores than any machine has, so that a typo doesn't use up all memory.
const MOST: u32 = 1 << 22;

/// The machine of a simulation.
pub(crate) struct Machine {
    /// What the manager has at first.
    pub(crate) own: ResourceSet,
    /// What jobs can have: the same, or the nodes of the allocations that the manager may ask for.
    pub(crate) resources: ResourceSet,
}

/// The machine of a simulation. In an elastic instance, the tables `[[allocation]]` say what jobs can have.
///
/// # Errors
/// A table of the configuration has a mistake, or nothing says how large the machine is.
pub(crate) fn resources(
    shape: Option<Shape>,
    config: &Value,
    header: &Header,
) -> Result<Machine, SimulateError> {
    let tables = Tables::read(config)?;
    if tables.is_empty() {
        let own = own_resources(shape, config, header)?;
        return Ok(Machine { resources: own.clone(), own });
    }
    let host = Shape { nodes: 1, cores: 1, gpus: 0 };
    let own = own_resources(Some(shape.unwrap_or(host)), config, header)?;
    let all = tables.resources(&own, &BTreeMap::new()).map_err(ResourceError::from)?;
    Ok(Machine { resources: all.with_ranks(&tables.ranks()), own })
}

fn own_resources(
    shape: Option<Shape>,
    config: &Value,
    header: &Header,
) -> Result<ResourceSet, SimulateError> {
    let made = |shape: Shape| simulation::machine(shape.nodes, shape.cores, shape.gpus);
    if let Some(shape) = shape {
        return made(shape).ok_or(SimulateError::Machine);
    }
    if let Some(set) = resources::configured_set(config)? {
        return Ok(set);
    }
    of_header(header).and_then(made).ok_or(SimulateError::Machine)
}

/// The machine of a trace. Its processors are cores, spread over its nodes.
fn of_header(header: &Header) -> Option<Shape> {
    let nodes = header.nodes.or(header.processors).filter(|nodes| *nodes > 0)?;
    let processors = header.processors.unwrap_or(nodes);
    // If the processors can't be divided evenly among the nodes, there is a node with one core for each
    // processor.
    let shape = match processors.checked_rem(nodes) {
        Some(0) => Shape { nodes, cores: processors / nodes, gpus: 0 },
        _ => Shape { nodes: processors, cores: 1, gpus: 0 },
    };
    (shape.cores > 0).then_some(shape)
}

/// A machine in a few words.
pub(crate) fn described(resources: &ResourceSet) -> String {
    let (nodes, cores, gpus) = (resources.nnodes(), resources.ncores(), resources.ngpus());
    let mut text = format!("{nodes} node{}, {cores} cores", if nodes == 1 { "" } else { "s" });
    if gpus > 0 {
        text.push_str(&format!(", {gpus} gpus"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Result<Shape, NoShape> {
        text.parse()
    }

    #[test]
    fn shapes_are_nodes_cores_and_gpus() {
        let of = |nodes, cores, gpus| Ok(Shape { nodes, cores, gpus });
        assert_eq!(shape("128"), of(128, 1, 0));
        assert_eq!(shape("16x32"), of(16, 32, 0));
        assert_eq!(shape("16x32x4"), of(16, 32, 4));
        for wrong in ["", "0", "4x0", "x", "1x2x3x4", "-3", "5000000000", "9999999"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_header_of_a_trace_says_how_large_the_machine_is() {
        let of = |nodes, processors| of_header(&Header { nodes, processors, ..Header::default() });
        assert_eq!(of(Some(128), None), shape("128").ok());
        assert_eq!(of(None, Some(64)), shape("64").ok());
        assert_eq!(of(Some(16), Some(64)), shape("16x4").ok());
        assert_eq!(of(Some(3), Some(64)), shape("64").ok());
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(64), Some(0)), None);
    }
}
