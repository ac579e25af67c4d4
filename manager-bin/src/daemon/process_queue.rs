//! Processes of plugins that wait, since only so many run at once.

use std::collections::BTreeMap;

use jobtap_core::plugin::{PluginKey, ProcessKey};

/// What waits, of each plugin in the order of asking.
pub(super) struct ProcessQueue<T> {
    waiting: BTreeMap<PluginKey, BTreeMap<ProcessKey, T>>,
}

impl<T> Default for ProcessQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new() }
    }
}

impl<T> ProcessQueue<T> {
    /// Puts one at the end. Keys grow in the order of asking.
    pub(super) fn push(&mut self, plugin: PluginKey, key: ProcessKey, process: T) {
        self.waiting.entry(plugin).or_default().insert(key, process);
    }

    /// Takes the next one: of the plugin of which the fewest are `running`, so that the thousands of
    /// one plugin don't hold up the one process of another.
    pub(super) fn next(
        &mut self,
        running: impl Fn(PluginKey) -> usize,
    ) -> Option<(PluginKey, ProcessKey, T)> {
        let plugin = *self.waiting.keys().min_by_key(|plugin| running(**plugin))?;
        let theirs = self.waiting.get_mut(&plugin)?;
        let first = theirs.pop_first();
        if theirs.is_empty() {
            self.waiting.remove(&plugin);
        }
        first.map(|(key, process)| (plugin, key, process))
    }

    /// Takes this one, if it waits.
    pub(super) fn take(&mut self, key: ProcessKey) -> Option<T> {
        let process = self.waiting.values_mut().find_map(|theirs| theirs.remove(&key));
        self.waiting.retain(|_, theirs| !theirs.is_empty());
        process
    }

    /// Takes all of a plugin.
    pub(super) fn take_all(&mut self, plugin: PluginKey) -> Vec<T> {
        self.waiting.remove(&plugin).unwrap_or_default().into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiting: &[(u64, u64)]) -> ProcessQueue<()> {
        let mut queue = ProcessQueue::default();
        for (plugin, key) in waiting {
            queue.push(PluginKey(*plugin), ProcessKey(*key), ());
        }
        queue
    }

    /// The keys in the order of their turns when `running` of each plugin run and none ends.
    fn turns(mut queue: ProcessQueue<()>, mut running: BTreeMap<u64, usize>) -> Vec<u64> {
        let mut keys = Vec::new();
        while let Some((plugin, key, ())) =
            queue.next(|plugin| running.get(&plugin.0).copied().unwrap_or(0))
        {
            *running.entry(plugin.0).or_default() += 1;
            keys.push(key.0);
        }
        keys
    }

    #[test]
    fn plugins_take_turns_and_keep_their_own_order() {
        let waiting = [(1, 10), (1, 11), (1, 12), (2, 13), (2, 14)];
        assert_eq!(turns(queue(&waiting), BTreeMap::new()), [10, 13, 11, 14, 12]);
        assert_eq!(turns(queue(&waiting), BTreeMap::from([(1, 5)])), [13, 14, 10, 11, 12]);
    }

    #[test]
    fn what_was_taken_gets_no_turn() {
        let mut queue = queue(&[(1, 10), (1, 11), (2, 12)]);
        assert_eq!(queue.take(ProcessKey(10)), Some(()));
        assert_eq!(queue.take(ProcessKey(10)), None);
        assert_eq!(queue.take_all(PluginKey(2)).len(), 1);
        assert_eq!(turns(queue, BTreeMap::new()), [11]);
    }
}
