//! From the options that users give (`-n -N -c -g -x` and so on) to a jobspec. The mapping is Flux's:
//! the same options must ask for the same resources.

use serde_json::{Map, Number, Value, json};

use super::{Dependency, Jobspec, JobspecError, path};

/// The label of the slot that the tools make.
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
    dependencies: Vec<Dependency>,
    attributes: Value,
}

impl JobspecBuilder {
    /// A job of one task on one core without a time limit.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            ntasks: None,
            nodes: None,
            cores_per_task: 1,
            gpus_per_task: 0,
            exclusive: false,
            dependencies: Vec::new(),
            attributes: json!({"system": {"duration": 0}}),
        }
    }

    /// Number of tasks, one per slot (`-n`).
    pub fn ntasks(mut self, ntasks: u64) -> Self {
        self.ntasks = Some(ntasks);
        self
    }

    /// Number of nodes (`-N`). Without a number of tasks it means whole nodes with one task each.
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

    /// Time limit in seconds; 0 for none.
    pub fn duration(self, seconds: f64) -> Self {
        // A number that JSON can't hold becomes null, which validation refuses by name.
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

    /// The tasks' whole environment; replaces what was set before.
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

    /// Adds a dependency.
    pub fn dependency(mut self, dependency: Dependency) -> Self {
        self.dependencies.push(dependency);
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
    /// [`JobspecError::Update`] when the key can't be set.
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
    /// [`JobspecError::Update`] when the option can't be set.
    pub fn shell_option(self, name: &str, value: Value) -> Result<Self, JobspecError> {
        self.attribute(&format!("attributes.system.shell.options.{name}"), value)
    }

    /// The jobspec, validated.
    ///
    /// # Errors
    /// [`JobspecError::Request`] for counts that contradict each other, else as
    /// [`Jobspec::from_value`].
    pub fn build(self) -> Result<Jobspec, JobspecError> {
        self.check()?;
        Jobspec::from_value(self.to_value())
    }

    /// Whether the counts fit together.
    ///
    /// # Errors
    /// [`JobspecError::Request`] in the tools' words.
    pub fn check(&self) -> Result<(), JobspecError> {
        let refuse = |text: &str| Err(JobspecError::Request(text.to_owned()));
        if self.command.is_empty() {
            return refuse("job command and arguments are missing");
        }
        if self.nodes == Some(0) {
            return refuse("node count must be an integer >= 1");
        }
        if self.tasks() == 0 {
            return refuse("task count must be a integer >= 1");
        }
        if self.cores_per_task == 0 {
            return refuse("cores per task must be an integer >= 1");
        }
        match self.nodes {
            Some(nodes) if nodes > self.tasks() => {
                refuse("node count must not be greater than task count")
            }
            None if self.exclusive => refuse("exclusive can only be set with a node count"),
            _ => Ok(()),
        }
    }

    fn tasks(&self) -> u64 {
        self.ntasks.or(self.nodes).unwrap_or(1)
    }

    /// The jobspec as it is, without any check: what `--dry-run` prints.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let tasks = self.tasks();
        let mut with = vec![json!({"type": "core", "count": self.cores_per_task})];
        if self.gpus_per_task > 0 {
            with.push(json!({"type": "gpu", "count": self.gpus_per_task}));
        }
        let slots = tasks.div_ceil(self.nodes.unwrap_or(1).max(1));
        let slot = json!({"type": "slot", "count": slots, "with": with, "label": SLOT});
        let mut count = json!({"per_slot": 1});
        let vertex = match self.nodes {
            None => slot,
            Some(nodes) => {
                if !tasks.is_multiple_of(nodes.max(1)) {
                    count = json!({ "total": tasks });
                }
                let mut node = json!({"type": "node", "count": nodes, "with": [slot]});
                if (self.exclusive || self.ntasks.is_none())
                    && let Some(node) = node.as_object_mut()
                {
                    node.insert("exclusive".to_owned(), true.into());
                }
                node
            }
        };
        let mut attributes = self.attributes.clone();
        if !self.dependencies.is_empty()
            && let Some(system) = attributes.get_mut("system").and_then(Value::as_object_mut)
        {
            let list = self.dependencies.iter().map(Dependency::to_value).collect();
            system.insert("dependencies".to_owned(), Value::Array(list));
        }
        json!({
            "resources": [vertex],
            "tasks": [{"command": self.command, "slot": SLOT, "count": count}],
            "attributes": attributes,
            "version": 1,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    fn app() -> JobspecBuilder {
        JobspecBuilder::new(["app"])
    }

    fn refused(builder: JobspecBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn without_nodes_the_slots_are_the_tasks() {
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
    fn with_nodes_the_tasks_are_spread_over_them() {
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
    fn counts_that_contradict_each_other_are_refused() {
        assert_eq!(refused(JobspecBuilder::new([""; 0])), "job command and arguments are missing");
        assert_eq!(refused(app().ntasks(0)), "task count must be a integer >= 1");
        assert_eq!(refused(app().nodes(0)), "node count must be an integer >= 1");
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
    fn attributes_are_set_by_the_keys_of_setattr() {
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
        fn what_is_built_validates(
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
