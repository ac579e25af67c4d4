//! Prologs and epilogs that run during a crash, a reload or a removal fail or begin again, as configured.

use super::*;

#[test]
fn removed_at_work_it_leaves_no_job_behind() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    assert_eq!(m.why(id), ["prolog job-manager.prolog of plugin perilog is not finished"]);
    m.remove_plugin("perilog.so").unwrap();
    m.assert_exception(id, "prolog", "its plugin was removed");
    m.assert_state(id, State::Inactive);
    assert!(running(&m).is_empty());
}

#[test]
fn loaded_later_it_ends_the_jobs_that_run() {
    let mut m = both();
    m.remove_plugin("perilog").unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_state(id, State::Run);
    m.load_plugin("perilog.so", json!({})).unwrap();
    m.finish(id, 0);
    m.end_process("epi", code(0));
    after_alloc(&m, id, "start finish epilog-start release epilog-finish free clean");
}

#[test]
fn reloaded_at_work_it_goes_by_on_restart() {
    let mut m = manager(json!({"command": ["pro"], "on-restart": "rerun"}), Value::Null);
    let id = m.submit(TestJob::new()).unwrap();
    m.reload_plugin("perilog", json!({})).unwrap();
    assert_eq!(running(&m), ["pro"]);
    m.end_process("pro", code(0));
    after_alloc(&m, id, "prolog-start prolog-finish start");
}

/// Ends running scripts and tasks until none is left.
fn run_out(m: &mut TestManager, id: JobId) {
    for _ in 0..20 {
        if m.is_dead() {
            return;
        }
        if let Some(program) = running(m).first() {
            m.end_process(program, code(0));
        } else if m.job(id).state() == State::Run {
            m.finish(id, 0);
        }
    }
}

/// Asserts that every prolog and epilog was started once and finished.
fn assert_whole(m: &TestManager, id: JobId) {
    let events = m.events(id);
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    assert_eq!(events.last().unwrap(), "clean", "{events:?}");
    for perilog in ["prolog", "epilog"] {
        let (starts, ends) =
            (count(&format!("{perilog}-start")), count(&format!("{perilog}-finish")));
        assert_eq!((starts, ends), (1, 1), "{events:?}");
    }
}

#[test]
fn a_kill_at_any_moment_leaves_no_prolog_or_epilog_open() {
    type Scenario = fn(&mut TestManager, JobId);
    let scenarios: [Scenario; 4] = [
        |m, id| run_out(m, id),
        |m, id| {
            if running(m) == ["pro"] {
                m.end_process("pro", code(1));
            }
            run_out(m, id);
        },
        |m, id| {
            let _ = m.cancel(id);
            run_out(m, id);
        },
        |m, id| {
            m.advance(2000.0);
            m.advance(61.0);
            run_out(m, id);
        },
    ];
    for on_restart in ["fail", "rerun"] {
        for (index, scenario) in scenarios.iter().enumerate() {
            for steps in 0.. {
                let prolog = json!({"command": ["pro"], "on-restart": on_restart});
                let mut m = manager(prolog, json!({"command": ["epi"]}));
                m.hold_scheduling().unwrap();
                let id = m.submit(TestJob::new()).unwrap();
                m.crash_in(steps);
                // The submission fails when the manager crashes during it.
                let _ = m.scheduling(true);
                scenario(&mut m, id);
                let died = m.is_dead();
                if died {
                    m.crash_and_restart();
                    m.scheduling(true).unwrap();
                    scenario(&mut m, id);
                }
                assert!(running(&m).is_empty(), "scenario {index}, {steps} steps");
                assert_whole(&m, id);
                if !died {
                    // The manager has crashed at every step of the scenario.
                    break;
                }
            }
        }
    }
}

#[test]
fn a_restart_during_the_prolog_fails_it_or_begins_again() {
    let mut m = both();
    let id = m.submit(TestJob::new()).unwrap();
    m.crash_and_restart();
    after_alloc(&m, id, "prolog-start epilog-start exception prolog-finish");
    m.assert_exception(id, "prolog", "the manager was restarted while it was open");
    m.end_process("epi", code(0));
    m.assert_state(id, State::Inactive);
    assert_eq!(status(&m, id, "prolog-finish"), 1);

    let mut m = manager(json!({"command": ["pro"], "on-restart": "rerun"}), Value::Null);
    let id = m.submit(TestJob::new()).unwrap();
    m.crash_and_restart();
    m.end_process("pro", code(0));
    after_alloc(&m, id, "prolog-start prolog-finish start");
}

#[test]
fn a_restart_during_the_epilog_begins_it_again_or_notes_it() {
    for (on_restart, events) in [
        ("rerun", "start finish epilog-start release epilog-finish free clean"),
        ("fail", "start finish epilog-start release exception epilog-finish free clean"),
    ] {
        let epilog = json!({"command": ["epi"], "on-restart": on_restart});
        let mut m = manager(Value::Null, epilog);
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        m.crash_and_restart();
        if on_restart == "rerun" {
            m.end_process("epi", code(0));
        }
        after_alloc(&m, id, events);
        assert_eq!(m.job(id).result(), Some(JobResult::Completed));
    }
}
