-- Chooses a QoS by the length and the size of a job.
-- request: -t 20 -J qos --wrap true
-- request: -t 3000 -n 2 --wrap true
-- request: --wrap true
-- request: -n 500 -t 100 --wrap true
local day = 24 * 60
function policy_submit(job, partitions, uid)
    if job.time_limit == slurm.NO_VAL then
        slurm.log_user("no time limit given: an hour is assumed")
        job.time_limit = 60
    end
    local width = job.num_tasks
    if width == slurm.NO_VAL then
        width = 1
    end
    if job.time_limit <= 30 and width <= 64 then
        job.comment = "qos=express"
    elseif job.time_limit > 2 * day then
        job.comment = string.format("qos=long;days=%.1f", job.time_limit / day)
    elseif width > 128 then
        job.comment = "qos=wide"
    else
        job.comment = "qos=normal"
    end
    return slurm.SUCCESS
end
