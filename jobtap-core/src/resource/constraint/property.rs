//! A property as constraints name it: wanted, or with `^` unwanted.

use super::ConstraintFault;
use crate::resource::set::RESERVED_IN_PROPERTIES;
use crate::resource::{Hostlist, Idset, RankResources, ResourceSet};
use std::fmt;
use std::str::FromStr;

/// One operand of the `properties` operator (RFC 31): a name, with `^` in front when nodes must not
/// have it.
///
/// The name of a node's host counts as one of its properties, as in Flux.
///
/// ```
/// use jobtap_core::resource::Property;
///
/// let property: Property = "^ssd".parse()?;
/// assert_eq!((property.name(), property.is_negated()), ("ssd", true));
/// assert_eq!(property.to_string(), "^ssd");
/// assert!("a|b".parse::<Property>().is_err());
/// # Ok::<(), jobtap_core::resource::ConstraintFault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Property {
    name: String,
    negated: bool,
}

impl Property {
    /// The name, without `^`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether nodes with the property are excluded.
    #[must_use]
    pub const fn is_negated(&self) -> bool {
        self.negated
    }

    pub(super) fn holds_for(&self, node: &RankResources<'_>) -> bool {
        let has = node.has_property(&self.name) || node.host().is_some_and(|h| h == self.name);
        has != self.negated
    }

    /// The ranks among `within` for which it holds.
    pub(super) fn ranks(&self, set: &ResourceSet, within: &Idset) -> Idset {
        let mut holders = set.nodes.holders(&self.name);
        let mut host = Hostlist::new();
        // What can't be a host's name is the name of no host.
        if host.push(&self.name).is_ok() {
            holders = holders.union(&set.ranks_on(&host));
        }
        if self.negated { within.difference(&holders) } else { within.intersection(&holders) }
    }
}

impl FromStr for Property {
    type Err = ConstraintFault;

    fn from_str(text: &str) -> Result<Self, ConstraintFault> {
        let (name, negated) = text.strip_prefix('^').map_or((text, false), |name| (name, true));
        if name.is_empty() {
            return Err(ConstraintFault::PropertyName { property: text.to_owned() });
        }
        match name.chars().find(|c| RESERVED_IN_PROPERTIES.contains(*c)) {
            Some(character) => {
                Err(ConstraintFault::PropertyCharacter { character, property: text.to_owned() })
            }
            None => Ok(Self { name: name.to_owned(), negated }),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negated { "^" } else { "" };
        write!(f, "{sign}{}", self.name)
    }
}
