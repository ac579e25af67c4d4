//! The environment of a job, in its order.

use rustc_hash::FxHashMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// The environment of a job: variables by their names, in the order in which the job gets them.
///
/// A copy shares the variables until either is changed.
///
/// ```
/// use jobtap_core::slurm::Environment;
///
/// let mut environment: Environment = [("HOME", "/home/a"), ("LANG", "C")].into_iter().collect();
/// environment.set("LANG", "en_US.UTF-8");
/// assert_eq!(environment.get("LANG"), Some("en_US.UTF-8"));
/// assert_eq!(environment.get("NONE"), None);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Arc<Vec<(String, String)>>,
}

impl Environment {
    /// An environment without variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a variable; `None` if the environment has no such variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Sets a variable. An existing one keeps its place; a new one goes before all others, as in Slurm.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        let variables = Arc::make_mut(&mut self.variables);
        match variables.iter_mut().find(|(variable, _)| *variable == name) {
            Some((_, old)) => *old = value,
            None => variables.insert(0, (name, value)),
        }
    }

    /// Removes a variable, and returns whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        if self.get(name).is_none() {
            return false;
        }
        let before = self.variables.len();
        Arc::make_mut(&mut self.variables).retain(|(variable, _)| variable != name);
        self.variables.len() < before
    }

    /// The variables in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The variables as `NAME=value`, in their order.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.iter().map(|(name, value)| format!("{name}={value}"))
    }

    /// The number of variables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Whether there are no variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }
}

/// A variable that no environment can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Empty,
    EqualsSign,
    ZeroByte,
}

/// A variable that no environment can have: its name is empty or has a `=`, or there is a zero byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableError {
    name: String,
    fault: Fault,
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_debug();
        match self.fault {
            Fault::Empty => f.write_str("a variable has no name"),
            Fault::EqualsSign => write!(f, "variable {name}: its name has a ="),
            Fault::ZeroByte => write!(f, "variable {name} has a zero byte"),
        }
    }
}

impl std::error::Error for VariableError {}

/// Whether an environment can have this variable.
///
/// # Errors
/// [`VariableError`] if it can't.
pub fn check_variable(name: &str, value: &str) -> Result<(), VariableError> {
    let fault = match name {
        "" => Fault::Empty,
        name if name.contains('\0') || value.contains('\0') => Fault::ZeroByte,
        name if name.contains('=') => Fault::EqualsSign,
        _ => return Ok(()),
    };
    Err(VariableError { name: name.chars().take(40).collect(), fault })
}

impl fmt::Debug for Environment {
    /// Omits the values, since they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    /// Takes the variables in their order. Of several with the same name, the last value is taken, at
    /// the place of the first.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let mut all: Vec<(String, String)> =
            variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        let mut doubles = Vec::new();
        for (place, (name, _)) in all.iter().enumerate() {
            let first = *places.entry(name).or_insert(place);
            if first != place {
                doubles.push((first, place));
            }
        }
        drop(places);
        for (first, place) in &doubles {
            let value = all.get_mut(*place).map(|(_, value)| std::mem::take(value));
            if let (Some((_, old)), Some(value)) = (all.get_mut(*first), value) {
                *old = value;
            }
        }
        // They are in the order of their places.
        let mut doubles = doubles.iter().map(|(_, place)| *place).peekable();
        let mut here = 0..;
        all.retain(|_| doubles.next_if_eq(&here.next().unwrap_or(0)).is_none());
        Self { variables: Arc::new(all) }
    }
}

impl Serialize for Environment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Variables;

        impl<'de> Visitor<'de> for Variables {
            type Value = Environment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of environment variables")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Environment, A::Error> {
                let mut variables: Vec<(String, String)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    variables.push(entry);
                }
                Ok(variables.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_variables_is_kept() {
        let text = r#"{"Z":"1","A":"2","M":"3"}"#;
        let mut environment: Environment = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&environment).unwrap(), text);
        environment.set("A", "4");
        environment.set("NEW", "5");
        let lines: Vec<String> = environment.lines().collect();
        assert_eq!(lines, ["NEW=5", "Z=1", "A=4", "M=3"]);
        assert!(environment.remove("Z") && !environment.remove("Z"));
        assert_eq!(environment.len(), 3);
    }

    #[test]
    fn of_two_with_one_name_the_last_counts() {
        let pairs = [("A", "1"), ("B", "2"), ("A", "3"), ("C", "4"), ("A", "5"), ("B", "")];
        let environment: Environment = pairs.into_iter().collect();
        let lines: Vec<String> = environment.lines().collect();
        assert_eq!(lines, ["A=5", "B=", "C=4"]);
    }

    #[test]
    fn a_change_of_a_copy_is_its_own() {
        let one: Environment = [("A", "1")].into_iter().collect();
        let mut two = one.clone();
        assert_eq!(one, two);
        two.set("A", "2");
        assert_eq!((one.get("A"), two.get("A")), (Some("1"), Some("2")));
        assert_ne!(one, two);
    }

    #[test]
    fn values_are_not_shown_in_debug_output() {
        let environment: Environment = [("TOKEN", "secret")].into_iter().collect();
        assert_eq!(format!("{environment:?}"), r#"["TOKEN"]"#);
    }
}
