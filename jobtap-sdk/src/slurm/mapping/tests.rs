//! Converts every field of the table to a jobspec and back, and tests what a change leaves alone.

use super::*;
use crate::jobspec::{Jobspec, JobspecBuilder};
use crate::slurm::{Environment, INFINITE, Kind, MEM_PER_CPU, NICE_OFFSET, NO_VAL};
use proptest::prelude::*;

fn base() -> Value {
    let spec = JobspecBuilder::new(["app", "x"]).nodes(2).ntasks(8).cores_per_task(2);
    let spec = spec.gpus_per_task(1).duration(90.0).queue("batch").name("n").cwd("/w");
    let spec = spec.environment([("B", "1"), ("A", "2")]);
    let spec = spec.attribute("user.own", json!({"x": [1]})).unwrap();
    let spec = spec.attribute("attributes.system.foo", json!("bar")).unwrap();
    spec.to_value()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Changes the description of a jobspec. Returns the new jobspec and its description.
fn change(jobspec: &Value, change: impl FnOnce(&mut JobDescriptor)) -> (Value, JobDescriptor) {
    let before = JobDescriptor::from_jobspec(jobspec);
    let mut after = before.clone();
    change(&mut after);
    let new = apply_changes(&before, &after, jobspec).unwrap();
    let read = JobDescriptor::from_jobspec(&new);
    let readable = JobDescriptor { argc: read.argc, ..after };
    assert_eq!(readable, read, "{new}");
    (new, read)
}

#[test]
fn every_stored_field_has_a_place() {
    for field in FIELDS {
        let place = Place::for_field(field.name).unwrap();
        match (place, field.view_of) {
            (Place::Jobspec(place), _) => assert!(!place.is_empty()),
            (Place::Request, []) => assert!(!field.writable.any(), "{}", field.name),
            _ => {}
        }
    }
    assert_eq!(Place::for_field("none"), None);
    for (field, _) in TEXTS.iter().chain(GROUPS.iter().flat_map(|group| group.fields)) {
        assert!(
            Field::find(FIELDS, field).is_some_and(|field| field.view_of.is_empty()),
            "{field}"
        );
    }
}

/// A value for each field that can be changed, other than what the jobspec has.
fn other_value(field: &Field<JobDescriptor>) -> Value {
    match (field.name, field.kind) {
        ("argv", _) => json!(["other", "y"]),
        ("environment", _) => json!({"C": "3"}),
        ("begin_time", _) => json!(1_800_000_000_u64),
        ("dependency", _) => json!("afterok:12"),
        ("req_nodes" | "exc_nodes", _) => json!("node[1-9]"),
        ("shared", _) => json!(0),
        ("priority", _) => json!(100_000),
        ("tres_per_job" | "tres_per_task" | "tres_per_node", _) => json!("gres:gpu:a100:2"),
        (_, Kind::Number) => json!(3),
        (_, Kind::List { .. }) => json!(["A=1"]),
        _ => json!("abc"),
    }
}

#[test]
fn each_changed_field_comes_back_and_no_other_changes() {
    for field in FIELDS.iter().filter(|field| field.view_of.is_empty()) {
        let jobspec = base();
        let (new, read) = match Place::for_field(field.name) {
            Some(Place::Request) => continue,
            _ => change(&jobspec, |desc| load(desc, field.name, &other_value(field))),
        };
        assert_eq!(stored(&read, field.name), other_value(field), "{}", field.name);
        assert_ne!(new, jobspec, "{}", field.name);
        // What no field describes is untouched, and so is the rest of the document except for the field's
        // own places.
        for place in ["attributes.user.own", "attributes.system.foo", "version"] {
            assert_eq!(path::get(&new, place), path::get(&jobspec, place), "{}", field.name);
        }
        let is_valid = Jobspec::from_value(new.clone());
        assert!(is_valid.is_ok(), "{}: {:?}", field.name, is_valid);
        // Changing it back leaves nothing of it.
        let (old, _) = change(&new, |desc| {
            let before = JobDescriptor::from_jobspec(&jobspec);
            load(desc, field.name, &stored(&before, field.name));
        });
        assert_eq!(path::get(&old, KEPT), None, "{}: {old}", field.name);
        assert_eq!(JobDescriptor::from_jobspec(&old), JobDescriptor::from_jobspec(&jobspec));
    }
}

#[test]
fn what_is_not_changed_is_not_written() {
    let desc = JobDescriptor::from_jobspec(&base());
    assert_eq!(apply_changes(&desc, &desc, &base()).unwrap(), base());
    // 90 seconds are 2 minutes in Slurm, and still 90 seconds.
    let (new, _) = change(&base(), |desc| desc.account = text("a"));
    assert_eq!(new["attributes"]["system"]["duration"], json!(90.0));
    assert_eq!(new["attributes"]["system"]["bank"], "a");
    // Fields of the request have no effect.
    let changed = JobDescriptor { user_id: 5, user_name: text("x"), ..desc.clone() };
    assert_eq!(apply_changes(&desc, &changed, &base()).unwrap(), base());
}

#[test]
fn a_jobspec_is_described_in_the_terms_of_slurm() {
    let desc = JobDescriptor::from_jobspec(&base());
    assert_eq!(desc.time_limit, Some(2));
    assert_eq!(desc.partition, text("batch"));
    assert_eq!(desc.name, text("n"));
    assert_eq!(desc.work_dir, text("/w"));
    assert_eq!((desc.min_nodes, desc.max_nodes, desc.num_tasks), (Some(2), Some(2), Some(8)));
    assert_eq!((desc.cpus_per_task, desc.min_cpus), (Some(2), Some(16)));
    assert_eq!(desc.tres_per_task, text("gres:gpu:1"));
    assert_eq!((desc.argv.join(" "), desc.argc), ("app x".to_owned(), 2));
    let variables: Vec<String> = desc.environment.lines().collect();
    assert_eq!(variables, ["B=1", "A=2"]);
    assert_eq!((desc.shared, desc.account, desc.priority), (None, None, None));
}

#[test]
fn time_limits_are_minutes_here_and_seconds_there() {
    let seconds = |minutes: Option<u32>| {
        let (new, _) = change(&base(), |desc| desc.time_limit = minutes);
        new["attributes"]["system"]["duration"].as_f64().unwrap()
    };
    assert_eq!(seconds(Some(90)), 5400.0);
    assert_eq!((seconds(None), seconds(Some(INFINITE)), seconds(Some(0))), (0.0, 0.0, 0.0));
    // A kept value of an old limit does not hide the new one.
    let (mut new, read) = change(&base(), |desc| desc.time_limit = Some(INFINITE));
    assert_eq!(read.time_limit, Some(INFINITE));
    path::set(&mut new, "attributes.system.duration", json!(600)).unwrap();
    assert_eq!(JobDescriptor::from_jobspec(&new).time_limit, Some(10));
}

#[test]
fn the_first_of_several_partitions_is_the_queue() {
    let (mut new, read) = change(&base(), |desc| desc.partition = text("long,short"));
    assert_eq!(new["attributes"]["system"]["queue"], "long");
    assert_eq!(read.partition, text("long,short"));
    path::set(&mut new, "attributes.system.queue", json!("short")).unwrap();
    assert_eq!(JobDescriptor::from_jobspec(&new).partition, text("short"));
    let (new, _) = change(&base(), |desc| desc.partition = None);
    assert_eq!(path::get(&new, "attributes.system.queue"), None);
}

#[test]
fn priorities_are_urgencies_or_are_kept() {
    let urgency = |priority| JobDescriptor { priority, ..JobDescriptor::default() }.urgency();
    assert_eq!(urgency(Some(0)), Some(Urgency::HOLD));
    assert_eq!(urgency(Some(20)).map(Urgency::value), Some(20));
    assert_eq!(urgency(Some(INFINITE)), Some(Urgency::DEFAULT));
    assert_eq!(urgency(Some(crate::slurm::TOP_PRIORITY)), Some(Urgency::EXPEDITE));
    assert_eq!((urgency(Some(32)), urgency(None)), (None, None));
    let (new, mut read) = change(&base(), |desc| desc.priority = Some(5000));
    assert_eq!(new["attributes"]["system"]["slurm"], json!({"priority": 5000}));
    read.set_urgency(Urgency::DEFAULT);
    assert_eq!(read.priority, Some(5000));
    read.set_urgency(Urgency::HOLD);
    assert_eq!(read.priority, Some(0));
    let before = JobDescriptor::from_jobspec(&base());
    let after = JobDescriptor { priority: Some(20), ..before.clone() };
    assert_eq!(apply_changes(&before, &after, &base()).unwrap(), base());
}

#[test]
fn kept_values_read_as_people_write_them() {
    let (new, _) = change(&base(), |desc| {
        desc.set_nice_value(Some(-5));
        desc.pn_min_memory = Some(2048 | MEM_PER_CPU);
        desc.mail_user = text("a@b");
        desc.max_nodes = Some(4);
        desc.site_factor = Some(NICE_OFFSET + 7);
    });
    let kept = json!({"max_nodes": 4, "mail_user": "a@b", "nice": -5, "min_mem_per_cpu": 2048, "site_factor": 7});
    assert_eq!(new["attributes"]["system"]["slurm"], kept);
    let (new, _) = change(&new, |desc| desc.set_mem_per_node(Some(0)));
    assert_eq!(new["attributes"]["system"]["slurm"]["min_mem_per_node"], 0);
    assert_eq!(new["attributes"]["system"]["slurm"].get("min_mem_per_cpu"), None);
}

#[test]
fn kept_values_of_a_wrong_type_are_left_out() {
    let mut jobspec = base();
    let kept = json!({"nice": "x", "min_mem_per_cpu": -1, "mail_user": 5, "max_nodes": [], "none": 1,
        "partition": {}, "time_limit": "1", "comment": "", "user_id": 0, "mail_type": 70_000});
    path::set(&mut jobspec, KEPT, kept).unwrap();
    assert_eq!(JobDescriptor::from_jobspec(&jobspec), JobDescriptor::from_jobspec(&base()));
}

/// The resources that a description asks for: nodes, slots, cores and GPUs of a slot, tasks, whole nodes.
fn resources(change_to: impl FnOnce(&mut JobDescriptor)) -> (u64, u64, u64, u64, u64, bool) {
    let empty = JobspecBuilder::new(["app"]).to_value();
    let (new, _) = change(&empty, |desc| {
        desc.min_cpus = None;
        desc.num_tasks = None;
        change_to(desc);
    });
    let counts = Jobspec::from_value(new).unwrap().counts();
    (
        counts.nnodes,
        counts.nslots,
        counts.slot_size,
        counts.slot_gpus,
        counts.ntasks,
        counts.exclusive,
    )
}

#[test]
fn sizes_are_laid_out_as_slots() {
    assert_eq!(resources(|_| {}), (0, 1, 1, 0, 1, false));
    assert_eq!(resources(|d| d.num_tasks = Some(4)), (0, 4, 1, 0, 4, false));
    assert_eq!(resources(|d| d.cpus_per_task = Some(4)), (0, 1, 4, 0, 1, false));
    assert_eq!(resources(|d| d.min_nodes = Some(3)), (3, 3, 1, 0, 3, false));
    let tasks = |nodes, tasks, each| {
        resources(|d| {
            d.min_nodes = nodes;
            d.num_tasks = tasks;
            d.ntasks_per_node = each;
        })
    };
    assert_eq!(tasks(Some(2), Some(8), None), (2, 8, 1, 0, 8, false));
    assert_eq!(tasks(Some(2), Some(5), None), (2, 6, 1, 0, 5, false));
    assert_eq!(tasks(Some(2), None, Some(4)), (2, 8, 1, 0, 8, false));
    assert_eq!(tasks(None, Some(8), Some(4)), (2, 8, 1, 0, 8, false));
    // There are at least as many tasks as nodes.
    assert_eq!(tasks(Some(4), Some(1), None), (4, 4, 1, 0, 4, false));
    // CPUs beyond what the tasks need go to the tasks.
    let least = resources(|d| {
        d.num_tasks = Some(2);
        d.min_cpus = Some(8);
    });
    assert_eq!(least, (0, 2, 4, 0, 2, false));
}

#[test]
fn whole_nodes_are_exclusive_where_their_number_is_known() {
    let alone = |nodes, tasks| {
        resources(|d| {
            d.shared = Some(0);
            d.min_nodes = nodes;
            d.num_tasks = tasks;
        })
    };
    assert_eq!(alone(None, None), (1, 1, 1, 0, 1, true));
    assert_eq!(alone(Some(2), Some(4)), (2, 4, 1, 0, 4, true));
    assert_eq!(alone(None, Some(4)), (0, 4, 1, 0, 4, false));
}

#[test]
fn gpus_are_counted_for_tasks_nodes_or_the_job() {
    let gpus = |task: &str, node: &str, job: &str, nodes, tasks| {
        let list = |list: &str| Some(list.to_owned()).filter(|list| !list.is_empty());
        resources(|d| {
            d.tres_per_task = list(task);
            d.tres_per_node = list(node);
            d.tres_per_job = list(job);
            d.min_nodes = nodes;
            d.num_tasks = tasks;
        })
    };
    assert_eq!(gpus("gres:gpu:2", "", "", None, Some(4)), (0, 4, 1, 2, 4, false));
    assert_eq!(gpus("", "gres:gpu:2", "", None, None), (1, 1, 1, 2, 1, false));
    // The tasks of a node share one slot with its GPUs.
    assert_eq!(gpus("", "gres/gpu:a100:1", "", Some(2), Some(8)), (2, 2, 4, 1, 8, false));
    assert_eq!(gpus("", "", "gres:gpu:8", None, Some(4)), (0, 4, 1, 2, 4, false));
    assert_eq!(gpus("", "", "gres:gpu:4", Some(2), Some(8)), (2, 2, 4, 2, 8, false));
    assert_eq!(gpus("", "gres:nic:1", "", None, Some(2)), (0, 2, 1, 0, 2, false));
}

#[test]
fn dependencies_of_every_type_have_a_scheme() {
    let of = |dependency: &str| {
        let (new, _) = change(&base(), |desc| desc.dependency = text(dependency));
        let list =
            path::get(&new, "attributes.system.dependencies").and_then(Value::as_array).cloned();
        let one = |value: &Value| {
            format!("{}:{}", value["scheme"].as_str().unwrap(), value["value"].as_str().unwrap())
        };
        list.unwrap_or_default().iter().map(one).collect::<Vec<_>>().join(" ")
    };
    for (slurm, ours) in [
        ("after:5", "afterstart:5"),
        ("after:5+10", "afterstart:5+10m"),
        ("after:5+10:6", "afterstart:5+10m afterstart:6"),
        ("afterany:5", "afterany:5"),
        ("afterok:5:6", "afterok:5 afterok:6"),
        ("afternotok:5,afterok:6", "afternotok:5 afterok:6"),
        ("aftercorr:5", "afterok:5"),
        ("afterburstbuffer:5", "afterany:5"),
        ("expand:5", "afterstart:5"),
        ("singleton", "singleton:"),
        ("afterok:5,singleton", "afterok:5 singleton:"),
        ("afterok:5?afterany:6:7_*", "any-of:afterok:5|afterany:6|afterany:7"),
        ("after:5+10?singleton", "any-of:afterstart:5+10m|singleton"),
        ("afterok:5?afterany:6,afterok:7", "any-of:afterok:5?afterany:6,afterok:7"),
        ("AFTEROK:5_*", "afterok:5"),
        ("afterok:5_3", "afterok:5_3"),
        ("nonsense", "nonsense:"),
        (",", ""),
    ] {
        assert_eq!(of(slurm), ours, "{slurm}");
    }
}

#[test]
fn dependencies_that_slurm_lacks_stay() {
    let mut jobspec = base();
    let foreign = json!({"scheme": "string", "value": "foo", "type": "out"});
    let list = json!([{"scheme": "afterstart", "value": "ƒ1"}, foreign, {"scheme": "afterstart", "value": "2"},
        {"scheme": "begin-time", "value": "1234.5"}, {"scheme": "license", "value": "m", "count": 2}]);
    path::set(&mut jobspec, "attributes.system.dependencies", list).unwrap();
    let desc = JobDescriptor::from_jobspec(&jobspec);
    assert_eq!(desc.dependency, text("after:ƒ1:2"));
    assert_eq!((desc.begin_time, desc.licenses), (Some(1235), text("m:2")));
    let (new, _) = change(&jobspec, |desc| {
        desc.dependency = None;
        desc.begin_time = None;
        desc.licenses = text("a:3,b");
    });
    let list = &new["attributes"]["system"]["dependencies"];
    assert_eq!(
        *list,
        json!([foreign, {"scheme": "license", "value": "a", "count": 3}, {"scheme": "license", "value": "b"}])
    );
    let (new, _) = change(&new, |desc| desc.licenses = text("a=x|b:c"));
    let (new, _) = change(&new, |desc| desc.licenses = None);
    assert_eq!(new["attributes"]["system"]["dependencies"], json!([foreign]));
}

#[test]
fn an_urgency_replaces_a_priority_that_is_one() {
    let priority = |priority, urgency| {
        let mut desc = JobDescriptor { priority, ..JobDescriptor::default() };
        desc.set_urgency(urgency);
        desc.priority
    };
    // 31 is the highest urgency; a higher number is a Slurm priority, which only another urgency
    // replaces.
    assert_eq!(priority(Some(31), Urgency::DEFAULT), None);
    assert_eq!(priority(Some(32), Urgency::DEFAULT), Some(32));
    assert_eq!(priority(Some(32), Urgency::EXPEDITE), Some(31));
    assert_eq!(priority(None, Urgency::DEFAULT), None);
}

#[test]
fn dependencies_read_as_they_were_written() {
    for dependency in
        ["after:5+10", "after:5+10:6", "afterok:5?afterany:6?after:7+1", "after:5?after:6"]
    {
        let (new, _) = change(&base(), |desc| desc.dependency = text(dependency));
        assert_eq!(new["attributes"]["system"].get("slurm"), None, "{dependency}");
        assert_eq!(JobDescriptor::from_jobspec(&new).dependency, text(dependency));
    }
    // Slurm can't express half a minute, nor alternatives in addition to another dependency.
    let mut jobspec = base();
    let delay = json!({"scheme": "afterstart", "value": "5+30s"});
    let either = json!({"scheme": "any-of", "value": "afterok:5|afterok:6"});
    let other = json!({"scheme": "afterok", "value": "7"});
    let list = json!([either, delay, other]);
    path::set(&mut jobspec, "attributes.system.dependencies", list).unwrap();
    assert_eq!(JobDescriptor::from_jobspec(&jobspec).dependency, text("afterok:7"));
    let (new, _) = change(&jobspec, |desc| desc.dependency = text("afterany:8"));
    let list = new["attributes"]["system"]["dependencies"].as_array().unwrap();
    assert_eq!(*list, [delay, either, json!({"scheme": "afterany", "value": "8"})]);
}

#[test]
fn features_and_hosts_become_a_constraint() {
    let of = |features: &str| {
        let (new, _) = change(&base(), |desc| desc.features = text(features));
        assert!(Jobspec::from_value(new.clone()).is_ok(), "{new}");
        path::get(&new, "attributes.system.constraints").cloned().unwrap()
    };
    let properties = |all: &[&str]| json!({ "properties": all });
    assert_eq!(of("a"), properties(&["a"]));
    assert_eq!(of("a&!b,c"), properties(&["a", "^b", "c"]));
    assert_eq!(of("a|b"), json!({"or": [properties(&["a"]), properties(&["b"])]}));
    let either = json!({"or": [properties(&["a"]), properties(&["b"])]});
    assert_eq!(of("a|b&c"), json!({"and": [either, properties(&["c"])]}));
    assert_eq!(of("c & (a|b)"), json!({"and": [properties(&["c"]), either]}));
    for counted in ["[a|b]", "[a*2&b*4]", "a*2&b*4"] {
        assert_eq!(of(counted), either, "{counted}");
    }
    assert_eq!(of("!(a|b)"), json!({"not": [either]}));
    let (new, _) = change(&base(), |desc| {
        desc.features = text("a");
        desc.req_nodes = text("n[1-2]");
        desc.exc_nodes = text("n5");
    });
    let hosts = json!({"hostlist": ["n[1-2]"]});
    let constraint = json!({"and": [properties(&["a"]), hosts, {"not": [{"hostlist": ["n5"]}]}]});
    assert_eq!(new["attributes"]["system"]["constraints"], constraint);
    // One host is too few, so Slurm would add others.
    let (new, _) = change(&base(), |desc| desc.req_nodes = text("n1"));
    assert_eq!(path::get(&new, "attributes.system.constraints"), None);
}

#[test]
fn no_node_matches_a_malformed_list_of_features() {
    for features in ["a&", "(a", "a)", "[a", "a b", "&", "a*x", "!"] {
        let (new, _) = change(&base(), |desc| desc.features = text(features));
        let constraint = json!({"properties": [features]});
        assert_eq!(new["attributes"]["system"]["constraints"], constraint);
        let refused = Jobspec::from_value(new).map_err(|error| error.to_string());
        assert_eq!(refused.is_err(), features.contains(['&', '(', ')', '!']), "{refused:?}");
    }
    let nested = "(".repeat(5000) + "a" + &")".repeat(5000);
    let (new, _) = change(&base(), |desc| desc.features = Some(nested));
    assert!(Jobspec::from_value(new).is_err());
}

#[test]
fn a_constraint_that_slurm_cannot_say_stays() {
    let mut jobspec = base();
    let ranks = json!({"ranks": ["0-3"]});
    let all = json!({"and": [ranks, {"properties": ["a"]}, {"hostlist": ["n1", "n2"]}]});
    path::set(&mut jobspec, "attributes.system.constraints", all).unwrap();
    let desc = JobDescriptor::from_jobspec(&jobspec);
    assert_eq!((desc.features, desc.req_nodes), (text("a"), text("n1,n2")));
    let (new, _) = change(&jobspec, |desc| {
        desc.features = text("b");
        desc.req_nodes = None;
    });
    assert_eq!(
        new["attributes"]["system"]["constraints"],
        json!({"and": [ranks, {"properties": ["b"]}]})
    );
    let (new, _) = change(&new, |desc| desc.features = None);
    assert_eq!(new["attributes"]["system"]["constraints"], ranks);
}

#[test]
fn a_batch_script_runs_in_the_first_task() {
    let desc = JobDescriptor {
        script: text("#!/bin/sh\necho hi\n"),
        argv: vec!["job.sh".to_owned(), "arg".to_owned()],
        name: text("job.sh"),
        num_tasks: Some(4),
        work_dir: text("/tmp"),
        environment: [("PATH", "/bin")].into_iter().collect(),
        std_out: text("slurm-%j.out"),
        ..JobDescriptor::default()
    };
    let jobspec = desc.to_jobspec().unwrap();
    Jobspec::from_value(jobspec.clone()).unwrap();
    let command = jobspec["tasks"][0]["command"].as_array().unwrap();
    assert_eq!(command[3..], [json!("{{tmpdir}}/script"), json!("arg")]);
    assert_eq!(jobspec["attributes"]["system"]["files"]["script"]["data"], "#!/bin/sh\necho hi\n");
    let stdout = &jobspec["attributes"]["system"]["shell"]["options"]["output"]["stdout"];
    assert_eq!(*stdout, json!({"type": "file", "path": "slurm-{{id.dec}}.out"}));
    let read = JobDescriptor::from_jobspec(&jobspec);
    assert_eq!(JobDescriptor { argc: 0, ..read }, desc);
    let (new, _) = change(&jobspec, |desc| desc.script = text("#!/bin/sh\nexit 1\n"));
    assert_eq!(new["attributes"]["system"]["files"]["script"]["data"], "#!/bin/sh\nexit 1\n");
    assert_eq!(new["tasks"], jobspec["tasks"]);
}

#[test]
fn variables_that_a_jobspec_removes_stay_removed() {
    let mut jobspec = base();
    path::set(&mut jobspec, "attributes.system.environment", json!({"GONE": null, "A": "1"}))
        .unwrap();
    let (new, _) = change(&jobspec, |desc| desc.environment.set("B", "2"));
    assert_eq!(
        new["attributes"]["system"]["environment"],
        json!({"GONE": null, "B": "2", "A": "1"})
    );
}

#[test]
fn updates_lead_from_one_jobspec_to_the_other() {
    let apply = |new: &Value| {
        let mut jobspec = Jobspec::unvalidated(base());
        let updates = updates_between(&base(), new);
        jobspec.update_all(&updates).unwrap();
        assert_eq!(jobspec.value(), new);
        updates
    };
    let (new, _) = change(&base(), |desc| desc.time_limit = Some(5));
    let updates = apply(&new);
    assert_eq!(Value::Object(updates), json!({"attributes.system.duration": 300}));
    let (new, _) = change(&base(), |desc| {
        desc.num_tasks = Some(3);
        desc.partition = None;
        desc.comment = text("c");
    });
    apply(&new);
    assert!(updates_between(&base(), &base()).is_empty());
}

#[test]
fn any_json_is_described_without_a_panic() {
    for odd in [
        json!(null),
        json!([]),
        json!({"attributes": 5, "tasks": {}, "resources": "x"}),
        json!({"attributes": {"system": {"slurm": 5, "environment": [], "dependencies": {},
            "constraints": [1], "shell": 3, "files": {"script": 1}, "duration": "x", "queue": 1}}}),
        json!({"attributes": {"system": {"constraints": {"and": [{"or": [5]}, {}, {"not": []}]},
            "dependencies": [1, {"scheme": 1}, {"scheme": "after"}]}}}),
    ] {
        let desc = JobDescriptor::from_jobspec(&odd);
        assert_eq!(desc, JobDescriptor::default(), "{odd}");
        let after = JobDescriptor { account: text("a"), num_tasks: Some(3), ..desc.clone() };
        if let Ok(new) = apply_changes(&desc, &after, &odd) {
            assert_eq!(JobDescriptor::from_jobspec(&new).account, text("a"), "{new}");
        }
    }
}

fn arbitrary_text() -> impl Strategy<Value = Option<String>> {
    let word = prop_oneof![
        "[a-z]{1,4}",
        "[a-c&|,()\\[\\]*!0-9:?+_%={}^. -]{1,10}",
        "(after|afterok|singleton|begin-time|license)(:[0-9]{1,2}){0,2}([,?](afterany|expand):[0-9])?",
        "gres[:/]gpu(:[a-c0-9]{1,2}){0,2}",
        "n\\[[0-9]-[0-9]\\]",
        "\\PC{1,6}",
    ];
    prop::option::of(word)
}

fn arbitrary_value(field: &'static Field<JobDescriptor>) -> BoxedStrategy<Value> {
    let number = prop_oneof![
        4 => 0_u64..70,
        1 => Just(u64::from(NO_VAL)),
        1 => Just(u64::from(INFINITE)),
        1 => any::<u16>().prop_map(u64::from),
        1 => any::<u64>(),
    ];
    match field.kind {
        Kind::Text if TRES.contains(&field.name) => {
            let list = "(gres[:/])?(gpu|nic)(:[a-c])?(:[0-9]{1,2})?(,gpu:[0-9])?";
            prop::option::of(list).prop_map(|list| json!(list)).boxed()
        }
        Kind::Text => arbitrary_text().prop_map(|text| json!(text)).boxed(),
        Kind::List { .. } => {
            prop::collection::vec("[a-z%{}]{0,5}", 0..3).prop_map(|all| json!(all)).boxed()
        }
        Kind::Environment => {
            let variables = prop::collection::vec(("[A-C]{1,2}", "\\PC{0,3}"), 0..4);
            variables.prop_map(|all| json!(all.into_iter().collect::<Environment>())).boxed()
        }
        _ => prop::option::of(number).prop_map(|number| json!(number)).boxed(),
    }
}

fn changes() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let fields = FIELDS.iter().filter(|field| field.view_of.is_empty());
    let fields: Vec<&'static Field<JobDescriptor>> =
        fields.filter(|field| Place::for_field(field.name) != Some(Place::Request)).collect();
    let one = prop::sample::select(fields)
        .prop_flat_map(|field| arbitrary_value(field).prop_map(move |value| (field.name, value)));
    prop::collection::vec(one, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_changed_description_reads_as_it_was_written(first in changes(), second in changes()) {
        let mut jobspec = base();
        for changes in [first, second] {
            let before = JobDescriptor::from_jobspec(&jobspec);
            let mut after = before.clone();
            for (field, value) in &changes {
                load(&mut after, field, value);
            }
            let new = apply_changes(&before, &after, &jobspec).unwrap();
            let read = JobDescriptor::from_jobspec(&new);
            let after = JobDescriptor { argc: read.argc, priority: read.priority, ..after };
            prop_assert_eq!(&after, &read, "{:?} {}", changes, new);
            for place in ["attributes.user.own", "attributes.system.foo", "version"] {
                prop_assert_eq!(path::get(&new, place), path::get(&jobspec, place));
            }
            jobspec = new;
        }
    }

    #[test]
    fn a_description_from_nothing_reads_as_it_was_written(changes in changes()) {
        let mut desc = JobDescriptor::default();
        for (field, value) in &changes {
            load(&mut desc, field, value);
        }
        let jobspec = desc.to_jobspec().unwrap();
        let read = JobDescriptor::from_jobspec(&jobspec);
        let desc = JobDescriptor { argc: read.argc, priority: read.priority, ..desc };
        prop_assert_eq!(desc, read, "{}", jobspec);
    }
}

/// What policies write into a request is checked like a submission.
#[test]
fn changes_that_no_job_can_have_are_refused() {
    let jobspec = JobspecBuilder::new(["app"]).to_value();
    let before = JobDescriptor::from_jobspec(&jobspec);
    let refused = |change: &dyn Fn(&mut JobDescriptor)| {
        let mut after = before.clone();
        change(&mut after);
        apply_changes(&before, &after, &jobspec).unwrap_err().to_string()
    };
    let error = refused(&|desc| desc.name = Some("a\0b".to_owned()));
    assert_eq!(error, "name: it has a zero byte");
    let error = refused(&|desc| desc.argv = vec!["app".to_owned(), "\0".to_owned()]);
    assert_eq!(error, "argv: it has a zero byte");
    let error = refused(&|desc| desc.environment.set("A=B", "c"));
    assert_eq!(error, "environment: variable A=B: its name has a =");
    let error = refused(&|desc| desc.environment.set("", "c"));
    assert_eq!(error, "environment: a variable has no name");
    let error = refused(&|desc| desc.tres_per_node = Some("gres:gpu:-1".to_owned()));
    assert!(error.starts_with("tres_per_node: invalid resource 'gres:gpu:-1'"), "{error}");
}

#[test]
fn a_signal_before_the_end_is_for_the_shell_of_a_script_or_for_its_steps() {
    let signal = |script: Option<&str>, flags| {
        let desc = JobDescriptor {
            script: script.map(str::to_owned),
            argv: vec!["a".to_owned()],
            warn_signal: Some(10),
            warn_time: Some(60),
            warn_flags: flags,
            ..JobDescriptor::default()
        };
        let jobspec = desc.to_jobspec().unwrap();
        let read = JobDescriptor::from_jobspec(&jobspec);
        let back = (read.warn_signal, read.warn_time, read.warn_flags);
        assert_eq!(back, (Some(10), Some(60), flags), "{jobspec}");
        path::get(&jobspec, "attributes.system.shell.options.signal").cloned()
    };
    let of_all = json!({"signum": 10, "timeleft": 60});
    assert_eq!(signal(None, 0), Some(of_all));
    assert_eq!(signal(Some("#!/bin/sh\n"), 0), None);
    let of_shell = json!({"signum": 10, "timeleft": 60, "reach": "task"});
    assert_eq!(signal(Some("#!/bin/sh\n"), 1), Some(of_shell.clone()));
    assert_eq!(signal(Some("#!/bin/sh\n"), 3), Some(of_shell));
}
