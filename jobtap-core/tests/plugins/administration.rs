//! Loading, removing, reloading, configuring and measuring plugins while the manager runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jobtap_core::host::Ticks;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use crate::common::ByUrgency;

#[derive(Deserialize, JsonSchema)]
struct Settings {
    #[serde(default)]
    limit: u64,
}

#[derive(Deserialize, Default)]
struct Instance {
    #[serde(default)]
    site: Site,
}

#[derive(Deserialize, Default)]
struct Site {
    #[serde(default)]
    most: u64,
}

/// Has a limit of its own, and refuses a configuration whose `site.most` is above 100.
struct Limit {
    settings: Settings,
    most: u64,
}

#[jobtap_plugin(name = "limit")]
impl Limit {
    #[init]
    fn new(conf: Conf<Settings>) -> Self {
        Self { settings: conf.into_inner(), most: 0 }
    }

    #[on("conf.update")]
    fn configure(&mut self, conf: InstanceConf<Instance>) -> Result<(), ConfError> {
        if conf.site.most > 100 {
            return Err(ConfError::new("site.most: 100 is the most"));
        }
        self.most = conf.site.most;
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        QueryData::new().with("limit", self.settings.limit).with("most", self.most)
    }
}

fn manager(config: Value) -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<Limit>().config(config).start()
}

fn told(m: &mut TestManager, key: &str) -> Value {
    m.query_plugin("limit").unwrap()[key].clone()
}

#[test]
fn a_new_configuration_reaches_the_plugins() {
    let mut m = manager(json!({"site": {"most": 5}}));
    assert_eq!(told(&mut m, "most"), 5);
    m.configure(json!({"site": {"most": 6}})).unwrap();
    assert_eq!(told(&mut m, "most"), 6);
}

#[test]
fn a_plugins_veto_leaves_the_old_configuration() {
    let mut m = manager(json!({"site": {"most": 5}}));
    let refused = m.configure(json!({"site": {"most": 500}})).unwrap_err();
    assert_eq!(refused, "site.most: 100 is the most");
    assert_eq!(told(&mut m, "most"), 5);
    m.reload_plugin("limit", json!({"limit": 3})).unwrap();
    assert_eq!(told(&mut m, "most"), 5);
}

#[test]
fn a_reload_builds_the_plugin_anew_in_its_place() {
    let mut m = manager(json!({"plugins": {"limit": {"limit": 1}}}));
    m.reload_plugin("limit", json!({"limit": 2})).unwrap();
    assert_eq!(told(&mut m, "limit"), 2);
    let refused = m.reload_plugin("limit", json!({"limt": 3})).unwrap_err().text();
    assert!(refused.contains("did you mean \"limit\"?"), "{refused}");
    // The plugin with the old configuration is still loaded.
    assert_eq!(told(&mut m, "limit"), 2);
    assert!(m.reload_plugin("nobody", json!({})).unwrap_err().text().contains("plugin not found"));
}

#[test]
fn a_misspelt_key_stops_the_start_with_the_nearest_one() {
    let config = json!({"plugins": {"limit": {"limti": 1}}});
    let started = TestManager::new().plugin::<Limit>().config(config).try_start();
    let error = started.err().unwrap();
    assert!(error.text().contains("[plugins.limit]: unknown key \"limti\""), "{error}");
    assert!(error.text().contains("did you mean \"limit\"?"), "{error}");
}

#[test]
fn the_configuration_has_a_schema() {
    let descriptor = <Limit as jobtap_core::plugin::Plugin>::DESCRIPTOR;
    let schema = (descriptor.schema)().unwrap();
    assert_eq!(schema["properties"]["limit"]["type"], "integer");
    let none = <ByUrgency as jobtap_core::plugin::Plugin>::DESCRIPTOR;
    assert_eq!((none.schema)(), None);
}

#[test]
fn a_configuration_without_a_derived_schema_is_any_table() {
    let descriptor = <Plain as jobtap_core::plugin::Plugin>::DESCRIPTOR;
    assert_eq!((descriptor.schema)(), Some(json!({"type": "object"})));
}

/// A plugin whose configuration type derives no schema.
struct Plain;

#[jobtap_plugin(name = "plain", load = "by-name")]
impl Plain {
    #[init]
    fn new(_conf: Conf<Instance>) -> Self {
        Self
    }
}

/// Takes a quarter of a second for every job, by the clock that the test gives.
struct Slow;

static COARSE: std::sync::LazyLock<Arc<AtomicU64>> = std::sync::LazyLock::new(Arc::default);

#[jobtap_plugin(name = "slow")]
impl Slow {
    #[init]
    fn new() -> Self {
        Self
    }

    #[on("job.new")]
    fn new_job(&self, job: &Job) -> Result<(), HandlerError> {
        COARSE.fetch_add(250, Ordering::Relaxed);
        match job.jobspec().name() {
            Some("bad") => Err(HandlerError::new("no")),
            Some("worse") => panic!("no"),
            _ => Ok(()),
        }
    }

    #[service("later")]
    fn later(request: Request<u64>, remote: Remote<Self>) {
        let milliseconds = request.into_inner();
        remote.run(move |_, _| {
            COARSE.fetch_add(milliseconds, Ordering::Relaxed);
        });
    }

    #[service("now")]
    fn now(request: Request<u64>) {
        COARSE.fetch_add(request.into_inner(), Ordering::Relaxed);
    }
}

#[test]
fn what_handlers_cost_is_counted_and_what_is_too_slow_is_logged() {
    let ticks = Ticks::new(Arc::clone(&COARSE), || COARSE.load(Ordering::Relaxed) * 1_000_000);
    let config = json!({"job-manager": {"plugin-time-budget": "0.2s"}});
    let mut m = TestManager::new().plugin::<Slow>().config(config).ticks(ticks).start();
    let id = m.submit(TestJob::new()).unwrap();
    m.submit(TestJob::new().name("bad")).unwrap();
    m.submit(TestJob::new().name("worse")).unwrap();
    let stats = &m.plugin_stats("slow")[0];
    assert_eq!((stats.topic.as_str(), stats.method), ("job.new", "new_job"));
    assert_eq!((stats.calls, stats.errors, stats.panics), (3, 1, 1));
    // The first call is timed: 250 ms are between 2^27 and 2^28 ns.
    assert_eq!(stats.quantile(0.5), Some(1 << 28));
    let line = format!("slow: job.new: job {id}: took 0.25 s, more than its budget of 0.2 s");
    assert!(m.log().any(|(_, text)| text == line));
    // Later calls and services have the same budget, and may use all of it.
    for service in ["slow.later", "slow.now"] {
        let mut warnings = |milliseconds: u64| {
            let before = m.log().count();
            m.call_service(service, json!(milliseconds)).unwrap();
            let new: Vec<&str> = m.log().skip(before).map(|(_, text)| text).collect();
            new.join("; ")
        };
        assert_eq!(warnings(200), "", "{service}");
        let text = warnings(300);
        assert!(text.ends_with(": took 0.3 s, more than its budget of 0.2 s"), "{service}: {text}");
    }
}

#[test]
fn a_test_can_be_the_scheduler() {
    let mut m = TestManager::new().plugin::<ByUrgency>().start();
    m.hold_scheduling().unwrap();
    let first = m.submit(TestJob::new()).unwrap();
    let second = m.submit(TestJob::new()).unwrap();
    m.allocate(second);
    m.assert_state(second, State::Run);
    m.assert_state(first, State::Sched);
    m.assert_priority(first, 16);
    m.raise(first, "alloc", 0, "denied by hand").unwrap();
    m.assert_exception(first, "alloc", "by hand");
}

#[test]
fn a_budget_that_is_no_time_is_refused() {
    let config = json!({"job-manager": {"plugin-time-budget": "soon"}});
    let error = TestManager::new().config(config).try_start().err().unwrap();
    assert!(error.text().contains("job-manager.plugin-time-budget"), "{error}");
}

mod own_table {
    use super::*;

    #[derive(Debug, Clone, Copy, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Table {
        limit: u64,
        grace: u64,
    }

    /// Takes over each change of its table, and keeps its count.
    #[derive(Default)]
    struct Follows {
        table: Table,
        queries: u64,
    }

    #[jobtap_plugin(name = "follows")]
    impl Follows {
        #[on("conf.update")]
        fn update(&mut self, table: Conf<Table>) {
            self.table = *table;
        }

        #[on("plugin.query")]
        fn query(&mut self) -> QueryData {
            self.queries += 1;
            let Table { limit, grace } = self.table;
            QueryData::new().with("now", json!([limit, grace, self.queries]))
        }
    }

    /// Reads its settings only when it is built.
    struct Stays;

    #[jobtap_plugin(name = "stays")]
    impl Stays {
        #[init]
        fn new(_table: Conf<Table>) -> Self {
            Self
        }
    }

    fn now(m: &mut TestManager) -> Value {
        m.query_plugin("follows").unwrap()["now"].clone()
    }

    #[test]
    fn a_plugin_follows_its_table_and_keeps_its_state() {
        let config = |limit: u64| json!({"plugins": {"follows": {"limit": limit, "grace": 1}, "stays": {"limit": limit}}});
        let builder = TestManager::new().plugin::<Follows>().plugin::<Stays>();
        let mut m = builder.config(config(1)).start();
        assert_eq!(now(&mut m), json!([1, 1, 1]));
        m.configure(config(2)).unwrap();
        assert_eq!(now(&mut m), json!([2, 1, 2]));
        m.assert_logged("follows: conf.update has accepted the new [plugins.follows]");
        m.assert_logged("stays: [plugins.stays] has changed, and takes effect with `jobtap plugin reload stays`");
        let refused = m.configure(json!({"plugins": {"follows": {"limt": 3}}})).unwrap_err();
        assert_eq!(refused, "[plugins.follows]: unknown key \"limt\"; did you mean \"limit\"?");
        assert_eq!(now(&mut m), json!([2, 1, 3]));
        // What an administrator gives takes precedence over the table, also after later changes of the table.
        m.reload_plugin("follows", json!({"grace": 9})).unwrap();
        m.configure(config(4)).unwrap();
        assert_eq!(now(&mut m), json!([4, 9, 1]));
    }
}
