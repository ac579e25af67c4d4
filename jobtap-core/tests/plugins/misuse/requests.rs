//! Mistakes of users and administrators, which remain run-time errors: each error says where the
//! mistake is.

use super::*;

#[derive(Deserialize)]
struct Settings {
    limit: u32,
}

/// Refuses what it can't work with.
struct Strict {
    settings: Settings,
}

#[derive(Deserialize)]
struct Watched {
    #[serde(default)]
    site: Site,
}

#[derive(Default, Deserialize)]
struct Site {
    #[serde(default)]
    max: u32,
}

#[derive(Deserialize)]
struct Limit {
    limit: u32,
}

#[jobtap_plugin(name = "strict", load = "by-name")]
impl Strict {
    #[init]
    fn new(settings: Conf<Settings>) -> Result<Self, ConfError> {
        if settings.limit == 0 {
            return Err(ConfError::new("a limit of 0 lets nobody in"));
        }
        Ok(Self { settings: settings.into_inner() })
    }

    #[on("conf.update")]
    fn conf(&self, conf: InstanceConf<Watched>) -> Result<(), ConfError> {
        if conf.site.max > 9 {
            return Err(ConfError::new("site.max is at most 9"));
        }
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        if self.settings.limit == 13 {
            return Err(HandlerError::new("nothing is known of 13"));
        }
        Ok(QueryData::new().with("limit", self.settings.limit))
    }

    #[service("set")]
    fn set(&mut self, request: Request<Limit>) -> Result<u32, ServiceError> {
        self.settings.limit = request.limit;
        Ok(self.settings.limit)
    }
}

fn manager() -> TestManager {
    with::<Strict>()
}

fn loaded() -> TestManager {
    let mut m = manager();
    m.load_plugin("strict", json!({"limit": 3})).unwrap();
    m
}

#[test]
fn a_load_that_fails_says_why_and_leaves_no_plugin() {
    let mut m = manager();
    let load = |m: &mut TestManager, name, conf| m.load_plugin(name, conf).unwrap_err();
    assert_eq!(load(&mut m, "nobody", json!({})), "nobody: No such plugin found");
    assert_eq!(load(&mut m, "strict", json!(3)), "jobptap: plugin conf must be a JSON object");
    assert_eq!(load(&mut m, "strict", json!({"limit": 0})), "a limit of 0 lets nobody in");
    m.configure(json!({"site": {"max": 10}})).unwrap();
    assert_eq!(load(&mut m, "strict", json!({"limit": 3})), "site.max is at most 9");
    m.configure(json!({})).unwrap();
    m.load_plugin("strict", json!({"limit": 3})).unwrap();
    assert_eq!(load(&mut m, "strict", json!({"limit": 3})), "strict already loaded");
}

#[test]
fn a_mistake_in_the_conf_names_its_place() {
    let mut m = manager();
    let text = m.load_plugin("strict", json!({})).unwrap_err();
    assert_eq!(text, "[plugins.strict]: missing key \"limit\"");
    let text = m.load_plugin("strict", json!({"limit": "x"})).unwrap_err().text();
    assert!(text.starts_with("[plugins.strict]: limit: invalid type"), "{text}");
}

#[test]
fn a_plugin_without_a_configuration_of_its_own_is_given_none() {
    let mut m = manager();
    m.remove_plugin("by-urgency").unwrap();
    let text = m.load_plugin("by-urgency", json!({"limit": 3})).unwrap_err();
    let refused = "[plugins.by-urgency]: unknown key \"limit\": this plugin takes no configuration";
    assert_eq!(text, refused);
    m.load_plugin("by-urgency", json!({})).unwrap();
    let config = json!({"plugins": {"by-urgency": {"limit": 3}}});
    let error = TestManager::new().plugin::<ByUrgency>().config(config).try_start().err().unwrap();
    assert!(error.text().contains(refused), "{error}");
}

/// Every setting has a default.
#[derive(Default, Deserialize)]
struct Optional {
    #[serde(default)]
    limit: u32,
}

struct Lenient;

#[jobtap_plugin(name = "lenient")]
impl Lenient {
    #[init]
    fn new(settings: Conf<Optional>) -> Self {
        assert_eq!(settings.limit, 0);
        Self
    }

    #[on("job.new")]
    fn new_job(&self) {}
}

/// Can't be built.
struct Fragile;

#[jobtap_plugin(name = "fragile", load = "by-name")]
impl Fragile {
    #[init]
    fn new() -> Self {
        panic!("no licence file")
    }

    #[on("job.new")]
    fn new_job(&self) {}
}

#[test]
fn a_panic_where_a_plugin_is_built_is_a_load_that_fails() {
    let mut m = with::<Fragile>();
    let text = m.load_plugin("fragile", json!({})).unwrap_err();
    assert_eq!(text, "#[init] panicked: no licence file");
    m.submit(TestJob::new()).unwrap();
}

#[test]
fn no_conf_is_an_empty_one() {
    let mut m = with::<Lenient>();
    m.submit(TestJob::new()).unwrap();
}

#[test]
fn a_new_configuration_that_a_plugin_refuses_is_not_taken() {
    let mut m = loaded();
    let text = m.configure(json!({"site": {"max": 10}})).unwrap_err();
    assert_eq!(text, "site.max is at most 9");
}

#[test]
fn what_is_not_loaded_can_be_neither_removed_nor_asked() {
    let mut m = manager();
    let text = m.remove_plugin("strict").unwrap_err();
    assert_eq!(text, "Failed to find plugin to remove");
    m.remove_plugin("all").unwrap();
    m.remove_plugin("all").unwrap();
    assert_eq!(
        m.query_plugin("strict").unwrap_err(),
        "strict: plugin not found: it is linked and not loaded"
    );
}

#[test]
fn a_query_that_fails_says_why() {
    let mut m = loaded();
    assert_eq!(m.query_plugin("strict").unwrap()["limit"], 3);
    m.call_service("strict.set", json!({"limit": 13})).unwrap();
    let text = m.query_plugin("strict").unwrap_err();
    assert_eq!(text, "plugin.query failed: nothing is known of 13");
}

#[test]
fn a_request_of_the_wrong_user_or_type_is_refused_before_the_service_is_called() {
    let mut m = loaded();
    let text = m.call_service_as(7, "strict.set", json!({"limit": 1})).unwrap_err();
    assert_eq!(text, "Request requires owner credentials");
    let text = m.call_service("strict.set", json!({"limit": "x"})).unwrap_err().text();
    assert!(text.starts_with("invalid type: string \"x\""), "{text}");
    let text = m.call_service("strict.nothing", json!({})).unwrap_err();
    assert_eq!(
        text,
        "Unknown service method 'job-manager.strict.nothing'; strict has 'strict.set'"
    );
    assert_eq!(m.query_plugin("strict").unwrap()["limit"], 3);
}

#[test]
fn a_configuration_of_plugins_names_the_entry_that_is_wrong() {
    let start = |plugins: serde_json::Value| {
        let config = json!({"job-manager": {"plugins": plugins}});
        let builder = TestManager::new().plugin::<ByUrgency>().linked::<Strict>().config(config);
        builder.try_start().err().unwrap()
    };
    assert_eq!(start(json!(3)), "[job-manager.plugins] config must be an array");
    let text = start(json!([{"load": "nobody"}]));
    assert_eq!(text, "[job-manager.plugins][0]: load: nobody: No such plugin found");
    let text = start(json!([{"remove": "all"}, {"load": 3}]));
    assert_eq!(text, "[job-manager.plugins][1]: Expected string, got integer");
    let text = start(json!(["limits"]));
    assert_eq!(text, "[job-manager.plugins][0]: Expected object, got string");
    let text = start(json!([{"remove": "nobody"}]));
    let nobody = "[job-manager.plugins][0]: remove nobody: Failed to find plugin to remove";
    assert_eq!(text, nobody);
}

#[test]
fn dependencies_of_unknown_schemes_are_refused() {
    let mut m = manager();
    let text = m.submit(TestJob::new().dependency("moon:full")).unwrap_err();
    assert_eq!(text, "dependency scheme \"moon\" not supported");
    for (dependencies, refusal) in [
        (json!(3), "must be a list"),
        (json!([{"value": "x"}]), "scheme"),
        (json!([{"scheme": "x".repeat(200), "value": ""}]), "absurdly long dependency scheme"),
    ] {
        let job = TestJob::new().attribute("dependencies", dependencies);
        let text = m.submit(job).unwrap_err().text();
        assert!(text.contains(refusal), "{text}");
    }
}

#[test]
fn an_update_that_no_plugin_decides_about_is_refused_whatever_its_length() {
    let mut m = manager();
    let id = m.submit(TestJob::new()).unwrap();
    let key = format!("attributes.system.{}", "x".repeat(200));
    let text = m.update(id, &key, 1).unwrap_err();
    assert_eq!(text, format!("update of {key} not supported"));
}
