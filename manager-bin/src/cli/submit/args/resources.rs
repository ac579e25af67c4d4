//! The options that request resources in the place of tasks: so many of each, or a shape.

use clap::Args;
use jobtap_core::jobspec::{JobspecBuilder, JobspecError, Shape};
use serde_json::Value;

use crate::cli::submit::caller::Caller;
use crate::cli::submit::error::ArgError;
use crate::cli::submit::values::count;
use crate::files::input;

/// The options that give numbers of resources and of tasks on each of them, or a shape.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PerResourceArgs {
    /// Total number of cores, with one task per core or, with --nodes, per node; not with per-task
    /// options
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) cores: Option<String>,
    /// Number of tasks on each node; needs --nodes or --cores
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tasks_per_node: Option<String>,
    /// Number of tasks on each allocated core; needs --nodes or --cores
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tasks_per_core: Option<String>,
    /// Number of GPUs on each node; needs --nodes
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) gpus_per_node: Option<String>,
    /// Resources as a shape (RFC 46) with one task per slot, e.g. node=2/slot=4/[core=2;gpu]
    #[arg(long, visible_alias = "resources-shape", value_name = "SHAPE")]
    pub(crate) shape: Option<String>,
    /// Resources from a JSON file: the section `resources` of a jobspec, or a whole jobspec
    #[arg(long, value_name = "FILE")]
    pub(crate) resources_json: Option<String>,
}

impl PerResourceArgs {
    pub(super) fn any_count(&self) -> bool {
        let options =
            [&self.cores, &self.tasks_per_node, &self.tasks_per_core, &self.gpus_per_node];
        options.into_iter().any(Option::is_some)
    }

    /// The resources that are given as a whole, with the name of the option.
    pub(super) fn shape(&self, caller: &Caller) -> Result<Option<(&'static str, Shape)>, ArgError> {
        match (&self.shape, &self.resources_json) {
            (Some(_), Some(_)) => Err(ArgError::ShapeAndFile),
            (Some(text), None) => {
                let invalid = |error| ArgError::Shape { shape: text.clone(), error };
                Ok(Some(("--shape", text.parse().map_err(invalid)?)))
            }
            (None, Some(name)) => Ok(Some(("--resources-json", from_file(name, caller)?))),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn add_to(
        &self,
        mut builder: JobspecBuilder,
        with_nodes: bool,
    ) -> Result<JobspecBuilder, ArgError> {
        if let Some(cores) = count("cores", self.cores.as_deref())? {
            builder = builder.cores(cores);
        }
        if let Some(tasks) = count("tasks-per-node", self.tasks_per_node.as_deref())? {
            builder = builder.tasks_per_node(tasks);
        }
        if let Some(tasks) = count("tasks-per-core", self.tasks_per_core.as_deref())? {
            builder = builder.tasks_per_core(tasks);
        }
        if let Some(gpus) = self.gpus_per_node(with_nodes)? {
            builder = builder.gpus_per_node(gpus);
        }
        Ok(builder)
    }

    /// The GPUs of each node. What [`JobspecBuilder::check`] can't see is refused here: a negative number, and a 0
    /// without nodes.
    fn gpus_per_node(&self, with_nodes: bool) -> Result<Option<u64>, ArgError> {
        let text = self.gpus_per_node.as_deref();
        let gpus = count("gpus-per-node", text)?;
        let negative = text.is_some_and(|text| text.trim().parse::<i64>().is_ok_and(|n| n < 0));
        let refused = match (negative, with_nodes, gpus) {
            (true, false, _) => "--gpus-per-node requires --nodes",
            (true, true, _) => "gpus_per_node must be an integer >= 0",
            (false, false, Some(0)) => "gpus_per_node must be specified with nnodes",
            _ => return Ok(gpus),
        };
        Err(JobspecError::Request(refused.to_owned()).into())
    }
}

/// Reads the section `resources` from a JSON file, which has only this section or a whole jobspec.
fn from_file(name: &str, caller: &Caller) -> Result<Shape, ArgError> {
    let failed = |text: String| ArgError::File { name: name.to_owned(), text };
    let text = input::text(caller.file(name)).map_err(|e| ArgError::file(name, &e))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    match value.get("resources").unwrap_or(&value) {
        Value::Array(resources) => Ok(Shape::from_resources(resources.clone())),
        _ => Err(failed("expected a list of resources, or a jobspec with one".to_owned())),
    }
}
