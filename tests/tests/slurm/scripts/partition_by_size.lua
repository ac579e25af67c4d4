-- Puts a job without a partition into the one that fits it.
-- request: -t 30 --wrap true
-- request: -t 300 --wrap true
-- request: -p debug -t 300 --wrap true
-- request: -p batch -n 700 --wrap true
function policy_submit(job, partitions, uid)
    local limit = job.time_limit
    if job.partition == nil then
        if limit ~= slurm.NO_VAL and limit <= 60 then
            job.partition = "debug"
        else
            job.partition = "batch"
        end
        slurm.log_user("partition %s was chosen", job.partition)
    elseif partitions[job.partition] ~= nil then
        local most = partitions[job.partition].max_time
        if most ~= slurm.INFINITE and limit ~= slurm.NO_VAL and limit > most then
            slurm.log_user("%d minutes are more than the %d of partition %s", limit, most, job.partition)
            return slurm.ESLURM_INVALID_TIME_LIMIT
        end
    end
    return slurm.SUCCESS
end
