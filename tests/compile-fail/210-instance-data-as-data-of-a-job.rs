//! Data of the instance is another parameter than data of a job.
use jobtap_core::prelude::*;

#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", instance_data = Usage)]
impl Site {
    #[on("job.new")]
    fn new_job(&self, usage: Data<'_, Usage>) -> Result<(), HandlerError> {
        usage.update(|usage| usage.0 += 1)?;
        Ok(())
    }
}

fn main() {}
