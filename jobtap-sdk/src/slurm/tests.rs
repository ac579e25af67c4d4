//! Compares the tables of fields with what was read from and written to Slurm 22.05, field by field.

use super::*;

fn count<T>(fields: &[Field<T>], of: impl Fn(&Field<T>) -> bool) -> usize {
    fields.iter().filter(|field| of(field)).count()
}

/// The numbers of fields that scripts of each release can read and write.
fn access<T>(fields: &[Field<T>]) -> Vec<(usize, usize)> {
    let of_release = |release: &Release| {
        let readable = count(fields, |field| field.readable.has(*release));
        (readable, count(fields, |field| field.writable.has(*release)))
    };
    Release::ALL.iter().map(of_release).collect()
}

#[test]
fn each_release_has_as_many_fields_as_slurm() {
    // `environment` can be read, and is written variable by variable.
    let of_requests =
        [(96, 77), (98, 77), (99, 78), (98, 77), (99, 77), (99, 77), (100, 78), (102, 80)];
    assert_eq!(access(FIELDS), of_requests);
    let readable = |counts: [usize; 8]| counts.map(|count| (count, 0));
    assert_eq!(access(JobRecord::FIELDS), readable([84, 85, 86, 88, 88, 88, 89, 93]));
    assert_eq!(access(Partition::FIELDS), readable([31, 32, 32, 32, 32, 32, 32, 32]));
    assert_eq!(access(Reservation::FIELDS), readable([14; 8]));
}

#[test]
fn every_name_stands_once_and_views_name_fields() {
    fn check<T>(fields: &'static [Field<T>]) {
        for field in fields {
            assert_eq!(count(fields, |other| other.name == field.name), 1, "{}", field.name);
            assert!(!field.doc.is_empty());
            for source in field.view_of {
                assert!(Field::find(fields, source).is_some(), "{source}");
            }
            assert_eq!(field.set.is_some(), field.writable.any(), "{}", field.name);
        }
    }
    check(FIELDS);
    check(JobRecord::FIELDS);
    check(Partition::FIELDS);
    check(Reservation::FIELDS);
}

/// What a script in 22.05 printed for a job that sets none of the fields.
#[test]
fn an_empty_description_reads_as_in_slurm() {
    let desc = JobDescriptor::default();
    let no_val = f64::from(NO_VAL);
    let no_val16 = f64::from(NO_VAL16);
    for field in FIELDS.iter().filter(|field| field.readable.any()) {
        let expected = match field.name {
            "cron_job" => Value::Boolean(false),
            "environment" => Value::List(Vec::new()),
            "core_spec" | "thread_spec" | "min_mem_per_cpu" | "min_mem_per_node" => Value::Nil,
            "pn_min_memory" => Value::Number(18_446_744_073_709_551_616.0),
            "argc" | "begin_time" | "bitflags" | "boards_per_node" | "contiguous" | "end_time"
            | "group_id" | "immediate" | "mail_type" | "ntasks_per_board" | "power_flags"
            | "segment_size" | "sockets_per_board" | "spank_job_env_size" | "user_id" => {
                Value::Number(0.0)
            }
            "cores_per_socket" | "cpus_per_task" | "ntasks_per_core" | "ntasks_per_gpu"
            | "ntasks_per_node" | "ntasks_per_socket" | "ntasks_per_tres" | "oversubscribe"
            | "pn_min_cpus" | "reboot" | "requeue" | "shared" | "sockets_per_node"
            | "threads_per_core" => Value::Number(no_val16),
            _ if field.kind == Kind::Number => Value::Number(no_val),
            _ => Value::Nil,
        };
        assert_eq!((field.get)(&desc), expected, "{}", field.name);
    }
}

#[test]
fn records_that_set_nothing_read_as_in_slurm() {
    let job = JobRecord::default();
    let partition = Partition::default();
    let number = |number: u32| Some(Value::from(number));
    for (name, value) in [
        ("array_task_cnt", Some(Value::Nil)),
        ("array_task_id", number(NO_VAL)),
        ("best_switch", number(1)),
        ("max_cpus", number(NO_VAL)),
        ("min_mem_per_cpu", Some(Value::Nil)),
        ("min_mem_per_node", number(0)),
        ("nice", number(NICE_OFFSET)),
        ("site_factor", number(0)),
        ("time_limit", number(NO_VAL)),
        ("time_min", number(0)),
        ("account", Some(Value::Nil)),
        ("none", None),
    ] {
        assert_eq!(job.get(name), value, "{name}");
    }
    for (name, value) in [
        ("default_time", number(NO_VAL)),
        ("max_time", number(INFINITE)),
        ("max_nodes", number(INFINITE)),
        ("max_nodes_orig", number(INFINITE)),
        ("max_cpus_per_node", number(INFINITE)),
        ("def_mem_per_cpu", Some(Value::Nil)),
        ("def_mem_per_node", number(0)),
        ("flag_default", number(0)),
        ("max_share", number(1)),
        ("priority_tier", number(1)),
        ("state_up", number(3)),
    ] {
        assert_eq!(partition.get(name), value, "{name}");
    }
}

/// An ordinary value of the field's type: neither unset nor infinite.
fn sample(field: &Field<JobDescriptor>) -> Value {
    match field.kind {
        Kind::Number => Value::Number(3.0),
        _ => Value::from("gres:abc"),
    }
}

#[test]
fn each_writable_field_reads_as_it_was_written() {
    for field in FIELDS.iter().filter(|field| field.writable.any()) {
        let mut desc = JobDescriptor::default();
        let before = desc.clone();
        desc.set(field.name, sample(field)).unwrap();
        assert_eq!((field.get)(&desc), sample(field), "{}", field.name);
        // Only the field itself, and other views of what it stores, have changed.
        let stored =
            |field: &Field<JobDescriptor>| field.view_of.first().copied().unwrap_or(field.name);
        for other in FIELDS.iter().filter(|other| stored(other) != stored(field)) {
            assert_eq!((other.get)(&desc), (other.get)(&before), "{} {}", field.name, other.name);
        }
    }
}

#[test]
fn the_unset_value_and_an_empty_text_clear_a_field() {
    for field in FIELDS.iter().filter(|field| field.writable.any() && field.readable.any()) {
        let empty = JobDescriptor::default();
        let unset = match field.kind {
            Kind::Text => Value::from(""),
            _ => (field.get)(&empty),
        };
        // These have no number that clears them: they read as nil, or as 2^64, which can't be written.
        let without =
            ["core_spec", "thread_spec", "min_mem_per_cpu", "min_mem_per_node", "pn_min_memory"];
        if without.contains(&field.name) {
            continue;
        }
        let mut desc = empty.clone();
        desc.set(field.name, sample(field)).unwrap();
        assert_ne!(desc, empty, "{}", field.name);
        desc.set(field.name, unset).unwrap();
        assert_eq!(desc, empty, "{}", field.name);
    }
}

#[test]
fn nil_and_other_types_are_refused_and_change_nothing() {
    for field in FIELDS.iter().filter(|field| field.writable.any()) {
        let mut desc = JobDescriptor::default();
        for value in [Value::Nil, Value::Boolean(true), Value::List(Vec::new())] {
            let got = value.type_name();
            let expected = field.kind.lua_type();
            let refused = desc.set(field.name, value).unwrap_err();
            assert_eq!(refused, SetError::Type { expected, got }, "{}", field.name);
        }
        if field.kind == Kind::Number {
            assert!(desc.set(field.name, Value::from("abc")).is_err(), "{}", field.name);
        }
        assert_eq!(desc, JobDescriptor::default(), "{}", field.name);
    }
}

#[test]
fn fields_that_scripts_cannot_write_are_refused() {
    let mut desc = JobDescriptor::default();
    let refused =
        |desc: &mut JobDescriptor, name: &str| desc.set(name, Value::from("1")).unwrap_err();
    assert_eq!(refused(&mut desc, "argc"), SetError::ReadOnly("argc".to_owned()));
    assert_eq!(refused(&mut desc, "x").to_string(), "unrecognized field: x");
    // In the structure, but not in Lua.
    assert_eq!(refused(&mut desc, "deadline"), SetError::Unknown("deadline".to_owned()));
}

#[test]
fn views_show_the_same_value_in_another_form() {
    let mut desc = JobDescriptor::default();
    desc.set("gres", Value::from("gpu:1,gres:nic:2,gres/x")).unwrap();
    assert_eq!(desc.tres_per_node.as_deref(), Some("gres:gpu:1,gres:nic:2,gres/x"));
    desc.set("min_mem_per_cpu", Value::from(2048.0)).unwrap();
    assert_eq!(desc.pn_min_memory, Some(2048 | MEM_PER_CPU));
    assert_eq!(desc.get("min_mem_per_node"), Some(Value::Nil));
    desc.set("min_mem_per_node", Value::from(0.0)).unwrap();
    assert_eq!((desc.mem_per_node(), desc.mem_per_cpu()), (Some(0), None));
    desc.set("oversubscribe", Value::from(0.0)).unwrap();
    assert_eq!(desc.get("shared"), Some(Value::from(0.0)));
    desc.set("thread_spec", Value::from(2.0)).unwrap();
    assert_eq!(desc.get("core_spec"), Some(Value::Nil));
    desc.set("site_factor", Value::from(-10.0)).unwrap();
    assert_eq!(desc.site_factor, Some(NICE_OFFSET - 10));
    desc.set("site_factor", Value::from(NO_VAL)).unwrap();
    assert_eq!(desc.site_factor, None);
    desc.set("begin_time", Value::from(-5.0)).unwrap();
    assert_eq!(desc.begin_time, None);
    desc.set_nice_value(Some(-5));
    assert_eq!(desc.get("nice"), Some(Value::from(NICE_OFFSET - 5)));
    assert_eq!(desc.nice_value(), Some(-5));
    desc.bitflags = CRON_JOB;
    assert_eq!(desc.get("cron_job"), Some(Value::Boolean(true)));
}

#[test]
fn a_description_survives_json() {
    let mut desc = JobDescriptor { account: Some("a".to_owned()), ..JobDescriptor::default() };
    desc.environment.set("B", "1");
    desc.environment.set("A", "2");
    desc.pn_min_memory = Some(7 | MEM_PER_CPU);
    let text = serde_json::to_string(&desc).unwrap();
    assert_eq!(serde_json::from_str::<JobDescriptor>(&text).unwrap(), desc);
    assert_eq!(serde_json::from_str::<JobDescriptor>("{}").unwrap(), JobDescriptor::default());
}
