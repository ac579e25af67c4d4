//! Holds the chapter for C authors to its promise: every function, topic and key has its row.

const FUNCTIONS: &[&str] = &[
    "flux_plugin_init",
    "flux_plugin_register",
    "flux_plugin_add_handler",
    "flux_plugin_set_name",
    "flux_plugin_aux_set",
    "flux_plugin_aux_get",
    "flux_plugin_get_conf",
    "flux_plugin_set_conf",
    "flux_plugin_conf_unpack",
    "flux_plugin_arg_create",
    "flux_plugin_arg_get",
    "flux_plugin_arg_set",
    "flux_plugin_arg_pack",
    "flux_plugin_arg_unpack",
    "flux_plugin_arg_strerror",
    "flux_jobtap_get_flux",
    "flux_jobtap_set_load_sort_order",
    "flux_jobtap_service_register",
    "flux_jobtap_service_register_ex",
    "flux_jobtap_reprioritize_all",
    "flux_jobtap_reprioritize_job",
    "flux_jobtap_priority_unavail",
    "flux_jobtap_reject_job",
    "flux_jobtap_error",
    "flux_jobtap_dependency_add",
    "flux_jobtap_dependency_remove",
    "flux_jobtap_prolog_start",
    "flux_jobtap_prolog_finish",
    "flux_jobtap_epilog_start",
    "flux_jobtap_epilog_finish",
    "flux_jobtap_job_subscribe",
    "flux_jobtap_job_unsubscribe",
    "flux_jobtap_jobspec_update_pack",
    "flux_jobtap_jobspec_update_id_pack",
    "flux_jobtap_raise_exception",
    "flux_jobtap_job_set_flag",
    "flux_jobtap_event_post_pack",
    "flux_jobtap_job_event_posted",
    "flux_jobtap_job_lookup",
    "flux_jobtap_get_job_result",
    "flux_jobtap_job_aux_set",
    "flux_jobtap_job_aux_get",
    "flux_jobtap_job_aux_delete_value",
    "flux_jobtap_call",
];

const TOPICS: &[&str] = &[
    "job.create",
    "job.validate",
    "job.dependency.SCHEME",
    "job.new",
    "job.state.new",
    "job.state.depend",
    "job.state.priority",
    "job.state.sched",
    "job.state.run",
    "job.state.cleanup",
    "job.state.inactive",
    "job.event.NAME",
    "job.update",
    "job.update.KEY",
    "job.priority.get",
    "job.inactive-add",
    "job.inactive-remove",
    "job.destroy",
    "conf.update",
    "plugin.query",
];

const INPUT: &[&str] = &[
    "jobspec",
    "id",
    "userid",
    "urgency",
    "state",
    "prev_state",
    "priority",
    "t_submit",
    "R",
    "end_event",
    "entry",
    "updates",
    "dependency",
    "cred",
    "key",
    "value",
    "conf",
];

const OUTPUT: &[&str] =
    &["priority", "annotations", "R", "errmsg", "validated", "feasibility", "updates"];

/// The first cells of the tables below a heading.
fn rows(heading: &str) -> String {
    let chapter = include_str!("src/from-c.md");
    let (_, section) = chapter.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|line| line.split('|').nth(1)).collect()
}

#[test]
fn every_part_of_the_c_interface_has_its_row() {
    let functions = rows("The plugin itself") + &rows("Functions of jobtap");
    let tables = [
        (FUNCTIONS, functions),
        (TOPICS, rows("Topics")),
        (INPUT, rows("Input")),
        (OUTPUT, rows("Output")),
    ];
    for (names, cells) in tables {
        for name in names {
            assert!(cells.contains(&format!("`{name}`")), "{name} has no row");
        }
    }
}
