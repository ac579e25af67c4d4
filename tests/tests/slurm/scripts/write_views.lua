-- Writes the fields that are views of others.
-- request (fields): -J per_cpu --wrap true
-- request (fields): -J per_node --wrap true
-- request (fields): -J site --wrap true
-- request (fields): -J gres --wrap true
-- request (fields): -J gpu --wrap true
-- request (fields): -J name --wrap true
-- request (fields): -J script --wrap true
-- request (fields): -J nice --wrap true
function policy_submit(job)
    if job.name == "per_cpu" then
        job.min_mem_per_cpu = 123
    elseif job.name == "per_node" then
        job.min_mem_per_node = 456
    elseif job.name == "site" then
        job.site_factor = 7
    elseif job.name == "gres" then
        job.gres = "gpu:2"
    elseif job.name == "gpu" then
        job.ntasks_per_gpu = 3
    elseif job.name == "name" then
        job.name = "renamed"
    elseif job.name == "script" then
        job.script = "#!/bin/sh\nexit 3\n"
    elseif job.name == "nice" then
        job.nice = slurm.NICE_OFFSET + 10
    end
    return slurm.SUCCESS
end
