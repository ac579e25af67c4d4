-- Writes each field that is a text, and clears it again.
-- request (fields): -J set --wrap true
-- request (fields): -J cleared --wrap true
-- request (fields): -J numbers --wrap true
local texts = {
    "account", "acctg_freq", "admin_comment", "array_inx", "batch_features", "burst_buffer", "clusters",
    "comment", "container", "cpus_per_tres", "dependency", "exc_nodes", "extra", "features", "gres",
    "licenses", "mail_user", "mem_per_tres", "partition", "prefer", "qos", "req_nodes", "reservation",
    "selinux_context", "std_err", "std_in", "std_out", "tres_bind", "tres_freq", "tres_per_job",
    "tres_per_node", "tres_per_socket", "tres_per_task", "wckey", "work_dir",
}
function policy_submit(job)
    local way = job.name
    for index, name in ipairs(texts) do
        job[name] = way == "numbers" and index or "value of " .. name
        if way == "cleared" then
            job[name] = ""
        end
    end
    return slurm.SUCCESS
end
