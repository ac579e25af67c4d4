//! The check of linked schedulers.

use std::collections::BTreeMap;

use super::descriptor::SDK_VERSION;
use super::registry::RegistryError;
use crate::sched::{OWN, SchedulerDescriptor};

/// Each must be of this SDK, and have a name that no other has. They are put in the order of their
/// names, which no linker decides.
pub(super) fn check(
    linked: Vec<&'static SchedulerDescriptor>,
) -> Result<Vec<&'static SchedulerDescriptor>, RegistryError> {
    let mut by_name: BTreeMap<&str, &SchedulerDescriptor> = BTreeMap::new();
    for scheduler in OWN.iter().chain(linked.iter().copied()) {
        let SchedulerDescriptor { name, crate_name: second, sdk, .. } = scheduler;
        if *sdk != SDK_VERSION {
            return Err(RegistryError::Sdk { name, sdk });
        }
        if let Some(SchedulerDescriptor { crate_name: first, .. }) = by_name.insert(name, scheduler)
        {
            return Err(RegistryError::DuplicateScheduler { name, first, second });
        }
    }
    let mut linked = linked;
    linked.sort_by_key(|scheduler| scheduler.name);
    Ok(linked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    static MINE: SchedulerDescriptor = SchedulerDescriptor {
        name: "mine",
        crate_name: "site",
        crate_version: "0",
        sdk: SDK_VERSION,
        new: |_| Err("a test does not make it".to_owned()),
    };
    static EASY: SchedulerDescriptor = SchedulerDescriptor { name: "easy", ..MINE };
    static OLD: SchedulerDescriptor = SchedulerDescriptor { sdk: "0.0.1", ..MINE };

    #[test]
    fn names_are_unique_among_linked_ones_and_those_of_jobtap() {
        assert_eq!(check(vec![&MINE]).unwrap().len(), 1);
        let error = check(vec![&MINE, &MINE]).unwrap_err().to_string();
        assert!(
            error.starts_with("two schedulers are named \"mine\": one of crate site"),
            "{error}"
        );
        let error = check(vec![&EASY]).unwrap_err();
        let (name, first, second) = ("easy", "jobtap-core", "site");
        assert_eq!(error, RegistryError::DuplicateScheduler { name, first, second });
        assert!(matches!(check(vec![&OLD]), Err(RegistryError::Sdk { .. })));
    }
}
