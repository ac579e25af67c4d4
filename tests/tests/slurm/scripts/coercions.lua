-- Writes values of a wrong type.
-- request (fields): -J number_as_text --wrap true
-- request (fields): -J hexadecimal --wrap true
-- request (fields): -J spaces --wrap true
-- request (fields): -J number_in_text --wrap true
-- request: -J nil_text --wrap true
-- request: -J nil_number --wrap true
-- request: -J word --wrap true
-- request: -J list --wrap true
-- request: -J yes --wrap true
-- request (fields): -J huge --wrap true
-- request (fields): -J negative --wrap true
function policy_submit(job)
    if job.name == "number_as_text" then
        job.time_limit = "12"
    elseif job.name == "hexadecimal" then
        job.time_limit = "0x10"
    elseif job.name == "spaces" then
        job.time_limit = " 12 "
    elseif job.name == "number_in_text" then
        job.comment = 5
    elseif job.name == "nil_text" then
        job.comment = nil
    elseif job.name == "nil_number" then
        job.time_limit = nil
    elseif job.name == "word" then
        job.time_limit = "abc"
    elseif job.name == "list" then
        job.comment = {}
    elseif job.name == "yes" then
        job.time_limit = true
    elseif job.name == "huge" then
        job.cpus_per_task = 65536 + 5
    elseif job.name == "negative" then
        job.max_nodes = -1
    end
    slurm.log_user("done")
    return slurm.SUCCESS
end
