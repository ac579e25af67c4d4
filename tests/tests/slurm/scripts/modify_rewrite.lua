-- Changes what users want to change.
-- modify: TimeLimit=500 => update ID duration=500m
-- modify: TimeLimit=20 => update ID duration=20m
-- modify (fields): Comment=new => update ID attributes.user.comment=new
-- modify (fields): Partition=debug => update ID queue=debug
function policy_modify(job, record, partitions, uid)
    if job.time_limit ~= slurm.NO_VAL and job.time_limit > 60 then
        job.time_limit = 60
    elseif job.time_limit == 20 then
        job.comment = "shortened from " .. record.time_limit
    end
    if job.comment == "new" then
        job.comment = job.user_name .. ": " .. job.comment
    end
    if job.partition == "debug" and partitions.debug ~= nil then
        job.time_limit = partitions.debug.max_time
    end
    return slurm.SUCCESS
end
