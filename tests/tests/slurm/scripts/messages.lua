-- Talks to the user.
-- request: -J accepted --wrap true
-- request: -J refused --wrap true
-- request: -J empty --wrap true
-- request: -J percent --wrap true
function policy_submit(job)
    if job.name == "percent" then
        slurm.user_msg("100% of %d")
        slurm.log_user("%d%% of %s", 50, "half")
        return slurm.SUCCESS
    end
    if job.name ~= "empty" then
        slurm.log_user("first line\nsecond line")
        slurm.user_msg("third line")
        slurm.log_info("for the log %d", 1)
        slurm.log_error("an error for the log")
        slurm.log_debug("only seen when debugging")
    end
    if job.name == "accepted" then
        return slurm.SUCCESS
    end
    return slurm.ERROR
end
