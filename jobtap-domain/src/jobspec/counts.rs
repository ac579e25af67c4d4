//! The amounts of resources that a jobspec asks for. Limits, listings and the scheduler all use these
//! few numbers, so they are derived once, in one place.

use serde_json::Value;

use super::JobspecError;
use super::error::type_name;
use super::members::{Members, first_task};
use super::path;

/// Where the submission tools put the number of tasks on each resource.
const PER_RESOURCE: &str = "attributes.system.shell.options.per-resource";

/// The amounts of resources that a jobspec of version 1 asks for (RFC 25), derived as in Flux.
///
/// ```
/// use jobtap_core::jobspec::JobspecBuilder;
///
/// let jobspec = JobspecBuilder::new(["app"]).nodes(1).ntasks(2).cores_per_task(2).build()?;
/// let counts = jobspec.counts();
/// assert_eq!((counts.nnodes, counts.nslots, counts.slot_size), (1, 2, 2));
/// assert_eq!(counts.ncores(), 4);
/// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Number of nodes; 0 if the jobspec has no node vertex, in which case only R has the number.
    pub nnodes: u64,
    /// Total number of slots on all nodes.
    pub nslots: u64,
    /// Cores per slot.
    pub slot_size: u64,
    /// GPUs per slot.
    pub slot_gpus: u64,
    /// Whether the job gets whole nodes. Only R has the number of its cores then.
    pub exclusive: bool,
    /// Number of tasks. With tasks per core on whole nodes it is a lower bound, as the number of cores
    /// follows from R.
    pub ntasks: u64,
}

impl Counts {
    /// Number of cores of all slots.
    #[must_use]
    pub fn ncores(&self) -> u64 {
        self.nslots.saturating_mul(self.slot_size)
    }

    /// Number of GPUs of all slots.
    #[must_use]
    pub fn ngpus(&self) -> u64 {
        self.nslots.saturating_mul(self.slot_gpus)
    }

    /// Derives the counts of a jobspec that may not have been validated.
    ///
    /// # Errors
    /// [`JobspecError::Counts`] with the message of Flux, e.g. `Unable to determine slot count`.
    pub fn from_jobspec(jobspec: &Value) -> Result<Self, JobspecError> {
        let mut counts = Self::default();
        let resources = jobspec
            .member("resources")
            .ok_or_else(|| failed("at top level: Object item not found: resources"))?;
        walk(resources, 0, 1, &mut counts)?;
        if counts.nslots == 0 {
            return Err(failed("Unable to determine slot count"));
        }
        if counts.slot_size == 0 {
            return Err(failed("Unable to determine slot size"));
        }
        let mut counts = counts.on_all_nodes()?;
        counts.ntasks = counts.tasks_of(jobspec)?;
        Ok(counts)
    }

    /// Changes `nslots` from the slots of one node to those of all nodes.
    ///
    /// # Errors
    /// A product doesn't fit into a `u64`: limits would be compared with a number that wrapped around.
    pub(super) fn on_all_nodes(mut self) -> Result<Self, JobspecError> {
        if self.nnodes > 0 {
            self.nslots = times(self.nslots, self.nnodes)?;
        }
        times(self.nslots, self.slot_size)?;
        times(self.nslots, self.slot_gpus)?;
        Ok(self)
    }

    fn tasks_of(&self, jobspec: &Value) -> Result<u64, JobspecError> {
        if let Some(per) = path::get(jobspec, PER_RESOURCE) {
            let count = per.member("count").map_or(Some(1), Value::as_u64).unwrap_or(1);
            match per.member("type").and_then(Value::as_str) {
                Some("node") if self.nnodes > 0 => return times(self.nnodes, count),
                Some("core") => return times(self.ncores(), count),
                _ => {}
            }
        }
        let total = || first_task(jobspec)?.member("count")?.member("total")?.as_u64();
        Ok(total().unwrap_or(self.nslots))
    }
}

/// Adds up the vertices of one `with` list, where `factor` is the product of the counts above it.
fn walk(
    vertices: &Value,
    level: usize,
    factor: u64,
    counts: &mut Counts,
) -> Result<(), JobspecError> {
    let vertices =
        vertices.as_array().ok_or_else(|| failed(format!("level {level}: must be an array")))?;
    for vertex in vertices {
        let kind = match required(vertex, "type", level)? {
            Value::String(kind) => kind.as_str(),
            other => return Err(unexpected(level, "string", other)),
        };
        let count = match required(vertex, "count", level)? {
            Value::Number(number) if !number.is_f64() => match number.as_u64() {
                Some(count) if count > 0 || kind == "gpu" => count,
                _ => return Err(failed(format!("Invalid count {number} for type '{kind}'"))),
            },
            other => return Err(unexpected(level, "integer", other)),
        };
        let below = times(factor, count)?;
        match kind {
            "node" => {
                counts.nnodes = below;
                counts.exclusive |= vertex.member("exclusive") == Some(&Value::Bool(true));
            }
            "slot" => counts.nslots = count,
            "core" => counts.slot_size = count,
            "gpu" => counts.slot_gpus = count,
            _ => {}
        }
        if let Some(with) = vertex.member("with") {
            walk(with, level + 1, below, counts)?;
        }
    }
    Ok(())
}

fn required<'v>(vertex: &'v Value, key: &str, level: usize) -> Result<&'v Value, JobspecError> {
    if !vertex.is_object() {
        return Err(unexpected(level, "object", vertex));
    }
    vertex.member(key).ok_or_else(|| failed(format!("level {level}: Object item not found: {key}")))
}

fn unexpected(level: usize, wanted: &str, got: &Value) -> JobspecError {
    failed(format!("level {level}: Expected {wanted}, got {}", type_name(got)))
}

fn times(a: u64, b: u64) -> Result<u64, JobspecError> {
    a.checked_mul(b).ok_or_else(|| failed("the request is larger than can be counted"))
}

fn failed(text: impl Into<String>) -> JobspecError {
    JobspecError::Counts(text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobspec::JobspecBuilder;

    fn counts_from(resources: Value) -> Result<(u64, u64, u64, u64), JobspecError> {
        let counts = Counts::from_jobspec(&json!({ "resources": resources }))?;
        Ok((counts.nnodes, counts.nslots, counts.slot_size, counts.slot_gpus))
    }

    fn slot(count: i64, with: Value) -> Value {
        json!([{"type": "slot", "count": count, "label": "task", "with": with}])
    }

    #[test]
    fn derives_the_counts_of_the_examples() {
        let build = |n: Option<u64>, nodes: Option<u64>, c: u64, g: u64| {
            let mut builder = JobspecBuilder::new(["app"]).cores_per_task(c).gpus_per_task(g);
            if let Some(n) = n {
                builder = builder.ntasks(n);
            }
            if let Some(nodes) = nodes {
                builder = builder.nodes(nodes);
            }
            let counts = builder.build().unwrap().counts();
            (counts.nnodes, counts.nslots, counts.slot_size, counts.slot_gpus)
        };
        assert_eq!(build(None, None, 1, 0), (0, 1, 1, 0));
        assert_eq!(build(Some(4), None, 4, 0), (0, 4, 4, 0));
        assert_eq!(build(Some(4), Some(1), 4, 0), (1, 4, 4, 0));
        assert_eq!(build(Some(4), Some(4), 4, 0), (4, 4, 4, 0));
        assert_eq!(build(Some(2), Some(1), 2, 1), (1, 2, 2, 1));
        let node = json!([{"type": "node", "count": 2, "with":
            slot(3, json!([{"type": "core", "count": 4}, {"type": "gpu", "count": 1}]))}]);
        assert_eq!(counts_from(node), Ok((2, 6, 4, 1)));
    }

    #[test]
    fn errors_have_the_text_of_flux() {
        let core = |count: Value| json!([{"type": "core", "count": count}]);
        let refused = |resources| counts_from(resources).unwrap_err().to_string();
        assert_eq!(refused(core(json!(1))), "Unable to determine slot count");
        assert_eq!(
            refused(slot(1, json!([{"type": "gpu", "count": 1}]))),
            "Unable to determine slot size"
        );
        assert_eq!(refused(slot(1, core(json!(-1)))), "Invalid count -1 for type 'core'");
        assert_eq!(
            refused(slot(1, json!([{"type": "core"}]))),
            "level 1: Object item not found: count"
        );
        assert_eq!(refused(slot(1, core(json!(1.5)))), "level 1: Expected integer, got real");
        assert_eq!(refused(json!({})), "level 0: must be an array");
        assert_eq!(refused(json!([3])), "level 0: Expected object, got integer");
        let huge = slot(i64::MAX, core(json!(i64::MAX)));
        assert_eq!(refused(huge), "the request is larger than can be counted");
    }

    #[test]
    fn a_gpu_count_of_zero_is_allowed() {
        let with = json!([{"type": "core", "count": 1}, {"type": "gpu", "count": 0}]);
        assert_eq!(counts_from(slot(1, with)), Ok((0, 1, 1, 0)));
    }

    #[test]
    fn tasks_follow_from_total_and_per_resource() {
        let base = JobspecBuilder::new(["app"]).nodes(4).ntasks(5);
        assert_eq!(base.clone().build().unwrap().counts().ntasks, 5);
        let per = |kind: &str, count: u64| {
            let value = json!({"type": kind, "count": count});
            let spec = JobspecBuilder::new(["app"]).ntasks(4).nodes(4).cores_per_task(2);
            let spec = spec.shell_option("per-resource", value).unwrap();
            spec.build().unwrap().counts().ntasks
        };
        assert_eq!(per("node", 3), 12);
        assert_eq!(per("core", 2), 16);
    }
}
