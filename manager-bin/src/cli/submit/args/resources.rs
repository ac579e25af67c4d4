//! The options that request resources: per task, per resource, or as a shape.

use clap::Args;
use jobtap_core::jobspec::{JobspecBuilder, JobspecError, Shape};
use serde_json::Value;

use super::{ArgError, SubmitArgs};
use crate::cli::submit::caller::Caller;
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
    fn any_count(&self) -> bool {
        let options =
            [&self.cores, &self.tasks_per_node, &self.tasks_per_core, &self.gpus_per_node];
        options.into_iter().any(Option::is_some)
    }

    /// The resources that are given as a whole, with the name of the option.
    fn shape(&self, caller: &Caller) -> Result<Option<(&'static str, Shape)>, ArgError> {
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

    fn add_to(
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

impl SubmitArgs {
    /// A jobspec of the command with the requested resources.
    ///
    /// # Errors
    /// [`ArgError`] for an invalid number, shape or file, and for options that exclude each other.
    pub(super) fn resources(&self, caller: &Caller) -> Result<JobspecBuilder, ArgError> {
        let mut builder = JobspecBuilder::new(&self.command);
        let per_task = [&self.ntasks, &self.cores_per_task, &self.gpus_per_task];
        let per_task = per_task.into_iter().any(Option::is_some);
        if let Some((option, shape)) = self.per_resource.shape(caller)? {
            if per_task || self.nodes.is_some() || self.exclusive || self.per_resource.any_count() {
                return Err(ArgError::ShapeAndCounts(option));
            }
            builder = builder.shape(shape);
        } else {
            if per_task && self.per_resource.any_count() {
                return Err(ArgError::PerResourceAndTask);
            }
            builder = self.tasks(builder.exclusive(self.exclusive))?;
            builder = self.per_resource.add_to(builder, self.nodes.is_some())?;
            if let Some(nodes) = count("nodes", self.nodes.as_deref())? {
                builder = builder.nodes(nodes);
            }
        }
        builder.check()?;
        Ok(builder)
    }

    fn tasks(&self, mut builder: JobspecBuilder) -> Result<JobspecBuilder, ArgError> {
        // With Flux, these two are as if not given when they are 0.
        let unless_zero = |option, text: &Option<String>| {
            count(option, text.as_deref().filter(|text| text.trim().parse() != Ok(0)))
        };
        if let Some(ntasks) = unless_zero("ntasks", &self.ntasks)? {
            builder = builder.ntasks(ntasks);
        }
        if let Some(cores) = unless_zero("cores-per-task", &self.cores_per_task)? {
            builder = builder.cores_per_task(cores);
        }
        if let Some(gpus) = self.gpus_per_task.as_deref() {
            if gpus.starts_with('-') && gpus.parse::<i64>().is_ok() {
                let text = "gpus per task must be an integer >= 0";
                return Err(JobspecError::Request(text.to_owned()).into());
            }
            builder = builder.gpus_per_task(count("gpus-per-task", Some(gpus))?.unwrap_or(0));
        }
        Ok(builder)
    }
}
