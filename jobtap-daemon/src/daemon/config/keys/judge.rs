//! Judges a configuration: finds the keys that have no effect, and those that are refused.

use jobtap_core::suggest::{nearest, slip_of};
use serde_json::Value;

use super::{Content, Fate, Key, Reader, is_known, names_in, table_at};
use crate::daemon::config::place::Step;

/// A remark on a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whether a manager refuses the configuration.
    pub refused: bool,
    /// The text, which begins with the key or the table.
    pub text: String,
    /// The key or the table.
    pub place: Vec<Step>,
}

/// The facts about plugins that are needed to judge a configuration.
pub(in crate::daemon) trait Plugins {
    /// Whether a linked plugin reads this key of the instance's configuration.
    fn read(&self, key: &[&str]) -> bool;

    /// Returns whether the plugin that reads a table is linked and loaded.
    fn state(&self, name: &str) -> PluginState;
}

/// Whether a plugin is linked and loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum PluginState {
    Loaded,
    /// Linked, but loaded only by name, and nothing names it.
    NotLoaded,
    NotLinked,
}

/// Returns all remarks on the configuration, in the order of its keys.
pub(in crate::daemon) fn judge(config: &Value, plugins: &dyn Plugins) -> Vec<Judgement> {
    let mut judge = Judge { plugins, found: Vec::new() };
    judge.table(config, &mut Vec::new());
    judge.found
}

struct Judge<'a> {
    plugins: &'a dyn Plugins,
    found: Vec<Judgement>,
}

impl Judge<'_> {
    /// Judges the table at `path`.
    fn table<'c>(&mut self, value: &'c Value, path: &mut Vec<&'c str>) {
        let content = table_at(path).map(|table| &table.content);
        let place = path.join(".");
        match content {
            Some(Content::Named(_)) => return,
            Some(Content::Idle { why, keys }) => return self.idle(why, keys, value, path),
            Some(Content::Keys(Reader::Plugin(plugin), _)) => match self.plugins.state(plugin) {
                PluginState::Loaded => {}
                PluginState::NotLoaded => {
                    let text = format!(
                        "the plugin {plugin} reads it, and isn't loaded at the start: add {{ load = \"{plugin}\" }} \
                         to job-manager.plugins"
                    );
                    return self.say(false, format!("[{place}]: has no effect: {text}"), path);
                }
                PluginState::NotLinked => {
                    let text =
                        format!("the plugin {plugin} reads it, and isn't linked into this manager");
                    return self.say(false, format!("[{place}]: has no effect: {text}"), path);
                }
            },
            Some(Content::Keys(..)) | None => {}
        }
        let Some(entries) = value.as_object() else {
            return self.no_table(value, path, content);
        };
        for (name, value) in entries {
            path.push(name);
            self.key(value, path, content);
            path.pop();
        }
    }

    /// Judges a table that no part of the manager reads.
    fn idle(&mut self, why: &str, known: &[&str], value: &Value, path: &mut Vec<&str>) {
        let is_read = |path: &[&str]| self.plugins.read(path);
        if is_read(path) || asks_for_nothing(value) {
            return;
        }
        let table = path.join(".");
        let names = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        // Keys that don't resemble a known one may come from a newer Flux.
        let slips = names.filter(|name| !known.contains(name));
        let slips: Vec<_> =
            slips.filter(|name| slip_of(name, known.iter().copied()).is_some()).collect();
        self.say(false, format!("[{table}]: has no effect here: {why}"), path);
        for name in slips {
            let text = unknown(name, path);
            let inner: Vec<&str> = path.iter().copied().chain([name]).collect();
            self.say(true, text, &inner);
        }
    }

    /// Judges the key at `path`, which is in a table with this content.
    fn key<'c>(&mut self, value: &'c Value, path: &mut Vec<&'c str>, content: Option<&Content>) {
        let Some((name, outer)) = path.split_last() else { return };
        let listed = match content {
            Some(Content::Keys(_, keys)) => keys.iter().find(|key| key.name == *name),
            _ => None,
        };
        // A key that the list has tables for is a table.
        if is_known(path) {
            return self.table(value, path);
        }
        if let Some(key) = listed {
            return self.listed(key, value, path);
        }
        if self.plugins.read(path) {
            return;
        }
        match content {
            Some(Content::Keys(Reader::List | Reader::ListOfTable, _)) => {
                self.say(true, unknown(name, outer), path);
            }
            None if outer.is_empty() => self.unknown_table(name, path),
            // The reader of the table refuses the key itself.
            _ => {}
        }
    }

    fn listed(&mut self, key: &Key, value: &Value, path: &[&str]) {
        let place = path.join(".");
        match &key.fate {
            Fate::Served { .. } => {}
            Fate::NoEffect { fine, .. }
                if asks_for_nothing(value)
                    || fine.contains(&&*value.to_string())
                    || self.plugins.read(path) => {}
            Fate::NoEffect { why, .. } => {
                self.say(false, format!("{place}: has no effect here: {why}"), path);
            }
            Fate::Refused { instead } => {
                self.say(true, format!("{place}: is not served here: {instead}"), path);
            }
        }
    }

    /// Judges a table with an unknown name. A name that looks like a misspelled known one is a mistake. Any other may
    /// be the table of another program, or of a newer Flux.
    fn unknown_table(&mut self, name: &str, path: &[&str]) {
        let known = names_in(&[]);
        let text = "neither Flux nor this manager nor a linked plugin knows such a table";
        if let Some(meant) = slip_of(name, known.iter().copied()) {
            return self.say(true, format!("{name}: {text}; did you mean {meant}?"), path);
        }
        let meant = nearest(name, known.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        self.say(false, format!("{name}: has no effect: {text}{meant}"), path);
    }

    /// Judges a value in place of a table. The reader of a table as a whole reports that itself.
    fn no_table(&mut self, value: &Value, path: &[&str], content: Option<&Content>) {
        if let (Some(Content::Keys(Reader::List, _)), false) = (content, path.is_empty()) {
            let place = path.join(".");
            let text = format!("{place}: must be a table, written once as [{place}], not {value}");
            self.say(true, text, path);
        }
    }

    fn say(&mut self, refused: bool, text: String, path: &[&str]) {
        let place = path.iter().map(|key| Step::Key((*key).to_owned())).collect();
        self.found.push(Judgement { refused, text, place });
    }
}

/// The text about a key that its table doesn't have.
fn unknown(name: &str, outer: &[&str]) -> String {
    let known = names_in(outer);
    let table = outer.join(".");
    let text = format!("{table}.{name}: neither Flux nor this manager knows such a key");
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("{text}; did you mean {table}.{meant}?"),
        None => format!("{text}; [{table}] has {}", known.join(", ")),
    }
}

/// Whether a value asks for what happens without it anyway: `false`, or nothing.
fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.values().all(asks_for_nothing),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A plugin that reads `[site]` and `job-manager.mine`; `perilog` isn't loaded.
    struct Some;

    impl Plugins for Some {
        fn read(&self, key: &[&str]) -> bool {
            key.starts_with(&["site"]) || key == ["job-manager", "mine"]
        }

        fn state(&self, name: &str) -> PluginState {
            match name {
                "perilog" => PluginState::NotLoaded,
                _ => PluginState::Loaded,
            }
        }
    }

    fn said(config: &Value) -> Vec<(bool, String)> {
        judge(config, &Some).into_iter().map(|found| (found.refused, found.text)).collect()
    }

    fn refused(config: &Value) -> Vec<String> {
        let said = said(config).into_iter();
        said.map(|(refused, text)| (refused).then_some(text).expect("it is refused")).collect()
    }

    fn warned(config: &Value) -> Vec<String> {
        let said = said(config).into_iter();
        said.map(|(refused, text)| (!refused).then_some(text).expect("it is warned of")).collect()
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused_with_what_was_meant() {
        let config = json!({
            "polcy": {},
            "job-manager": {"inactive-age-limt": "1h", "plugins": [], "mine": 1},
            "ingest": {"validator": {"plugin": []}},
            "exec": {"service-name": "x", "testexec": {"allow-guest": true}},
            "site": {"users": 3},
            "log": 3,
        });
        let texts = refused(&config);
        let no_key = "neither Flux nor this manager knows such a key; did you mean";
        assert_eq!(texts.len(), 6, "{texts:#?}");
        assert!(texts[0].starts_with("polcy: ") && texts[0].ends_with("did you mean policy?"));
        for (text, (key, meant)) in texts.iter().skip(1).zip([
            ("job-manager.inactive-age-limt", "job-manager.inactive-age-limit"),
            ("ingest.validator.plugin", "ingest.validator.plugins"),
        ]) {
            assert_eq!(*text, format!("{key}: {no_key} {meant}?"));
        }
        assert!(texts[3].contains("[exec] has imp, service, "), "{}", texts[3]);
        assert!(texts[4].ends_with("did you mean exec.testexec.allow-guests?"), "{}", texts[4]);
        assert_eq!(texts[5], "log: must be a table, written once as [log], not 3");
    }

    #[test]
    fn a_key_that_is_not_served_is_refused_with_what_to_do() {
        let texts = refused(&json!({"fake-resources": {"nnodes": 1, "amend-r": "x.py"}}));
        assert_eq!(texts.len(), 1, "{texts:#?}");
        assert!(texts[0].starts_with("fake-resources.amend-r: is not served here: no Python"));
    }

    #[test]
    fn keys_without_effect_are_named_and_tables_once() {
        let texts = warned(&json!({
            "exec": {"job-shell": "x", "sdexec-properties": {"MemoryMax": "95%"}, "imp": "y"},
            "tbon": {"torpid_max": "1m", "topo": "kary:2"},
            "resource": {"scheduling": "x"},
            "something": {},
        }));
        let begins = |start: &str| texts.iter().filter(|text| text.starts_with(start)).count();
        assert_eq!(texts.len(), 5, "{texts:#?}");
        assert_eq!(begins("exec.job-shell: has no effect here: "), 1);
        assert_eq!(begins("[exec.sdexec-properties]: has no effect here: "), 1);
        assert_eq!(begins("[tbon]: has no effect here: "), 1);
        assert_eq!(begins("resource.scheduling: has no effect here: "), 1);
        assert_eq!(begins("something: has no effect: "), 1);
    }

    #[test]
    fn a_value_that_asks_for_what_happens_anyway_is_no_news() {
        let config = json!({
            "exec": {"service": "rexec", "method": "bulk-exec", "sdexec-constrain-resources": false},
            "systemd": {"enable": false},
            "ingest": {"frobnicator": {"args": []}},
            "tbon": {},
        });
        assert_eq!(said(&config), []);
        assert_eq!(warned(&json!({"exec": {"service": "sdexec"}})).len(), 1);
        assert_eq!(warned(&json!({"systemd": {"enable": true}})).len(), 1);
    }

    #[test]
    fn an_unknown_key_in_a_table_without_effect_is_refused_if_it_is_a_slip() {
        let said = said(&json!({"tbon": {"torpid_mx": "1m", "of-a-newer-flux": 1}}));
        assert_eq!(said.iter().map(|(refused, _)| *refused).collect::<Vec<_>>(), [false, true]);
        assert!(said[1].1.ends_with("did you mean tbon.torpid_max?"), "{}", said[1].1);
    }

    #[test]
    fn a_table_of_a_plugin_that_is_not_loaded_is_told() {
        let texts = warned(&json!({
            "job-manager": {"prolog": {"command": ["x"]}, "housekeeping": {"command": ["x"]}},
        }));
        assert_eq!(texts.len(), 1, "{texts:#?}");
        assert!(texts[0].starts_with("[job-manager.prolog]: has no effect: the plugin perilog "));
    }

    #[test]
    fn keys_of_roles_and_of_schedulers_are_known() {
        let texts = refused(&json!({
            "access": {"roles": {"admn": {}, "admin": {"user": []}}},
            "policy": {"scheduler": {"queue-polcy": "easy"}},
            "queues": {"a": {"policy": {"scheduler": {"depth": 3}, "limits": {"duration": "1h"}}}},
        }));
        let begins: Vec<_> = texts.iter().filter_map(|text| text.split(": ").next()).collect();
        let wanted = [
            "access.roles.admn",
            "access.roles.admin.user",
            "policy.scheduler.queue-polcy",
            "queues.a.policy.scheduler.depth",
        ];
        assert_eq!(begins, wanted);
    }

    #[test]
    fn tables_that_are_read_as_a_whole_are_left_to_their_readers() {
        let config = json!({
            "access": {"private-mod": 1}, "queues": {"a": {"require": []}}, "policy": {"limit": 1},
            "resource": {"noverfy": true}, "plugins": {"x": 1},
        });
        assert_eq!(said(&config), []);
    }
}
