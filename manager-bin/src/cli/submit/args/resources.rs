//! The options that request resources: per task, per resource, or as a shape.

use clap::Args;
use jobtap_core::jobspec::{JobspecBuilder, JobspecError};

use super::{ArgError, SubmitArgs};
use crate::cli::submit::values::count;

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
    #[arg(long, value_name = "SHAPE")]
    pub(crate) shape: Option<String>,
}

impl PerResourceArgs {
    fn any_count(&self) -> bool {
        let options =
            [&self.cores, &self.tasks_per_node, &self.tasks_per_core, &self.gpus_per_node];
        options.into_iter().any(Option::is_some)
    }

    fn add_to(&self, mut builder: JobspecBuilder) -> Result<JobspecBuilder, ArgError> {
        if let Some(cores) = count("cores", self.cores.as_deref())? {
            builder = builder.cores(cores);
        }
        if let Some(tasks) = count("tasks-per-node", self.tasks_per_node.as_deref())? {
            builder = builder.tasks_per_node(tasks);
        }
        if let Some(tasks) = count("tasks-per-core", self.tasks_per_core.as_deref())? {
            builder = builder.tasks_per_core(tasks);
        }
        if let Some(gpus) = count("gpus-per-node", self.gpus_per_node.as_deref())? {
            builder = builder.gpus_per_node(gpus);
        }
        Ok(builder)
    }
}

impl SubmitArgs {
    /// A jobspec of the command with the requested resources.
    ///
    /// # Errors
    /// [`ArgError`] for an invalid number or shape, and for options that exclude each other.
    pub(in crate::cli) fn resources(&self) -> Result<JobspecBuilder, ArgError> {
        let mut builder = JobspecBuilder::new(&self.command);
        let per_task = [&self.ntasks, &self.cores_per_task, &self.gpus_per_task];
        let per_task = per_task.into_iter().any(Option::is_some);
        if let Some(shape) = &self.per_resource.shape {
            if per_task || self.nodes.is_some() || self.exclusive || self.per_resource.any_count() {
                return Err(ArgError::ShapeAndCounts);
            }
            let shape =
                shape.parse().map_err(|error| ArgError::Shape { shape: shape.clone(), error })?;
            builder = builder.shape(shape);
        } else {
            if per_task && self.per_resource.any_count() {
                return Err(ArgError::PerResourceAndTask);
            }
            builder = self.tasks(builder.exclusive(self.exclusive))?;
            builder = self.per_resource.add_to(builder)?;
            if let Some(nodes) = count("nodes", self.nodes.as_deref())? {
                builder = builder.nodes(nodes);
            }
        }
        builder.check()?;
        Ok(builder)
    }

    fn tasks(&self, mut builder: JobspecBuilder) -> Result<JobspecBuilder, ArgError> {
        if let Some(ntasks) = count("ntasks", self.ntasks.as_deref())? {
            builder = builder.ntasks(ntasks);
        }
        if let Some(cores) = count("cores-per-task", self.cores_per_task.as_deref())? {
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
