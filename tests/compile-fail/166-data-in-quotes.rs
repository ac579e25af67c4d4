//! The data of a plugin is a type, not a string.
use jobtap_core::prelude::*;

#[derive(Default, Serialize, Deserialize)]
struct Usage {
    jobs: u64,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", data = "Usage")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, usage: Data<'_, Usage>) -> Result<(), HandlerError> {
        let _ = usage;
        Ok(())
    }
}

fn main() {}
