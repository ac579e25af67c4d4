//! An error of any kind becomes a rejection by its text.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Limits;

fn budget() -> Result<u64, Box<dyn std::error::Error>> {
    Ok("12".parse()?)
}

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[on("job.validate")]
    fn validate(&self) -> Result<(), Reject> {
        let _ = budget()?;
        Ok(())
    }
}

fn main() {}
