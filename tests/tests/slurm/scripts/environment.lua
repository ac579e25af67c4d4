-- Reads and writes the environment of the job.
-- request: --export=SITE_MARK=5 --wrap true
-- request: --export=NONE --wrap true
-- request (fields): --export=ALL --wrap true
function policy_submit(job)
    if job.environment.SITE_MARK == "5" then
        job.environment.SITE_MARK = "six"
    end
    job.environment.ADDED = "by the site"
    job.environment["ADDED"] = job.environment["ADDED"] .. "!"
    slurm.log_user("mark %s, added %s", tostring(job.environment.SITE_MARK), job.environment.ADDED)
    return slurm.SUCCESS
end
