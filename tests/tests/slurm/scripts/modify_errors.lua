-- Refuses changes, or fails.
-- modify: TimeLimit=1 => update ID duration=1m
-- modify: TimeLimit=2 => update ID duration=2m
-- modify: TimeLimit=3 => update ID duration=3m
-- modify: TimeLimit=4 => update ID duration=4m
-- modify: TimeLimit=5 => update ID duration=5m
-- modify: TimeLimit=6 => update ID duration=6m
-- modify (fields): Priority=7 => job urgency ID 7
function policy_modify(job, record, partitions, uid)
    if job.time_limit == 1 then
        return slurm.ERROR
    elseif job.time_limit == 2 then
        return slurm.ESLURM_ACCESS_DENIED
    elseif job.time_limit == 3 then
        error("in the middle")
    elseif job.time_limit == 4 then
        return "2051"
    elseif job.time_limit == 5 then
        return nil
    elseif job.time_limit == 6 then
        job.time_limit = nil
    end
    return slurm.ESLURM_INVALID_ACCOUNT
end
