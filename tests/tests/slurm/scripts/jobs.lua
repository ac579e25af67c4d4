-- Looks at the jobs that exist and at the reservations.
-- request (fields): --begin=2031-05-06T07:08:09 -J waiting --wrap true
-- request: -J looking --wrap true
function policy_submit(job)
    local count, of_name = 0, type(slurm.jobs)
    for id, other in pairs(slurm.jobs) do
        count = count + 1
        if type(id) ~= "string" or other.job_id ~= tonumber(id) then
            of_name = "a wrong key"
        end
    end
    slurm.log_user("%s %s %s", of_name, tostring(count > 0), type(slurm.reservations))
    return slurm.SUCCESS
end
