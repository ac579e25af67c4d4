-- Lets users shorten their jobs, and lengthen them up to an hour.
-- modify: TimeLimit=10 => update ID duration=10m
-- modify: TimeLimit=60 => update ID duration=1h
-- modify: TimeLimit=61 => update ID duration=61m
-- modify: TimeLimit=UNLIMITED => update ID duration=0
-- modify: Partition=debug => update ID queue=debug
function policy_modify(job, record, partitions, uid)
    if job.time_limit == slurm.NO_VAL then
        return slurm.SUCCESS
    end
    if record.time_limit ~= 30 or record.account ~= "physics" or record.name ~= "old" then
        return slurm.ERROR
    end
    if job.time_limit > 60 then
        slurm.log_user("not more than an hour")
        return slurm.ESLURM_INVALID_TIME_LIMIT
    end
    return slurm.SUCCESS
end
