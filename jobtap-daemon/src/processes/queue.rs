//! Processes of plugins that wait to be started, since the number of those that run is limited.
//!
//! Nobody knows when a process will end, so taking turns as slots become free is not enough: scripts that hang would
//! take all slots and keep every other plugin out. So a plugin gets only a part of the slots that the others leave, and
//! some are left for a plugin that comes later.

use std::collections::BTreeMap;

use jobtap_core::host::{PluginKey, ProcessKey};

/// The processes that wait, for each plugin in the order of their requests.
pub(super) struct ProcessQueue<T> {
    waiting: BTreeMap<PluginKey, BTreeMap<ProcessKey, T>>,
}

impl<T> Default for ProcessQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new() }
    }
}

impl<T> ProcessQueue<T> {
    /// Adds a process. Keys grow in the order of the requests.
    pub(super) fn push(&mut self, plugin: PluginKey, key: ProcessKey, process: T) {
        self.waiting.entry(plugin).or_default().insert(key, process);
    }

    /// Takes the next process: one of the plugin that has the fewest running. When that plugin gets no
    /// slot, no other one does.
    pub(super) fn next(&mut self, slots: &Slots) -> Option<(PluginKey, ProcessKey, T)> {
        let plugin = *self.waiting.keys().min_by_key(|plugin| slots.count(**plugin))?;
        if !slots.has_one_for(plugin) {
            return None;
        }
        let theirs = self.waiting.get_mut(&plugin)?;
        let first = theirs.pop_first();
        if theirs.is_empty() {
            self.waiting.remove(&plugin);
        }
        first.map(|(key, process)| (plugin, key, process))
    }

    /// Takes the process with this key, if it waits.
    pub(super) fn take(&mut self, key: ProcessKey) -> Option<T> {
        let process = self.waiting.values_mut().find_map(|theirs| theirs.remove(&key));
        self.waiting.retain(|_, theirs| !theirs.is_empty());
        process
    }

    /// Takes all processes of a plugin.
    pub(super) fn take_all(&mut self, plugin: PluginKey) -> Vec<T> {
        self.waiting.remove(&plugin).unwrap_or_default().into_values().collect()
    }
}

/// How many processes may run at once, and how many of each plugin do.
pub(super) struct Slots {
    room: usize,
    total: usize,
    running: BTreeMap<PluginKey, usize>,
}

impl Slots {
    pub(super) fn new(room: usize, running: impl Iterator<Item = PluginKey>) -> Self {
        let mut slots = Self { room, total: 0, running: BTreeMap::new() };
        running.for_each(|plugin| slots.take(plugin));
        slots
    }

    /// Counts one more process of a plugin.
    pub(super) fn take(&mut self, plugin: PluginKey) {
        *self.running.entry(plugin).or_default() += 1;
        self.total += 1;
    }

    fn count(&self, plugin: PluginKey) -> usize {
        self.running.get(&plugin).copied().unwrap_or(0)
    }

    /// Whether a plugin gets a slot. Its first process needs only a free slot; beyond that it has at most
    /// three quarters of the slots that the others leave.
    fn has_one_for(&self, plugin: PluginKey) -> bool {
        let own = self.count(plugin);
        let left = self.room.saturating_sub(self.total - own);
        own < left && (own == 0 || 4 * (own + 1) <= 3 * left)
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

    /// Slots; plugins 1, 2 and so on have taken the numbers in `running`.
    fn slots(room: usize, running: &[usize]) -> Slots {
        let running = (1..).zip(running);
        let keys = running.flat_map(|(plugin, count)| vec![PluginKey(plugin); *count]);
        Slots::new(room, keys)
    }

    /// The keys of the processes that begin, in order, if none ends.
    fn turns(mut queue: ProcessQueue<()>, mut slots: Slots) -> Vec<u64> {
        let mut keys = Vec::new();
        while let Some((plugin, key, ())) = queue.next(&slots) {
            slots.take(plugin);
            keys.push(key.0);
        }
        keys
    }

    /// How many processes of each plugin begin if the plugins, one after the other, ask for more than there is room
    /// for, and none ends.
    fn endless(room: usize, plugins: u64) -> Vec<usize> {
        let (mut queue, mut slots) = (ProcessQueue::default(), slots(room, &[]));
        for plugin in 1..=plugins {
            for key in 0..2000 {
                queue.push(PluginKey(plugin), ProcessKey(2000 * plugin + key), ());
            }
            while let Some((plugin, ..)) = queue.next(&slots) {
                slots.take(plugin);
            }
        }
        (1..=plugins).map(|plugin| slots.count(PluginKey(plugin))).collect()
    }

    #[test]
    fn plugins_take_turns_and_keep_their_own_order() {
        let waiting = [(1, 10), (1, 11), (1, 12), (2, 13), (2, 14)];
        assert_eq!(turns(queue(&waiting), slots(64, &[])), [10, 13, 11, 14, 12]);
        assert_eq!(turns(queue(&waiting), slots(64, &[5])), [13, 14, 10, 11, 12]);
    }

    #[test]
    fn processes_that_never_end_leave_slots_for_other_plugins() {
        assert_eq!(endless(64, 4), [48, 12, 3, 1]);
        assert_eq!(endless(8, 3), [6, 1, 1]);
        assert_eq!(endless(4, 2), [3, 1]);
        assert_eq!(endless(1, 2), [1, 0]);
    }

    #[test]
    fn a_plugin_that_has_its_share_waits_until_others_leave_more() {
        let waiting = [(1, 10), (1, 11), (2, 12)];
        assert_eq!(turns(queue(&waiting), slots(8, &[6])), [12]);
        assert_eq!(turns(queue(&waiting), slots(8, &[3, 3])), Vec::<u64>::new());
        assert_eq!(turns(queue(&waiting), slots(8, &[3, 1])), [12, 10]);
    }

    #[test]
    fn what_was_taken_gets_no_turn() {
        let mut queue = queue(&[(1, 10), (1, 11), (2, 12)]);
        assert_eq!(queue.take(ProcessKey(10)), Some(()));
        assert_eq!(queue.take(ProcessKey(10)), None);
        assert_eq!(queue.take_all(PluginKey(2)).len(), 1);
        assert_eq!(turns(queue, slots(8, &[])), [11]);
    }
}
