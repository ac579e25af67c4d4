-- Shows the partitions.
-- request: --wrap true
function policy_submit(job, partitions)
    local names = {}
    for name in pairs(partitions) do
        names[#names + 1] = name
    end
    table.sort(names)
    for _, name in ipairs(names) do
        local partition = partitions[name]
        slurm.log_user("%s %s default=%d max_time=%.0f state=%d tier=%d", name, partition.name,
            partition.flag_default, partition.max_time, partition.state_up, partition.priority_tier)
        slurm.log_user("%s %s %s %s", tostring(partition.allow_accounts), tostring(partition.qos),
            tostring(partition.total_nodes), tostring(partition.no_such_field))
    end
    return slurm.SUCCESS
end
