//! Implements the test kit's hosts ([`jobtap_core::testing::TestHosts`]) with the doubles of Slurm.

use std::collections::BTreeMap;

use jobtap_core::host::{HostKind, JobParts, PluginDescriptor, Registry, RegistryError};
use jobtap_core::job::{JobId, State, Timestamp, Uid};
use jobtap_core::jobspec::{Jobspec, JobspecError, path};
use jobtap_core::plugin::{Process, ProcessEnd};
use jobtap_core::slurm::{JobDescriptor, JobRecord, NO_VAL, SlurmError};
use jobtap_core::testing::{HostSetup, Refused, RunError, TestHost, TestJob, TestServices};
use serde_json::{Map, Value};

use super::{TestSlurm, TestSlurmBuilder, lock};
use crate::daemon::{Part, PrepEnd};
use crate::job;
use crate::prep::{self, NodeJob};
use crate::worker::LoadError;

/// Why a double of Slurm doesn't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestSlurmError {
    /// The plugins can't be linked together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The configuration can't be written as TOML.
    #[error(transparent)]
    Config(#[from] toml::ser::Error),
    /// The plugins don't start.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Returns the plugins in the order in which they are called.
fn in_order(setup: &HostSetup) -> Result<Vec<&'static PluginDescriptor>, RegistryError> {
    let names = setup.plugins.iter().map(|plugin| plugin.name);
    let registry = Registry::builder().plugins(setup.plugins.iter().copied()).sequence(names);
    Ok(registry.build()?.plugins().collect())
}

fn start(builder: TestSlurmBuilder, setup: &HostSetup) -> Result<TestSlurm, TestSlurmError> {
    let builder = TestSlurmBuilder { plugins: in_order(setup)?, ..builder };
    let config = toml::to_string(&setup.config)?;
    Ok(builder.config(config).simulated_processes().start()?)
}

/// Returns the user of a job, and the job as a request in Slurm's terms.
#[track_caller]
fn request(job: TestJob) -> Result<(u32, JobDescriptor), JobspecError> {
    let (cred, submission) = job.submission()?;
    let asked = submission.jobspec.value();
    let mut desc = JobDescriptor::from_jobspec(asked);
    if let Ok(urgency) = jobtap_core::job::Urgency::new(submission.urgency)
        && urgency != jobtap_core::job::Urgency::DEFAULT
    {
        desc.set_urgency(urgency);
    }
    desc.user_id = cred.userid.as_u32();
    let kept = desc.to_jobspec()?;
    let attributes = |of: &Value| {
        let system = path::get(of, "attributes.system").and_then(Value::as_object);
        system.cloned().unwrap_or_default()
    };
    let (asked, kept): (Map<String, Value>, Map<String, Value>) =
        (attributes(asked), attributes(&kept));
    if let Some(key) = asked.keys().find(|key| !kept.contains_key(*key)) {
        panic!("a request of Slurm's has no attribute {key:?}: test this for the other hosts only");
    }
    Ok((desc.user_id, desc))
}

fn jobspec(desc: &JobDescriptor) -> Value {
    desc.to_jobspec().unwrap_or_default()
}

#[track_caller]
fn find_job(jobs: &BTreeMap<JobId, JobDescriptor>, id: JobId) -> &JobDescriptor {
    match jobs.get(&id) {
        Some(job) => job,
        None => panic!("there is no job {id}"),
    }
}

impl TestSlurm {
    /// Stores an accepted job and returns its id.
    fn keep(&mut self, descriptor: JobDescriptor) -> JobId {
        let id = JobId::new(self.jobs.len() as u64 + 1);
        self.jobs.insert(id, descriptor);
        id
    }
}

impl TestHost for TestSlurm {
    type StartError = TestSlurmError;

    fn start(setup: &HostSetup) -> Result<Self, TestSlurmError> {
        start(TestSlurm::new(), setup)
    }

    fn kind(&self) -> HostKind {
        HostKind::SlurmSubmit
    }

    fn now(&self) -> Timestamp {
        crate::worker::now()
    }

    #[track_caller]
    fn submit(&mut self, job: TestJob) -> Result<JobId, Refused> {
        let (user, descriptor) = request(job)?;
        let submitted = self.submit_as(user, descriptor);
        let message = submitted.decision.message;
        if let Some(error) = SlurmError::from_code(submitted.decision.code) {
            return Err(Refused::Slurm(error.with(message.unwrap_or_default())));
        }
        self.messages.extend(message.iter().flat_map(|text| text.lines()).map(str::to_owned));
        Ok(self.keep(submitted.descriptor))
    }

    fn messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    #[track_caller]
    fn priority(&self, id: JobId) -> Option<u32> {
        find_job(&self.jobs, id).priority.filter(|priority| *priority < NO_VAL)
    }

    #[track_caller]
    fn jobspec(&self, id: JobId) -> Value {
        jobspec(find_job(&self.jobs, id))
    }

    fn events(&self, _: JobId) -> Vec<String> {
        Vec::new()
    }

    fn annotations(&self, _: JobId) -> Value {
        Value::Object(Map::new())
    }

    fn unserved(&mut self) -> Vec<String> {
        let mut unserved: Vec<String> = std::mem::take(&mut lock(&self.recorder.unserved));
        unserved.sort_unstable();
        unserved.dedup();
        unserved
    }

    fn run(&mut self, _: JobId) -> Result<(), RunError> {
        Ok(())
    }

    fn end(&mut self, _: JobId, _: u8) -> Result<(), RunError> {
        Ok(())
    }

    fn end_processes_with(&mut self, end: ProcessEnd) {
        if let Some(processes) = &self.recorder.processes {
            lock(processes).end_with(end);
        }
    }

    fn started_processes(&self) -> Vec<Process> {
        let processes = self.recorder.processes.as_ref();
        processes.map(|processes| lock(processes).started().to_vec()).unwrap_or_default()
    }

    fn services(&self) -> TestServices {
        TestServices::default()
    }
}

/// A double of Slurm with a PrEp plugin: each job runs the prologs and epilogs of the controller and of its one
/// node. All requests are accepted, since a PrEp plugin doesn't see them.
#[derive(Debug)]
pub struct TestSlurmPrep {
    /// It also stores the jobs.
    slurm: TestSlurm,
    /// The number of prologs and epilogs of the controller that have begun.
    begun: usize,
}

impl TestSlurmPrep {
    /// Returns the double itself, which offers more than a host of the test kit.
    pub fn slurm(&self) -> &TestSlurm {
        &self.slurm
    }

    #[track_caller]
    fn call(&mut self, id: JobId, part: Part, state: State) -> Result<(), RunError> {
        let desc = find_job(&self.slurm.jobs, id);
        let number = u32::try_from(id.as_u64()).map_err(|_| RunError::Id(id))?;
        let user = Uid(desc.user_id);
        let mut parts = JobParts::new(id, user, Jobspec::unvalidated(jobspec(desc)));
        parts.state = state;
        parts.resources = Some(job::resources(NODE)).into();
        let record = JobRecord::from_job(&parts.into_job());
        let node = NodeJob {
            id: number,
            user: user.as_u32(),
            group: desc.group_id,
            user_name: desc.user_name.clone(),
            nodes: Some(NODE.to_owned()),
            partition: desc.partition.clone(),
            work_dir: desc.work_dir.clone(),
            spank_job_env: desc.spank_job_env.clone(),
            node: Some(NODE.to_owned()),
        };
        let mut ends = Vec::new();
        if self.slurm.in_controller(part, record) {
            self.begun += 1;
            let ended = self.slurm.ended(self.begun);
            ends.extend(ended.into_iter().last().map(|(_, _, end)| end));
        }
        if part == Part::Epilog || ends.iter().all(|end| *end == PrepEnd::Done) {
            ends.push(prep::node_end(&self.slurm.plugins, part, node));
        }
        ends.into_iter().try_for_each(|end| match end {
            PrepEnd::Done => Ok(()),
            PrepEnd::Failed(note) => Err(RunError::Failed { note }),
            PrepEnd::Cancelled => Err(RunError::Cancelled),
            PrepEnd::TimedOut => Err(RunError::TimedOut),
        })
    }
}

/// The node of all jobs.
const NODE: &str = "testhost";

impl TestHost for TestSlurmPrep {
    type StartError = TestSlurmError;

    fn start(setup: &HostSetup) -> Result<Self, TestSlurmError> {
        let slurm = start(TestSlurm::new().prep(), setup)?;
        Ok(Self { slurm, begun: 0 })
    }

    fn kind(&self) -> HostKind {
        HostKind::SlurmPrep
    }

    fn now(&self) -> Timestamp {
        self.slurm.now()
    }

    #[track_caller]
    fn submit(&mut self, job: TestJob) -> Result<JobId, Refused> {
        let (_, descriptor) = request(job)?;
        Ok(self.slurm.keep(descriptor))
    }

    fn messages(&mut self) -> Vec<String> {
        self.slurm.messages()
    }

    #[track_caller]
    fn priority(&self, id: JobId) -> Option<u32> {
        self.slurm.priority(id)
    }

    #[track_caller]
    fn jobspec(&self, id: JobId) -> Value {
        self.slurm.jobspec(id)
    }

    fn events(&self, id: JobId) -> Vec<String> {
        self.slurm.events(id)
    }

    fn annotations(&self, id: JobId) -> Value {
        self.slurm.annotations(id)
    }

    fn unserved(&mut self) -> Vec<String> {
        self.slurm.unserved()
    }

    #[track_caller]
    fn run(&mut self, id: JobId) -> Result<(), RunError> {
        self.call(id, Part::Prolog, State::Run)
    }

    #[track_caller]
    fn end(&mut self, id: JobId, _: u8) -> Result<(), RunError> {
        self.call(id, Part::Epilog, State::Cleanup)
    }

    fn end_processes_with(&mut self, end: ProcessEnd) {
        self.slurm.end_processes_with(end);
    }

    fn started_processes(&self) -> Vec<Process> {
        self.slurm.started_processes()
    }

    fn services(&self) -> TestServices {
        TestServices::default()
    }
}
