//! A computed score may be out of the range of a priority; `Priority::clamped` takes any number.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> Priority {
        let nice = job.jobspec().attribute("nice").and_then(|nice| nice.as_i64()).unwrap_or(0);
        Priority::new(1000 - nice)
    }
}

fn main() {}
