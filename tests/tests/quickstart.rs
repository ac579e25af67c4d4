//! The tour of the README ends well and shows what it promises.
#![allow(missing_docs)]

use jobtap_tests::{clean, run, site_manager, workspace};

#[test]
fn the_tour_runs_to_its_end() {
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
    // By deadline, urgency counted as hours; a job without one is due after a day.
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
