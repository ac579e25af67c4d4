//! The response of a service is read from JSON.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Storage;

struct Made {
    path: String,
}

#[jobtap_plugin(name = "storage")]
impl Storage {
    #[on("job.state.run")]
    async fn make(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let made: Made = remote.rpc("storage.create", &json!({"id": job.id})).await?;
        remote.log(Level::Info, made.path);
        Ok(())
    }
}

fn main() {}
