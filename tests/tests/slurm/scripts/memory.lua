-- Rewrites memory per node to memory per CPU, and limits it.
-- request: --mem=4G -n 2 --wrap true
-- request: --mem-per-cpu=9000 --wrap true
-- request: --wrap true
-- request: --mem=0 --wrap true
function policy_submit(job)
    if job.min_mem_per_cpu ~= nil then
        slurm.log_user("per cpu: %s", tostring(job.min_mem_per_cpu))
        if job.min_mem_per_cpu > 8000 then
            job.min_mem_per_cpu = 8000
        end
    elseif job.min_mem_per_node ~= nil then
        slurm.log_user("per node: %s", tostring(job.min_mem_per_node))
        if job.min_mem_per_node > 2000 then
            job.min_mem_per_node = 2000
        end
    else
        job.pn_min_memory = 1000
    end
    return slurm.SUCCESS
end
