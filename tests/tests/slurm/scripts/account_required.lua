-- Refuses jobs without an account, and those of accounts that may not compute here.
-- request: --wrap true
-- request: -A physics --wrap true
-- request: -A closed --wrap true
-- request: -A Physics2 --wrap true
local closed = { closed = true, old = true }
function policy_submit(job, partitions, uid)
    if job.account == nil then
        slurm.log_user("Please give an account:\n  --account=NAME")
        return slurm.ESLURM_INVALID_ACCOUNT
    end
    if closed[job.account] then
        slurm.log_user("account %s is closed", job.account)
        return slurm.ESLURM_ACCESS_DENIED
    end
    job.account = string.lower(job.account)
    return slurm.SUCCESS
end
