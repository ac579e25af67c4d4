//! A text alone is no error that `?` converts.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Limits;

fn budget() -> Result<u64, &'static str> {
    Err("no budget")
}

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[on("job.validate")]
    fn validate(&self) -> Result<(), Reject> {
        budget()?;
        Ok(())
    }
}

fn main() {}
