//! The data of the instance ends with the callback, which an `async` handler outlives.
use jobtap_core::prelude::*;

#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site", instance_data = Usage)]
impl Site {
    #[on("job.state.depend")]
    async fn depend(usage: InstanceData<'_, Usage>) -> Result<(), Reject> {
        Reject::when(usage.get()?.0 > 7, "too much")
    }
}

fn main() {}
