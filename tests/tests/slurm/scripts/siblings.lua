-- Reads its limits from a file beside it.
-- request: -t 100 --wrap true
-- request: -t 5000 --wrap true
function policy_submit(job)
    local limits = require("site_limits")
    if job.time_limit ~= slurm.NO_VAL and job.time_limit > limits.minutes then
        slurm.log_user(limits.text, job.time_limit)
        return slurm.ESLURM_INVALID_TIME_LIMIT
    end
    return slurm.SUCCESS
end
