-- Keeps a count of its own, as scripts do between two calls.
-- request: --wrap true
seen = seen or {}
function policy_submit(job, partitions, uid)
    seen[uid] = (seen[uid] or 0) + 1
    slurm.log_user("user %d, %s, %d", uid, job.user_name, job.user_id)
    if seen[uid] > 1000 then
        return slurm.ESLURM_ACCOUNTING_POLICY
    end
    return slurm.SUCCESS
end
