//! Complete scripts like those of real sites.

use jobtap_core::slurm::{JobDescriptor, MEM_PER_CPU, Partition, errno};

use super::{MODIFY, Request, Site, texts};

fn desc() -> JobDescriptor {
    JobDescriptor::default()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A job goes to the first partition whose limits it fits.
const PARTITION_BY_SIZE: &str = r#"
local order = { "debug", "small", "large" }

local function fits(job_desc, part)
  local nodes = job_desc.min_nodes
  if nodes == slurm.NO_VAL then nodes = 1 end
  local minutes = job_desc.time_limit
  if minutes == slurm.NO_VAL then minutes = part.default_time end
  return nodes <= part.max_nodes and minutes <= part.max_time
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.partition ~= nil then
    return slurm.SUCCESS
  end
  for _, name in ipairs(order) do
    local part = part_list[name]
    if part and fits(job_desc, part) then
      job_desc.partition = name
      slurm.log_info("slurm_job_submit: uid %u: partition %s", submit_uid, name)
      slurm.log_user("Your job goes to partition %s", name)
      return slurm.SUCCESS
    end
  end
  slurm.log_user("No partition takes %d nodes for %d hours", job_desc.min_nodes, job_desc.time_limit / 60)
  return slurm.ESLURM_INVALID_NODE_COUNT
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

slurm.log_info("initialized")
return slurm.SUCCESS
"#;

#[test]
fn a_partition_is_chosen_by_size_and_time() {
    let site = Site::new();
    let mut script = site.load(PARTITION_BY_SIZE).unwrap();
    let partition = |name: &str, max_nodes, max_time| Partition {
        name: text(name),
        max_nodes,
        max_time,
        default_time: Some(30),
        ..Partition::default()
    };
    let request = |nodes: u32, minutes: Option<u32>| {
        let desc = JobDescriptor { min_nodes: Some(nodes), time_limit: minutes, ..desc() };
        let mut request = Request::new(desc);
        request.around.partitions = vec![
            partition("debug", 2, 30),
            partition("small", 8, 1440),
            partition("large", 64, 2880),
        ];
        request
    };
    for (nodes, minutes, name) in
        [(1, None, "debug"), (2, Some(60), "small"), (16, Some(2880), "large")]
    {
        let (verdict, after) = request(nodes, minutes).submit(&mut script);
        assert_eq!((verdict.code, after.partition.as_deref()), (0, Some(name)));
        assert_eq!(verdict.messages, [format!("Your job goes to partition {name}")]);
    }
    let (verdict, after) = request(100, Some(90)).submit(&mut script);
    assert_eq!(verdict.refusal(), Some(errno::ESLURM_INVALID_NODE_COUNT));
    assert_eq!(verdict.messages, ["No partition takes 100 nodes for 1 hours"]);
    assert_eq!(after.partition, None);
}

/// The QOS follows from partition, account and time.
const QOS_ROUTING: &str = r#"
qos_of = { gpu = "gpu_normal", batch = "normal" }

function slurm_job_submit(job_desc, part_list, submit_uid)
  local part = job_desc.partition or "batch"
  if job_desc.qos == nil then
    job_desc.qos = qos_of[part]
  end
  if string.find(job_desc.account or "", "^prio_") and job_desc.qos == "normal" then
    job_desc.qos = "high"
    job_desc.priority = 1000
  elseif job_desc.qos == "high" then
    slurm.user_msg("qos high needs a prio_ account")
    return slurm.ESLURM_ACCESS_DENIED
  end
  if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > 2 * 24 * 60 then
    job_desc.qos = job_desc.qos .. "_long"
  end
  return slurm.SUCCESS
end
"#;

#[test]
fn a_qos_follows_from_partition_account_and_time() {
    let site = Site::new();
    let mut script = site.load(&(QOS_ROUTING.to_owned() + MODIFY)).unwrap();
    let mut qos = |desc: JobDescriptor| {
        let (verdict, after) = Request::new(desc).submit(&mut script);
        (verdict.code, after.qos.unwrap_or_default(), after.priority)
    };
    assert_eq!(qos(desc()), (0, "normal".to_owned(), None));
    assert_eq!(
        qos(JobDescriptor { partition: text("gpu"), time_limit: Some(4320), ..desc() }),
        (0, "gpu_normal_long".to_owned(), None)
    );
    assert_eq!(
        qos(JobDescriptor { account: text("prio_lab"), ..desc() }),
        (0, "high".to_owned(), Some(1000))
    );
    assert_eq!(qos(JobDescriptor { qos: text("high"), ..desc() }), (2002, "high".to_owned(), None));
}

/// GPUs are counted in every place where they can be asked for.
const GPU_CHECK: &str = r#"
local function gpus(spec)
  if spec == nil then return 0 end
  local sum = 0
  for entry in string.gmatch(spec, "[^,]+") do
    local count = entry:match("^gres[:/]gpu[^:=]*[:=](%d+)$") or entry:match("^gres[:/]gpu:%a%w*[:=](%d+)$")
    if count then
      sum = sum + tonumber(count)
    elseif entry:find("^gres[:/]gpu") then
      sum = sum + 1
    end
  end
  return sum
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  local wanted = gpus(job_desc.tres_per_node) + gpus(job_desc.tres_per_job) + gpus(job_desc.tres_per_task)
  if job_desc.partition == "gpu" and wanted == 0 then
    slurm.log_user("Partition gpu is for jobs with GPUs: use --gres=gpu:N")
    return slurm.ERROR
  end
  if wanted > 0 and job_desc.partition ~= "gpu" then
    job_desc.partition = "gpu"
  end
  if wanted > 0 and job_desc.cpus_per_task == slurm.NO_VAL16 then
    job_desc.cpus_per_task = wanted * 8
  end
  return slurm.SUCCESS
end
"#;

#[test]
fn gpus_are_checked_and_routed() {
    let site = Site::new();
    let mut script = site.load(&(GPU_CHECK.to_owned() + MODIFY)).unwrap();
    let gpu = JobDescriptor { tres_per_node: text("gres:gpu:a100:2,gres:shard:1"), ..desc() };
    let (verdict, after) = Request::new(gpu).submit(&mut script);
    assert_eq!((verdict.error, verdict.code), (None, 0));
    assert_eq!((after.partition, after.cpus_per_task), (text("gpu"), Some(16)));
    let none = JobDescriptor { partition: text("gpu"), ..desc() };
    let (verdict, _) = Request::new(none).submit(&mut script);
    assert_eq!(verdict.code, -1);
    assert_eq!(verdict.messages, ["Partition gpu is for jobs with GPUs: use --gres=gpu:N"]);
}

/// An account is required, from a list in a separate file; root may do without.
const ACCOUNT_REQUIRED: &str = r#"
local accounts = require("accounts")

function slurm_job_submit(job_desc, part_list, submit_uid)
  if submit_uid == 0 then return slurm.SUCCESS end
  local account = job_desc.account
  if account == nil or account == "" then
    slurm.user_msg("Please give an account with -A.\nYours are: " .. table.concat(accounts.of(job_desc.user_name), ", "))
    return slurm.ESLURM_INVALID_ACCOUNT
  end
  if account:lower() ~= account then
    job_desc.account = account:lower()
    slurm.log_debug("account %s made lower case", account)
  end
  return slurm.SUCCESS
end
"#;

#[test]
fn an_account_is_required() {
    let site = Site::new();
    site.write(
        "accounts.lua",
        "local list = { alice = { 'physics', 'chemistry' } }
         return { of = function(user) return list[user] or { 'none' } end }",
    );
    let mut script = site.load(&(ACCOUNT_REQUIRED.to_owned() + MODIFY)).unwrap();
    let (verdict, _) = Request::new(desc()).submit(&mut script);
    assert_eq!(verdict.refusal(), Some(errno::ESLURM_INVALID_ACCOUNT));
    assert_eq!(verdict.messages, ["Please give an account with -A.\nYours are: none"]);
    let upper = JobDescriptor { account: text("Physics"), ..desc() };
    let (verdict, after) = Request::new(upper).submit(&mut script);
    assert_eq!((verdict.code, after.account), (0, text("physics")));
    assert_eq!(texts(&verdict.log), ["account Physics made lower case"]);
    let mut root = Request::new(desc());
    root.uid = 0;
    assert_eq!(root.submit(&mut script).0.code, 0);
}

/// Memory per CPU is limited; a job that asks for more gets more CPUs.
const MEMORY: &str = r#"
local PER_CPU = 4000

function slurm_job_submit(job_desc, part_list, submit_uid)
  local per_cpu = job_desc.min_mem_per_cpu
  if job_desc.pn_min_memory == slurm.NO_VAL64 then
    job_desc.min_mem_per_cpu = PER_CPU
  elseif per_cpu ~= nil and per_cpu > PER_CPU then
    local factor = math.ceil(per_cpu / PER_CPU)
    local cpus = job_desc.cpus_per_task
    if cpus == slurm.NO_VAL16 then cpus = 1 end
    job_desc.cpus_per_task = cpus * factor
    job_desc.min_mem_per_cpu = per_cpu / factor
    slurm.log_user(string.format("%dM for each CPU: using %d CPUs for each task", per_cpu, cpus * factor))
  elseif job_desc.min_mem_per_node ~= nil then
    job_desc.features = "mem" .. job_desc.min_mem_per_node / 1024 .. "g"
  end
  return slurm.SUCCESS
end
"#;

#[test]
fn memory_is_rewritten() {
    let site = Site::new();
    let mut script = site.load(&(MEMORY.to_owned() + MODIFY)).unwrap();
    let mut run = |pn_min_memory| {
        let (verdict, after) =
            Request::new(JobDescriptor { pn_min_memory, ..desc() }).submit(&mut script);
        assert_eq!((verdict.error, verdict.code), (None, 0));
        (after, verdict.messages)
    };
    assert_eq!(run(None).0.mem_per_cpu(), Some(4000));
    let (after, messages) = run(Some(10_000 | MEM_PER_CPU));
    assert_eq!((after.cpus_per_task, after.mem_per_cpu()), (Some(3), Some(3333)));
    assert_eq!(messages, ["10000M for each CPU: using 3 CPUs for each task"]);
    assert_eq!(run(Some(64 * 1024)).0.features, text("mem64g"));
}

/// Interactive jobs have no script; each user may have one, for a limited time.
const INTERACTIVE: &str = r#"
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.script ~= nil and job_desc.script ~= "" then
    return slurm.SUCCESS
  end
  for _, job in pairs(slurm.jobs) do
    if job.user_id == submit_uid and job.partition == "interactive" and job.job_state <= 1 then
      slurm.log_user("job " .. job.job_id .. " is interactive already")
      return slurm.ESLURM_ACCOUNTING_POLICY
    end
  end
  job_desc.partition = "interactive"
  local most = slurm.time_str2mins("4:00:00")
  if job_desc.time_limit == slurm.NO_VAL or job_desc.time_limit > most then
    job_desc.time_limit = most
  end
  return slurm.SUCCESS
end
"#;

#[test]
fn interactive_jobs_are_limited() {
    let site = Site::new();
    let mut script = site.load(&(INTERACTIVE.to_owned() + MODIFY)).unwrap();
    let (verdict, after) = Request::new(desc()).submit(&mut script);
    assert_eq!(verdict.code, 0);
    assert_eq!((after.partition, after.time_limit), (text("interactive"), Some(240)));
    let batch = JobDescriptor { script: text("#!/bin/sh\n"), ..desc() };
    assert_eq!(Request::new(batch.clone()).submit(&mut script).1, batch);
    let mut second = Request::new(desc());
    second.around.jobs = vec![jobtap_core::slurm::JobRecord {
        job_id: 31,
        user_id: 1000,
        partition: text("interactive"),
        ..Default::default()
    }];
    let (verdict, _) = second.submit(&mut script);
    assert_eq!(verdict.refusal(), Some(errno::ESLURM_ACCOUNTING_POLICY));
    assert_eq!(verdict.messages, ["job 31 is interactive already"]);
}

/// An error after a field was set: whether the change is kept depends on the configuration.
#[test]
fn an_error_in_the_middle_names_its_line() {
    let site = Site::new();
    let text = "function slurm_job_submit(job_desc)\n  job_desc.comment = 'seen'\n  local parts = job_desc.features:gmatch('[^&]+')\n  return slurm.SUCCESS\nend\n";
    let mut script = site.load(&(text.to_owned() + MODIFY)).unwrap();
    let (verdict, after) = Request::new(desc()).submit(&mut script);
    assert_eq!(after.comment, None);
    assert_eq!(
        super::without_place(verdict.error.as_deref().unwrap()),
        ":3: attempt to index field 'features' (a nil value)"
    );
}
