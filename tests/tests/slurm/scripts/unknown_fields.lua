-- Reads and writes fields that don't exist, or can't be written.
-- request: -J reads --wrap true
-- request: -J writes --wrap true
-- request: -J fixed --wrap true
function policy_submit(job)
    if job.name == "reads" then
        slurm.log_user("%s %s", tostring(job.time_limt), tostring(job.environment.NO_SUCH_NAME))
    elseif job.name == "writes" then
        job.time_limt = 5
        job["a field"] = "x"
    else
        job.user_id = 5
        job.alloc_node = "elsewhere"
        job.argc = 7
    end
    local count = 0
    for _ in pairs(job) do
        count = count + 1
    end
    for _ in pairs(job.environment) do
        count = count + 1
    end
    slurm.log_user("%d pairs, %s", count, type(job))
    return slurm.SUCCESS
end
