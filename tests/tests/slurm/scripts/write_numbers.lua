-- Writes each field that is a number, with a number, a text of one, a fraction, and the unset value.
-- request (fields): -J plain --wrap true
-- request (fields): -J text --wrap true
-- request (fields): -J fraction --wrap true
-- request (fields): -J unset --wrap true
local numbers = {
    "begin_time", "bitflags", "contiguous", "cores_per_socket", "cpu_freq_gov", "cpu_freq_max",
    "cpu_freq_min", "cpus_per_task", "delay_boot", "end_time", "immediate", "mail_type", "max_cpus",
    "max_nodes", "min_cpus", "min_nodes", "nice", "ntasks_per_node", "ntasks_per_socket",
    "ntasks_per_tres", "num_tasks", "oversubscribe", "pn_min_cpus", "pn_min_memory", "pn_min_tmp_disk",
    "power_flags", "priority", "reboot", "req_switch", "requeue", "shared", "sockets_per_node",
    "threads_per_core", "time_limit", "time_min", "wait4switch",
}
function policy_submit(job)
    for index, name in ipairs(numbers) do
        if job.name == "plain" then
            job[name] = index
        elseif job.name == "text" then
            job[name] = tostring(index)
        elseif job.name == "fraction" then
            job[name] = index + 0.75
        else
            job[name] = slurm.NO_VAL
        end
    end
    return slurm.SUCCESS
end
