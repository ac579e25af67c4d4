//! The plugin in a manager: what a script does to submissions and updates of jobs.

use jobtap_builtins::{Lua, PriorityDefault, UpdateDuration};
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

use super::{MODIFY, Site};

fn builder(site: &Site, table: Value) -> TestManagerBuilder {
    let config = json!({
        "job-manager": {"plugins": [{"load": "lua"}]},
        "plugins": {"lua": table},
        "queues": {"batch": {}, "gpu": {"policy": {"limits": {"duration": "1h"}}}},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "batch"}}}},
    });
    TestManager::new()
        .plugin::<PriorityDefault>()
        .plugin::<UpdateDuration>()
        .linked::<Lua>()
        .config(config)
        .config_directory(site.directory.path())
}

fn manager(script: &str) -> (Site, TestManager) {
    let site = Site::new();
    site.write("job_submit.lua", script);
    let manager = builder(&site, json!({})).start();
    (site, manager)
}

fn logged(m: &TestManager) -> Vec<&str> {
    m.log().map(|(_, text)| text).filter(|text| text.starts_with("lua: ")).collect()
}

const ROUTING: &str = r#"
slurm.log_info("loaded")
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.name == "deny" then
    slurm.user_msg("ask the help desk")
    return slurm.ESLURM_ACCESS_DENIED
  end
  if job_desc.name == "fail" then
    error("broken")
  end
  for name, part in pairs(part_list) do
    if part.max_time == 60 and job_desc.time_limit < 60 then
      job_desc.partition = name
      slurm.log_user("goes to %s", name)
    end
  end
  local count = 0
  for id, job in pairs(slurm.jobs) do
    count = count + 1
  end
  job_desc.comment = "uid " .. submit_uid .. ", " .. count .. " jobs"
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > job_rec.time_limit then
    slurm.log_user("no longer than now")
    return slurm.ESLURM_INVALID_TIME_LIMIT
  end
  return slurm.SUCCESS
end
"#;

#[test]
fn a_script_changes_accepts_and_refuses_submissions() {
    let (_site, mut m) = manager(ROUTING);
    let id = m.submit(TestJob::new().duration(600.0)).unwrap();
    assert_eq!(m.job(id).jobspec().queue(), Some("gpu"));
    assert_eq!(m.messages(), ["goes to gpu"]);
    let owner = TestJob::OWNER.as_u32();
    let comment = |m: &TestManager, id| {
        let value = m.job(id).jobspec().value().clone();
        value["attributes"]["user"]["comment"].as_str().unwrap().to_owned()
    };
    assert_eq!(comment(&m, id), format!("uid {owner}, 0 jobs"));
    let id = m.submit(TestJob::new().duration(7200.0)).unwrap();
    assert_eq!(m.job(id).jobspec().queue(), Some("batch"));
    assert_eq!(comment(&m, id), format!("uid {owner}, 1 jobs"));

    let refused = m.submit(TestJob::new().name("deny")).unwrap_err();
    assert_eq!(refused, "Access/permission denied");
    assert_eq!(m.messages(), ["ask the help desk"]);
    assert_eq!(logged(&m), ["lua: loaded"]);
}

#[test]
fn jobs_that_have_ended_stay_in_the_list_for_some_minutes() {
    const STATES: &str = r#"
        function slurm_job_submit()
            local states = {}
            for id, job in pairs(slurm.jobs) do
                table.insert(states, job.name .. " " .. job.job_state)
            end
            table.sort(states)
            slurm.user_msg(table.concat(states, ", "))
            return 0
        end
        function slurm_job_modify() return 0 end"#;
    let site = Site::new();
    site.write("job_submit.lua", STATES);
    for (table, kept) in [(json!({}), 299.0), (json!({"min_job_age": "1h"}), 3599.0)] {
        let mut m = builder(&site, table).start();
        m.start_queue("batch").unwrap();
        let ran = m.submit(TestJob::new().name("ran").urgency(0)).unwrap();
        let failed = m.submit(TestJob::new().name("failed").run_for(1.0).wait_status(256));
        let purged = m.submit(TestJob::new().name("purged").urgency(0)).unwrap();
        m.cancel(purged).unwrap();
        m.purge(purged).unwrap();
        m.cancel(ran).unwrap();
        m.advance(1.5);
        failed.unwrap();
        m.messages();
        let listed = |m: &mut TestManager| {
            m.submit(TestJob::new().name("new").urgency(0)).unwrap();
            m.messages().join("\n")
        };
        assert_eq!(listed(&mut m), "failed 5, ran 4");
        m.crash_and_restart();
        m.advance(kept - 1.0);
        assert_eq!(listed(&mut m), "failed 5, new 0, ran 4");
        m.advance(1.0);
        assert_eq!(listed(&mut m), "failed 5, new 0, new 0");
    }
}

#[test]
fn a_script_that_fails_refuses_and_the_log_says_where() {
    let (site, mut m) = manager(ROUTING);
    let place = format!("{}:9: broken", site.path().display());
    assert!(m.submit(TestJob::new().name("fail")).is_err());
    assert_eq!(m.messages().join("\n"), place);
    assert_eq!(logged(&m)[1], format!("lua: {place}; the request is refused"));
    let mut m = builder(&site, json!({"on_error": "accept"})).start();
    m.submit(TestJob::new().name("fail")).unwrap();
}

const LOAD: &str = "[job-manager.plugins][0]: load: [plugins.lua]";

#[test]
fn a_script_that_can_not_be_loaded_is_fatal_at_the_start() {
    let site = Site::new();
    let start = |table: Value| builder(&site, table).try_start().map(|_| ()).unwrap_err();
    let path = site.path();
    assert_eq!(
        start(json!({})),
        format!("{LOAD}: {}: No such file or directory (os error 2)", path.display())
    );
    site.write("job_submit.lua", "function slurm_job_submit() return 0 end\nx = = 1");
    assert_eq!(
        start(json!({})),
        format!("{LOAD}: {}:2: unexpected symbol near '='", path.display())
    );
    site.write("other.lua", &format!("function slurm_job_submit() return 0 end\n{MODIFY}"));
    builder(&site, json!({"script": "other.lua"})).start();
    let error = start(json!({"lua": "5.2"}));
    assert_eq!(error, format!("{LOAD}: lua: unknown value \"5.2\"; did you mean \"5.1\"?"));
}

#[test]
fn a_script_sees_changes_of_jobs_with_the_job_as_it_is() {
    let (_site, mut m) = manager(ROUTING);
    let id = m.submit(TestJob::new().duration(600.0).urgency(0)).unwrap();
    assert!(m.update(id, "attributes.system.duration", 1200).is_err());
    assert_eq!(m.messages(), ["goes to gpu", "no longer than now"]);
    m.update(id, "attributes.system.duration", 300).unwrap();
}

#[test]
fn a_release_that_is_not_known_is_refused_with_those_that_are() {
    let site = Site::new();
    site.write("job_submit.lua", ROUTING);
    let builder = builder(&site, json!({"slurm-version": "21.08"}));
    let error = builder.try_start().unwrap_err().to_string();
    assert!(
        error.contains(
            "slurm-version: \"21.08\" is no known release of Slurm; known are 22.05, 23.02"
        ),
        "{error}"
    );
}

#[test]
fn limits_of_the_configuration_hold() {
    let site = Site::new();
    site.write(
        "job_submit.lua",
        &format!("function slurm_job_submit() while true do end end\n{MODIFY}"),
    );
    let mut m =
        builder(&site, json!({"instructions": 10_000, "memory": 8, "time_limit": "1m"})).start();
    m.submit(TestJob::new()).unwrap_err();
    assert_eq!(m.messages(), ["stopped after 10000 instructions"]);
    // The least memory is enough to load a script.
    builder(&site, json!({"memory": 0})).start();
}

#[test]
fn a_changed_script_is_used_at_the_next_request() {
    let returning = |code: u32| format!("function slurm_job_submit() return {code} end\n{MODIFY}");
    let (site, mut m) = manager(&returning(0));
    m.submit(TestJob::new()).unwrap();
    site.write("job_submit.lua", &returning(2002));
    super::touch(&site.path());
    m.submit(TestJob::new()).unwrap_err();
    site.write("job_submit.lua", "x = = 1");
    super::touch(&site.path());
    super::touch(&site.path());
    m.submit(TestJob::new()).unwrap_err();
    assert!(
        logged(&m).last().unwrap().contains("the previous script stays in use"),
        "{:?}",
        logged(&m)
    );
}
