//! Builds a jobspec from the options of the tools (`-n -N -c -g -x` and so on). As in Flux, the same options ask for
//! the same resources.

use super::{Dependency, Jobspec, JobspecError, Shape, path};
use serde_json::{Map, Number, Value, json};

/// The label that the tools give to the slot.
const SLOT: &str = "task";

/// Builds a version 1 jobspec (RFC 25) as the submission tools do.
///
/// ```
/// use jobtap_core::jobspec::JobspecBuilder;
///
/// let jobspec = JobspecBuilder::new(["app", "input"])
///     .ntasks(8)
///     .nodes(2)
///     .duration(3600.0)
///     .name("first")
///     .build()?;
/// assert_eq!(jobspec.counts().nslots, 8);
///
/// let refused = JobspecBuilder::new(["app"]).ntasks(1).nodes(2).build();
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "node count must not be greater than task count",
/// );
/// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct JobspecBuilder {
    command: Vec<String>,
    ntasks: Option<u64>,
    nodes: Option<u64>,
    cores_per_task: u64,
    gpus_per_task: u64,
    exclusive: bool,
    per_resource: PerResource,
    shape: Option<Shape>,
    attributes: Value,
}

impl JobspecBuilder {
    /// A job with one task on one core and without a time limit.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            ntasks: None,
            nodes: None,
            cores_per_task: 1,
            gpus_per_task: 0,
            exclusive: false,
            per_resource: PerResource::default(),
            shape: None,
            attributes: json!({"system": {"duration": 0}}),
        }
    }

    /// Number of tasks, one per slot (`-n`).
    pub fn ntasks(mut self, ntasks: u64) -> Self {
        self.ntasks = Some(ntasks);
        self
    }

    /// Number of nodes (`-N`). Without a number of tasks the job gets whole nodes with one task each.
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Cores per task (`-c`).
    pub fn cores_per_task(mut self, cores: u64) -> Self {
        self.cores_per_task = cores;
        self
    }

    /// GPUs per task (`-g`); 0 for none.
    pub fn gpus_per_task(mut self, gpus: u64) -> Self {
        self.gpus_per_task = gpus;
        self
    }

    /// Whole nodes (`-x`); needs a number of nodes.
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Total number of cores (`--cores`), each in its own slot. With [`nodes`](Self::nodes) each node has
    /// one slot with its share of the cores. This and the next three options can't be combined with
    /// options about tasks.
    pub fn cores(mut self, cores: u64) -> Self {
        self.per_resource.cores = Some(cores);
        self
    }

    /// GPUs on each node (`--gpus-per-node`); needs a number of nodes.
    pub fn gpus_per_node(mut self, gpus: u64) -> Self {
        self.per_resource.gpus_per_node = gpus;
        self
    }

    /// Tasks on each node (`--tasks-per-node`); needs a number of nodes or cores.
    pub fn tasks_per_node(mut self, tasks: u64) -> Self {
        self.per_resource.tasks_per_node = Some(tasks);
        self
    }

    /// Tasks on each core that the job gets (`--tasks-per-core`); needs a number of nodes or cores.
    pub fn tasks_per_core(mut self, tasks: u64) -> Self {
        self.per_resource.tasks_per_core = Some(tasks);
        self
    }

    /// The whole `resources` section as a shape (RFC 46), with one task for each slot. It replaces all
    /// numbers above.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = Some(shape);
        self
    }

    /// Time limit in seconds; 0 for none.
    pub fn duration(self, seconds: f64) -> Self {
        // A number that JSON can't represent becomes null, which validation refuses with the attribute's name.
        let seconds = Number::from_f64(seconds).map_or(Value::Null, Value::Number);
        self.system("duration", seconds)
    }

    /// Job name.
    pub fn name(self, name: &str) -> Self {
        self.system("job", json!({ "name": name }))
    }

    /// The tasks' working directory, an absolute path.
    pub fn cwd(self, cwd: &str) -> Self {
        self.system("cwd", cwd.into())
    }

    /// The tasks' whole environment; replaces an environment that was set before.
    pub fn environment(
        self,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let variables: Map<String, Value> = variables
            .into_iter()
            .map(|(name, value)| (name.into(), Value::String(value.into())))
            .collect();
        self.system("environment", Value::Object(variables))
    }

    /// The queue to submit to.
    pub fn queue(self, queue: &str) -> Self {
        self.system("queue", queue.into())
    }

    /// Adds a dependency. If `dependencies` was set to anything but a list, a new list replaces it.
    pub fn dependency(mut self, dependency: Dependency) -> Self {
        let dependency = dependency.to_value();
        if let Some(system) = self.attributes.get_mut("system").and_then(Value::as_object_mut) {
            match system.get_mut("dependencies").and_then(Value::as_array_mut) {
                Some(list) => list.push(dependency),
                None => drop(system.insert("dependencies".to_owned(), json!([dependency]))),
            }
        }
        self
    }

    fn system(mut self, key: &str, value: Value) -> Self {
        if let Some(system) = self.attributes.get_mut("system").and_then(Value::as_object_mut) {
            system.insert(key.to_owned(), value);
        }
        self
    }

    /// Sets any attribute by the key that `--setattr` takes ([`path::attribute_key`]).
    ///
    /// # Errors
    /// [`JobspecError::Update`] if the key can't be set.
    pub fn attribute(mut self, key: &str, value: Value) -> Result<Self, JobspecError> {
        let full = path::attribute_key(key);
        let mut document = json!({ "attributes": self.attributes.take() });
        let outcome = path::set(&mut document, &full, value);
        self.attributes = document.get_mut("attributes").map(Value::take).unwrap_or_default();
        outcome.map(|()| self)
    }

    /// Sets a job shell option by its dotted name (`--setopt`).
    ///
    /// # Errors
    /// [`JobspecError::Update`] if the option can't be set.
    pub fn shell_option(self, name: &str, value: Value) -> Result<Self, JobspecError> {
        self.attribute(&format!("attributes.system.shell.options.{name}"), value)
    }

    /// Builds the jobspec and validates it.
    ///
    /// # Errors
    /// [`JobspecError::Request`] for counts that contradict each other, and the errors of [`Jobspec::from_value`].
    pub fn build(self) -> Result<Jobspec, JobspecError> {
        self.check()?;
        Jobspec::from_value(self.to_value())
    }

    /// Checks that the counts don't contradict each other.
    ///
    /// # Errors
    /// [`JobspecError::Request`] with the message of Flux's tools.
    pub fn check(&self) -> Result<(), JobspecError> {
        let refuse = |text: &str| Err(JobspecError::Request(text.to_owned()));
        if self.command.is_empty() {
            return refuse("job command and arguments are missing");
        }
        if let Some(shape) = &self.shape {
            return match shape.slot() {
                Some(_) => Ok(()),
                None => refuse("the shape has no slot for the tasks"),
            };
        }
        if self.nodes == Some(0) {
            return refuse("node count must be an integer >= 1 (if set)");
        }
        if self.per_resource.is_asked() {
            self.per_resource.check(self.nodes)?;
        } else {
            self.check_tasks()?;
        }
        match self.nodes {
            None if self.exclusive => refuse("exclusive can only be set with a node count"),
            _ => Ok(()),
        }
    }

    fn check_tasks(&self) -> Result<(), JobspecError> {
        let refuse = |text: &str| Err(JobspecError::Request(text.to_owned()));
        if self.tasks() == 0 {
            return refuse("task count must be a integer >= 1");
        }
        if self.cores_per_task == 0 {
            return refuse("cores per task must be an integer >= 1");
        }
        if self.nodes.is_some_and(|nodes| nodes > self.tasks()) {
            return refuse("node count must not be greater than task count");
        }
        Ok(())
    }

    fn tasks(&self) -> u64 {
        self.ntasks.or(self.nodes).unwrap_or(1)
    }

    /// Builds the jobspec without any check.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let (resources, count) = self.resources();
        let slot = self.shape.as_ref().and_then(Shape::slot).unwrap_or(SLOT);
        let mut attributes = self.attributes.clone();
        if let Some(per) = self.per_resource.shell_option() {
            const PER: &str = "system.shell.options.per-resource";
            // This fails if the user set the shell options to something other than an object, which then stays.
            let _ = path::set(&mut attributes, PER, per);
        }
        json!({
            "resources": resources,
            "tasks": [{"command": self.command, "slot": slot, "count": count}],
            "attributes": attributes,
            "version": 1,
        })
    }

    /// The `resources` section, and the `count` of the task.
    fn resources(&self) -> (Value, Value) {
        let mut count = json!({"per_slot": 1});
        if let Some(shape) = &self.shape {
            return (shape.resources().into(), count);
        }
        let per_resource = self.per_resource.is_asked();
        let tasks = self.tasks();
        let (slots, cores, gpus) = if per_resource {
            let (slots, cores) = self.per_resource.slots(self.nodes);
            (slots, cores, self.per_resource.gpus_per_node)
        } else {
            let slots = tasks.div_ceil(self.nodes.unwrap_or(1).max(1));
            (slots, self.cores_per_task, self.gpus_per_task)
        };
        let mut with = vec![json!({"type": "core", "count": cores})];
        if gpus > 0 {
            with.push(json!({"type": "gpu", "count": gpus}));
        }
        let slot = json!({"type": "slot", "count": slots, "with": with, "label": SLOT});
        let Some(nodes) = self.nodes else { return (json!([slot]), count) };
        if !per_resource && !tasks.is_multiple_of(nodes.max(1)) {
            count = json!({ "total": tasks });
        }
        let mut node = json!({"type": "node", "count": nodes, "with": [slot]});
        let parts = if per_resource { self.per_resource.cores } else { self.ntasks };
        if (self.exclusive || parts.is_none())
            && let Some(node) = node.as_object_mut()
        {
            node.insert("exclusive".to_owned(), true.into());
        }
        (json!([node]), count)
    }
}

/// The resource that a number of tasks refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Per {
    Node,
    Core,
}

/// The options that ask for resources instead of tasks: `--cores`, `--gpus-per-node`, and
/// `--tasks-per-node` or `--tasks-per-core`. The slots are then derived from the resources.
#[derive(Debug, Clone, Copy, Default)]
struct PerResource {
    pub(super) cores: Option<u64>,
    pub(super) gpus_per_node: u64,
    pub(super) tasks_per_node: Option<u64>,
    pub(super) tasks_per_core: Option<u64>,
}

impl PerResource {
    /// Whether any of the options was given.
    fn is_asked(&self) -> bool {
        self.cores.is_some() || self.gpus_per_node > 0 || self.tasks().is_some()
    }

    fn tasks(&self) -> Option<(Per, u64)> {
        let per_node = self.tasks_per_node.map(|tasks| (Per::Node, tasks));
        per_node.or(self.tasks_per_core.map(|tasks| (Per::Core, tasks)))
    }

    /// Checks that the options don't contradict each other or the number of nodes.
    ///
    /// # Errors
    /// [`JobspecError::Request`] with the message of Flux's tools.
    fn check(&self, nodes: Option<u64>) -> Result<(), JobspecError> {
        let refuse = |text: &str| Err(JobspecError::Request(text.to_owned()));
        if self.tasks_per_node.is_some() && self.tasks_per_core.is_some() {
            return refuse("Do not specify both the number of tasks per node and per core");
        }
        match self.tasks() {
            Some((Per::Node, 0)) => return refuse("--tasks-per-node must be >= 1"),
            Some((Per::Core, 0)) => return refuse("--tasks-per-core must be >= 1"),
            _ => {}
        }
        match (self.cores, nodes) {
            (_, None) if self.gpus_per_node > 0 => refuse("--gpus-per-node requires --nodes"),
            (None, None) => refuse("must specify node or core count with per_resource"),
            (Some(0), _) => refuse("ncores must be an integer >= 1"),
            (Some(cores), Some(nodes)) if cores < nodes => {
                refuse("number of cores cannot be less than nnodes")
            }
            (Some(cores), Some(nodes)) if !cores.is_multiple_of(nodes.max(1)) => {
                refuse("number of cores must be evenly divisible by node count")
            }
            _ => Ok(()),
        }
    }

    /// The number of slots on each node (without nodes: in total) and the cores of each slot. A node has
    /// one slot with its share of the cores. Without nodes each core has its own slot.
    fn slots(&self, nodes: Option<u64>) -> (u64, u64) {
        match (self.cores, nodes) {
            (Some(cores), Some(nodes)) => (1, cores / nodes.max(1)),
            (Some(cores), None) => (cores, 1),
            (None, _) => (1, 1),
        }
    }

    /// The job shell option `per-resource`: how many tasks the job shell starts for each resource.
    fn shell_option(&self) -> Option<Value> {
        let (per, count) = self.tasks()?;
        let kind = match per {
            Per::Node => "node",
            Per::Core => "core",
        };
        Some(json!({"type": kind, "count": count}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn app() -> JobspecBuilder {
        JobspecBuilder::new(["app"])
    }

    fn refused(builder: JobspecBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn a_dependency_is_added_to_a_list_and_replaces_anything_else() {
        let with = |set: Value| {
            let builder = app().attribute("system.dependencies", set).unwrap();
            let spec = builder.dependency(Dependency::from_uri("afterok:2").unwrap()).to_value();
            spec["attributes"]["system"]["dependencies"].clone()
        };
        let (first, second) = (
            json!({"scheme": "afterok", "value": "1"}),
            json!({"scheme": "afterok", "value": "2"}),
        );
        assert_eq!(with(json!([first])), json!([first, second]));
        assert_eq!(with(json!(5)), json!([second]));
    }

    #[test]
    fn without_nodes_each_task_has_a_slot() {
        let spec = app().ntasks(4).cores_per_task(2).gpus_per_task(1).to_value();
        assert_eq!(
            spec,
            json!({
                "resources": [{"type": "slot", "count": 4, "label": "task", "with": [
                    {"type": "core", "count": 2}, {"type": "gpu", "count": 1}]}],
                "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
                "attributes": {"system": {"duration": 0}},
                "version": 1,
            })
        );
    }

    #[test]
    fn tasks_are_spread_over_nodes() {
        let of = |n, nodes| {
            let spec = app().ntasks(n).nodes(nodes).to_value();
            (spec["resources"][0].clone(), spec["tasks"][0]["count"].clone())
        };
        let node = |nodes: u64, slots: u64| {
            json!({"type": "node", "count": nodes, "with": [{"type": "slot", "count": slots,
                "label": "task", "with": [{"type": "core", "count": 1}]}]})
        };
        assert_eq!(of(4, 2), (node(2, 2), json!({"per_slot": 1})));
        assert_eq!(of(5, 2), (node(2, 3), json!({"total": 5})));
    }

    #[test]
    fn nodes_alone_mean_whole_nodes() {
        let alone = app().nodes(3).to_value();
        assert_eq!(alone["resources"][0]["exclusive"], true);
        assert_eq!(alone["resources"][0]["with"][0]["count"], 1);
        let some = app().nodes(3).ntasks(3);
        assert_eq!(some.to_value()["resources"][0]["exclusive"], Value::Null);
        assert_eq!(some.exclusive(true).to_value()["resources"][0]["exclusive"], true);
    }

    #[test]
    fn refuses_contradictory_counts() {
        assert_eq!(refused(JobspecBuilder::new([""; 0])), "job command and arguments are missing");
        assert_eq!(refused(app().ntasks(0)), "task count must be a integer >= 1");
        assert_eq!(refused(app().nodes(0)), "node count must be an integer >= 1 (if set)");
        assert_eq!(refused(app().cores_per_task(0)), "cores per task must be an integer >= 1");
        assert_eq!(
            refused(app().nodes(2).ntasks(1)),
            "node count must not be greater than task count"
        );
        assert_eq!(refused(app().exclusive(true)), "exclusive can only be set with a node count");
        assert_eq!(
            refused(app().duration(f64::INFINITY)),
            "attributes.system.duration must be a number"
        );
    }

    #[test]
    fn asks_for_resources_instead_of_tasks() {
        let of = |builder: JobspecBuilder| {
            let counts = builder.build().unwrap().counts();
            (counts.nnodes, counts.nslots, counts.slot_size, counts.slot_gpus, counts.ntasks)
        };
        assert_eq!(of(app().cores(16)), (0, 16, 1, 0, 16));
        assert_eq!(of(app().cores(16).tasks_per_core(2)), (0, 16, 1, 0, 32));
        assert_eq!(of(app().cores(25).nodes(5)), (5, 5, 5, 0, 5));
        assert_eq!(of(app().cores(8).nodes(2).tasks_per_node(3)), (2, 2, 4, 0, 6));
        assert_eq!(of(app().nodes(2).gpus_per_node(2).tasks_per_node(2)), (2, 2, 1, 2, 4));
        let whole = |builder: JobspecBuilder| builder.build().unwrap().counts().exclusive;
        assert!(whole(app().nodes(2).tasks_per_core(1)));
        assert!(!whole(app().nodes(2).cores(2)));
        assert!(whole(app().nodes(2).cores(2).exclusive(true)));
    }

    #[test]
    fn refuses_contradictory_amounts_of_resources() {
        for (builder, text) in [
            (
                app().nodes(1).tasks_per_core(1).tasks_per_node(1),
                "Do not specify both the number of tasks per node and per core",
            ),
            (app().nodes(1).tasks_per_node(0), "--tasks-per-node must be >= 1"),
            (app().nodes(1).tasks_per_core(0), "--tasks-per-core must be >= 1"),
            (app().cores(4).gpus_per_node(1), "--gpus-per-node requires --nodes"),
            (app().tasks_per_node(1), "must specify node or core count with per_resource"),
            (app().cores(0), "ncores must be an integer >= 1"),
            (app().cores(2).nodes(3), "number of cores cannot be less than nnodes"),
            (app().cores(5).nodes(3), "number of cores must be evenly divisible by node count"),
            (app().cores(1).exclusive(true), "exclusive can only be set with a node count"),
        ] {
            assert_eq!(refused(builder), text);
        }
    }

    #[test]
    fn a_shape_sets_the_resources_and_tasks() {
        let shape = |text: &str| app().shape(text.parse().unwrap());
        let spec = shape("node=2{x}/slot=3{gpus}/[core=4;gpu]").to_value();
        assert_eq!(spec["tasks"][0]["slot"], "gpus");
        assert_eq!(spec["resources"][0]["exclusive"], true);
        assert_eq!(shape("slot=4/core").build().unwrap().counts().ntasks, 4);
        assert_eq!(refused(shape("core=4")), "the shape has no slot for the tasks");
        assert_eq!(
            refused(shape("slot=1-4/core")),
            "resource count must be an integer for type 'slot' (got 'str')"
        );
    }

    #[test]
    fn sets_attributes_by_the_keys_of_setattr() {
        let builder = app().attribute("foo.bar", json!([1])).unwrap();
        let builder = builder.attribute("user.x", json!("y")).unwrap();
        let builder = builder.shell_option("verbose", json!(1)).unwrap();
        assert_eq!(
            builder.to_value()["attributes"],
            json!({
                "system": {"duration": 0, "foo": {"bar": [1]},
                    "shell": {"options": {"verbose": 1}}},
                "user": {"x": "y"},
            })
        );
        assert!(app().attribute("duration.x", json!(1)).is_err());
    }

    proptest! {
        #[test]
        fn a_built_jobspec_is_valid(
            ntasks in prop::option::of(0_u64..200),
            nodes in prop::option::of(0_u64..50),
            cores in 0_u64..4,
            gpus in 0_u64..3,
            exclusive: bool,
            duration in prop_oneof![Just(0.0), 0.0..1e9],
            name in "\\PC{0,5}",
            uri in "[a-z]{1,3}(:[a-z0-9]{0,3})?",
        ) {
            let mut builder = app()
                .cores_per_task(cores)
                .gpus_per_task(gpus)
                .exclusive(exclusive)
                .duration(duration)
                .name(&name)
                .dependency(Dependency::from_uri(&uri).unwrap());
            builder.ntasks = ntasks;
            builder.nodes = nodes;
            match builder.build() {
                Ok(spec) => {
                    let counts = spec.counts();
                    prop_assert_eq!(counts.ntasks, ntasks.or(nodes).unwrap_or(1));
                    prop_assert_eq!(counts.nnodes, nodes.unwrap_or(0));
                    prop_assert_eq!(spec.duration(), duration);
                    prop_assert_eq!(spec.name(), Some(name.as_str()));
                }
                Err(error) => {
                    prop_assert!(matches!(error, JobspecError::Request(_)), "{}", error);
                }
            }
        }
    }
}
