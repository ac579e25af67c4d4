//! A plugin has one configuration table.
use jobtap_core::prelude::*;

#[derive(Deserialize)]
struct Limits {
    tasks: u64,
}

#[derive(Deserialize)]
struct Weights {
    age: f64,
}

struct Site {
    tasks: u64,
    age: f64,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new(limits: Conf<Limits>, weights: Conf<Weights>) -> Self {
        Self { tasks: limits.tasks, age: weights.age }
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        Reject::when(job.jobspec().counts().ntasks > self.tasks, format!("not at {}", self.age))
    }
}

fn main() {}
