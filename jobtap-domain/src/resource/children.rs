//! The ids of one node in a resource set: the `children` of an `R_lite` entry (RFC 20).

use super::Idset;
use std::collections::BTreeMap;

const CORE: &str = "core";
const GPU: &str = "gpu";

/// The ids of one node by kind: cores, gpus and other kinds that a site defines.
///
/// ```
/// use jobtap_core::resource::Children;
/// let mut node = Children::new("0-3".parse()?, "0".parse()?);
/// node.insert("nic", "0-1".parse()?);
/// assert_eq!(node.cores().len(), 4);
/// assert_eq!(node.summary(), "core[0-3],gpu0,nic[0-1]");
/// # Ok::<(), jobtap_core::resource::IdsetError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Children {
    cores: Idset,
    gpus: Idset,
    /// Never contains an empty set, so that children with the same ids compare equal.
    others: BTreeMap<String, Idset>,
}

impl Children {
    /// Children with these cores and gpus.
    #[must_use]
    pub const fn new(cores: Idset, gpus: Idset) -> Self {
        Self { cores, gpus, others: BTreeMap::new() }
    }

    /// Ids of the cores.
    #[must_use]
    pub const fn cores(&self) -> &Idset {
        &self.cores
    }

    /// Ids of the gpus.
    #[must_use]
    pub const fn gpus(&self) -> &Idset {
        &self.gpus
    }

    /// The ids of one kind, such as `core`; `None` if the node has nothing of this kind.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Idset> {
        match kind {
            CORE => Some(&self.cores),
            GPU => Some(&self.gpus),
            other => self.others.get(other),
        }
        .filter(|ids| !ids.is_empty())
    }

    /// Adds ids of one kind.
    pub fn insert(&mut self, kind: &str, ids: Idset) {
        let mine = match kind {
            CORE => &mut self.cores,
            GPU => &mut self.gpus,
            _ if ids.is_empty() => return,
            other => self.others.entry(other.to_owned()).or_default(),
        };
        if mine.is_empty() {
            *mine = ids;
        } else {
            *mine = mine.union(&ids);
        }
    }

    /// The kinds that have ids: cores, gpus, then the others by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Idset)> {
        [(CORE, &self.cores), (GPU, &self.gpus)]
            .into_iter()
            .filter(|(_, ids)| !ids.is_empty())
            .chain(self.others.iter().map(|(kind, ids)| (kind.as_str(), ids)))
    }

    /// Whether there is no id of any kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The ids that `self` or `other` has, kind by kind.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        for (kind, ids) in other.iter() {
            merged.insert(kind, ids.clone());
        }
        merged
    }

    /// The ids that aren't in `other`, kind by kind.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.each(|kind, ids| match other.get(kind) {
            Some(theirs) => ids.difference(theirs),
            None => ids.clone(),
        })
    }

    /// The ids that both have, kind by kind.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.each(|kind, ids| {
            other.get(kind).map(|theirs| ids.intersection(theirs)).unwrap_or_default()
        })
    }

    /// Whether `other` has every id of every kind.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|(kind, ids)| other.get(kind).is_some_and(|theirs| ids.is_subset(theirs)))
    }

    /// The form of Flux's resource summary: `core[0-3],gpu0`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        self.write_summary(&mut text);
        text
    }

    /// Appends the [summary](Self::summary) to a text.
    pub(super) fn write_summary(&self, text: &mut String) {
        for (i, (kind, ids)) in self.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(kind);
            ids.push_brackets_to(text);
        }
    }

    fn each(&self, map: impl Fn(&str, &Idset) -> Idset) -> Self {
        let mut mapped = Self::default();
        for (kind, ids) in self.iter() {
            mapped.insert(kind, map(kind, ids));
        }
        mapped
    }
}
