//! `cray-pmi-bootstrap`: gives each job on several nodes two ports and a random number, by which Cray's PMI starts. The
//! shell's plugin reads them from the event `cray-pmi-bootstrap`.
//!
//! ```toml
//! [plugins.cray-pmi-bootstrap]
//! port-min = 11000   # both or none
//! port-max = 12000   # exclusive
//! ```

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use jobtap_core::prelude::*;
use schemars::JsonSchema;
use serde_json::json;

/// The event that the shell's plugin reads.
const EVENT: EventName = event_name!("cray-pmi-bootstrap");

/// The fewest ports.
const FEWEST: u32 = 50;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
struct Settings {
    port_min: Option<u32>,
    port_max: Option<u32>,
}

/// The ports of a job. They are stored with it, so that no other job gets them after a restart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Ports(Vec<u32>);

/// The plugin.
#[derive(Debug)]
pub struct CrayPmiBootstrap {
    /// A stack: ports are taken from the end.
    free: Vec<u32>,
    range: Range<u32>,
}

#[jobtap_plugin(name = "cray-pmi-bootstrap", load = "by-name", data = Ports)]
impl CrayPmiBootstrap {
    #[init]
    fn new(settings: Conf<Settings>) -> Result<Self, ConfError> {
        let Settings { port_min, port_max } = settings.into_inner();
        let (min, max) = port_min.zip(port_max).unwrap_or((11_000, 12_000));
        if min < 1024 || !(1024..=65_536).contains(&max) {
            return Err(ConfError::new("invalid port min/max"));
        }
        match max.saturating_sub(min) {
            FEWEST.. => Ok(Self { free: (min..max).collect(), range: min..max }),
            count => Err(ConfError::new(format!("Not enough ports specified: {count}"))),
        }
    }

    /// Takes the ports of a job that runs already.
    #[on("job.new")]
    fn known(&mut self, ports: Data<'_, Ports>) -> Result<(), HandlerError> {
        let Ports(taken) = ports.get()?;
        self.free.retain(|port| !taken.contains(port));
        Ok(())
    }

    #[on("job.state.run")]
    fn runs(
        &mut self,
        job: &Job,
        resources: &ResourceSet,
        ports: Data<'_, Ports>,
        cx: Cx<'_, JobStateRun>,
    ) -> Result<(), HandlerError> {
        if resources.nnodes() == 1 {
            return Ok(());
        }
        let mut bytes = [0; 8];
        File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes))?;
        let [.., second, first] = self.free.as_slice() else {
            return Err(HandlerError::new("Failed to post ports to job: none is free"));
        };
        let taken = [*first, *second];
        ports.set(&Ports(taken.to_vec()))?;
        let secret = i64::from_ne_bytes(bytes);
        cx.post_event(job, EVENT, json!({ "ports": taken, "random_integer": secret }))?;
        self.free.truncate(self.free.len() - taken.len());
        Ok(())
    }

    #[on("job.state.cleanup")]
    fn ended(&mut self, ports: Data<'_, Ports>) -> Result<(), HandlerError> {
        let Ports(given) = ports.get()?;
        // Not those of an earlier range, nor those of a job that was never told them.
        let returns = |port: &u32| self.range.contains(port) && !self.free.contains(port);
        let returned: Vec<u32> = given.into_iter().filter(returns).collect();
        self.free.extend(returned);
        Ok(ports.set(&Ports::default())?)
    }
}
