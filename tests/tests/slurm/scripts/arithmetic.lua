-- How numbers print, and what is new or gone since Lua 5.1.
-- request: -t 90 -n 3 --wrap true
function policy_submit(job)
    slurm.log_user("limit " .. job.time_limit)
    slurm.log_user("half " .. job.time_limit / 2)
    slurm.log_user("third " .. tostring(job.num_tasks / 2))
    slurm.log_user("twice " .. job.time_limit * 2 .. " " .. 2 ^ 10 .. " " .. 7 % 4 .. " " .. -7 % 4)
    slurm.log_user("floor " .. math.floor(job.time_limit / 60) .. " " .. math.max(1, job.num_tasks))
    slurm.log_user("%d %s %5.2f %q", job.time_limit, job.num_tasks, job.time_limit / 60, "text")
    slurm.log_user("sum " .. "10" + 5)
    slurm.log_user("text " .. tostring(job.time_limit + 0.5) .. " " .. tostring(1e15) .. " " .. tostring(1e100))
    slurm.log_user("kinds %s %s", type(job.time_limit), type(job.name))
    local first, second = unpack({ "a", "b" })
    slurm.log_user("%s %s %d", first, second, table.getn({ 1, 2, 3 }))
    slurm.log_user("%.0f %.0f", math.pow(2, 3), math.mod and 1 or 0)
    local chunk = loadstring("return 1 + 1")
    slurm.log_user("%d", chunk())
    slurm.log_user("unset " .. job.max_nodes .. " " .. job.cpus_per_task)
    slurm.log_user("%s", tostring(job.max_nodes == slurm.NO_VAL))
    return slurm.SUCCESS
end
