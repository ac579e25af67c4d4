//! A job is lent for the callback, and a thread outlives it.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, job: &Job) {
        std::thread::spawn(move || println!("{}", job.id()));
    }
}

fn main() {}
