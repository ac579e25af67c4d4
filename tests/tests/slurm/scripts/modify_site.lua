-- Decides about changes by what the job is now, as sites do that let users do some things only.
-- modify: TimeLimit=20 => update ID duration=20m
-- modify: TimeLimit=31 => update ID duration=31m
-- modify: TimeLimit=90 => update ID duration=90m
-- modify: Partition=debug => update ID queue=debug
-- modify: Partition=debug TimeLimit=45 => update ID queue=debug duration=45m
-- modify: Account=chemistry => update ID bank=chemistry
-- modify (fields): Account=physics => update ID bank=physics
-- modify (fields): Comment=old => update ID attributes.user.comment=old
-- modify (fields): Comment=50%_new => update ID attributes.user.comment=50%_new
-- modify (fields): QOS=high => update ID attributes.system.qos=high
-- modify (fields): JobName=prod.run-1 => update ID name=prod.run-1
local shown = { "account", "comment", "name", "partition", "qos", "dependency", "features", "nosuch" }

local function kept(record)
    local parts = {}
    for _, name in ipairs({ "account", "comment", "name", "partition", "qos", "features", "wckey", "std_err",
        "licenses", "reservation", "resv_name", "nosuch" }) do
        parts[#parts + 1] = name .. "=" .. tostring(record[name])
    end
    for _, name in ipairs({ "user_id", "time_limit", "min_nodes", "max_nodes", "min_cpus", "priority", "job_state",
        "nice", "array_task_id", "array_job_id", "restart_cnt", "start_time", "end_time", "exit_code", "derived_ec",
        "time_min", "het_job_id", "pack_job_id", "site_factor", "reboot", "req_switch", "wait4switch", "best_switch",
        "total_cpus", "total_nodes", "direct_set_prio", "resizing", "delay_boot", "spank_job_env_size" }) do
        parts[#parts + 1] = string.format("%s=%.0f", name, record[name])
    end
    return table.concat(parts, " ")
end

function policy_modify(job_desc, job_rec, part_list, modify_uid)
    slurm.log_info("job_modify: job %u of %s: by %d", job_rec.job_id, tostring(job_rec.user_name), modify_uid)
    if job_rec.user_id ~= modify_uid and modify_uid ~= 0 then
        return slurm.ESLURM_ACCESS_DENIED
    end
    -- What the record has is compared as a part of the description.
    job_desc.admin_comment = kept(job_rec)
    for _, name in ipairs(shown) do
        local new, old = job_desc[name], job_rec[name]
        if new ~= nil and new ~= old then
            slurm.log_verbose("%s: '%s' to '%s'", name, tostring(old), new)
        end
    end
    if job_desc.time_limit ~= slurm.NO_VAL and job_desc['time_limit'] > job_rec['time_limit'] then
        if job_desc.time_limit > 2 * job_rec.time_limit then
            slurm.log_user("at most twice")
            return slurm.ESLURM_INVALID_TIME_LIMIT
        end
        job_desc.comment = string.format("%d+%d", job_rec.time_limit, job_desc.time_limit - job_rec.time_limit)
    end
    if job_desc.account and job_desc.account ~= job_rec.account then
        return slurm.ESLURM_INVALID_ACCOUNT
    end
    if job_desc.partition and part_list[job_desc.partition] then
        local most = part_list[job_desc.partition].max_time
        local limit = job_desc.time_limit == slurm.NO_VAL and job_rec.time_limit or job_desc.time_limit
        if most ~= slurm.INFINITE and limit * 2 > most then
            slurm.log_error("half of %d", most)
            return slurm.ESLURM_ACCOUNTING_POLICY
        end
    end
    if job_desc.name and job_desc.name:match("^prod[%.%-]") then
        job_desc.name = job_desc.name:gsub("[%.%-]", "_")
    end
    if job_desc.comment == job_rec.comment then
        return nil
    end
    return slurm.SUCCESS
end
