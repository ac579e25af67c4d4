//! A newcomer's first steps work as the README shows them: its plugin compiles and passes its test, the
//! tour runs to its end, and the plugin that is linked into the example's manager sets priorities.

use jobtap_tests::{Manager, clean, run, site_manager, workspace};
use serde_json::Value;

/// The plugin and the test of the README, which the build script extracts.
mod readme {
    include!(concat!(env!("OUT_DIR"), "/readme.rs"));
}

#[test]
fn the_tour_of_the_readme_shows_what_it_promises() {
    let mut command = clean(site_manager());
    command.current_dir(workspace()).args(["start", "examples/quickstart.sh"]);
    let output = run(&mut command);
    let shown = output.stdout.clone();
    output.ok();
    for wanted in [
        ".priority-default\n",
        "\ndeadline\n",
        "0: I am task 0 of 2",
        "1: I am task 1 of 2",
        "prepared, computed",
        "endless    CA",
        "fails       F",
        "after-success=",
        " clean\n",
    ] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
    // Jobs start by deadline. A step of urgency counts as an hour, a job without a deadline is due after a day.
    let order = [
        "due-in-3h-urgent",
        "due-in-1h",
        "due-in-2h",
        "due-in-3h ",
        "no-deadline-urgent",
        "no-deadline ",
    ];
    let places: Vec<usize> = order.iter().map(|name| shown.find(name).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?} in\n{shown}");
}

#[test]
fn the_example_manager_says_what_it_leaves_out() {
    for (command, feature) in [("top", "top"), ("new plugin x", "tools"), ("slurm", "builtins")] {
        let output = run(clean(site_manager()).args(command.split(' ')));
        let name = command.split(' ').next().unwrap();
        output.says(
            1,
            &format!(
                "site-manager: '{name}' is left out of this manager: build it with the feature '{feature}' of jobtap-manager"
            ),
        );
    }
    let web = run(clean(site_manager()).args(["start", "--conf=http.listen=127.0.0.1:0", "true"]));
    let refusal = "http.listen: this manager is built without the feature 'http' of jobtap-manager";
    assert!(web.code == 1 && web.stderr.contains(refusal), "{web:?}");
    let help = run(clean(site_manager()).arg("--help")).ok();
    assert!(help.contains("submit ") && !help.contains("Build a manager"), "{help}");
}

#[test]
fn the_example_manager_uses_its_linked_plugin() {
    let m = Manager::start(site_manager());
    let plugins = m.jobtap("plugin list").ok();
    assert_eq!(plugins, "deadline");
    assert!(m.jobtap("plugin list -a").ok().starts_with(".priority-default\n"));

    let deadline = 4_000_000_000_u64;
    let id = m.submit(&format!("--setattr=deadline={deadline} true"));
    m.wait(&id, "clean");
    let entry = m.jobtap(&format!("job wait-event -f json {id} priority")).ok();
    let entry: Value = serde_json::from_str(&entry).unwrap();
    let priority = entry.pointer("/context/priority").unwrap().as_u64().unwrap();
    assert_eq!(priority, u64::from(u32::MAX) - 1 - deadline);

    let refusal = m.jobtap("submit --setattr=deadline=1 true");
    assert_eq!((refusal.code, refusal.stderr.contains("it has passed already")), (1, true));
}
