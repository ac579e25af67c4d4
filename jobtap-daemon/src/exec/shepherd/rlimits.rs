//! The resource limits of a job's tasks (shell option `rlimit`, from `submit --rlimit` and
//! `sbatch --propagate`).
//!
//! They are set between fork and exec. Set earlier, they would apply to the shepherd too, which serves all
//! jobs; set later, by another process, they would come too late for a program's first actions.

use rustix::process::{Resource, Rlimit, getrlimit};
use serde_json::Value;

use super::option_error::{OptionError, OptionFault};
use crate::open_files::OpenFiles;
use crate::rlimits::RESOURCES;

/// The soft limits that the tasks of a job have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskLimits {
    /// The limits that differ from those that every process of the shepherd has.
    changed: Vec<(Resource, Rlimit)>,
    /// The names of the limits that are lower than the job asks for, because the hard limit is.
    reduced: Vec<&'static str>,
}

impl TaskLimits {
    /// Parses the option. As in Flux, a limit above the hard limit is set to the hard limit.
    pub(super) fn parse(options: &Value, open_files: &OpenFiles) -> Result<Self, OptionError> {
        Self::with_inherited(options, |resource| {
            let limit = getrlimit(resource);
            match resource {
                // The shepherd has raised its own soft limit.
                Resource::Nofile => {
                    Rlimit { current: u64::try_from(open_files.found()).ok(), ..limit }
                }
                _ => limit,
            }
        })
    }

    fn with_inherited(
        options: &Value,
        inherited: impl Fn(Resource) -> Rlimit,
    ) -> Result<Self, OptionError> {
        let mut limits = Self::default();
        let Some(option) = options.get("rlimit") else { return Ok(limits) };
        let must = OptionFault::Must("an object of limits by name");
        let wanted = option.as_object().ok_or_else(|| OptionError::new("rlimit", must))?;
        for (name, value) in wanted {
            let of_limit = || format!("rlimit.{name}");
            let known = RESOURCES.iter().find(|(known, _)| known == name);
            let unknown = || OptionError::new(of_limit(), OptionFault::Limit);
            let &(name, resource) = known.ok_or_else(unknown)?;
            let soft = value.as_i64().filter(|value| *value >= -1);
            let soft = soft.ok_or_else(|| {
                let what = "neither a number nor -1 for unlimited";
                OptionError::form(of_limit(), value, what)
            })?;
            let (soft, found) = (u64::try_from(soft).ok(), inherited(resource));
            let limit = Rlimit { current: lower(soft, found.maximum), ..found };
            if limit.current != soft {
                limits.reduced.push(name);
            }
            if limit != found {
                limits.changed.push((resource, limit));
            }
        }
        Ok(limits)
    }

    /// A warning for each limit that is lower than the job asks for.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.reduced
            .iter()
            .map(|name| format!("{name} exceeds the hard limit, which is set instead"))
    }

    /// The limits to set.
    pub(super) fn changed(&self) -> &[(Resource, Rlimit)] {
        &self.changed
    }
}

/// The lower of two limits; `None` is unlimited.
fn lower(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    fn read(rlimit: Value) -> Result<TaskLimits, OptionError> {
        TaskLimits::with_inherited(&json!({"rlimit": rlimit}), |resource| match resource {
            Resource::Nofile => limit(Some(1024), Some(4096)),
            _ => limit(Some(0), None),
        })
    }

    #[test]
    fn only_limits_that_differ_are_set() {
        let none = TaskLimits::default();
        assert_eq!(TaskLimits::with_inherited(&json!({}), |_| limit(None, None)), Ok(none.clone()));
        assert_eq!(read(json!({"nofile": 1024, "core": 0})), Ok(none));
        let limits = read(json!({"nofile": 100, "core": -1, "cpu": 0})).unwrap();
        let expected =
            [(Resource::Nofile, limit(Some(100), Some(4096))), (Resource::Core, limit(None, None))];
        assert_eq!(limits.changed, expected);
        assert_eq!(limits.warnings().count(), 0);
    }

    #[test]
    fn a_limit_above_the_hard_limit_is_reduced_with_a_warning() {
        for nofile in [5000, -1] {
            let limits = read(json!({"nofile": nofile})).unwrap();
            assert_eq!(limits.changed, [(Resource::Nofile, limit(Some(4096), Some(4096)))]);
            let warnings: Vec<String> = limits.warnings().collect();
            assert_eq!(warnings, ["nofile exceeds the hard limit, which is set instead"]);
        }
        assert!(read(json!({"nofile": 4096})).unwrap().reduced.is_empty());
    }

    #[test]
    fn an_invalid_limit_is_refused_by_its_name() {
        for (option, text) in [
            (json!({"foo": 1}), "rlimit.foo: no such resource limit"),
            (json!({"cpu": "x"}), "rlimit.cpu: \"x\" is neither a number nor -1 for unlimited"),
            (json!({"cpu": 2.5}), "rlimit.cpu: 2.5 is neither a number nor -1 for unlimited"),
            (json!({"cpu": -2}), "rlimit.cpu: -2 is neither a number nor -1 for unlimited"),
            (json!(5), "rlimit: must be an object of limits by name"),
        ] {
            assert_eq!(read(option).unwrap_err().to_string(), text);
        }
    }
}
