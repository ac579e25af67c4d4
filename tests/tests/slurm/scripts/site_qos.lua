-- Routes jobs by their quality of service, with a table of limits, as large centers do.
-- request: --wrap true
-- request: -q premium -N 4 -t 60 -A physics --wrap true
-- request: -q PREMIUM -N 4 -t 2:00:00 --wrap true
-- request: -q debug -t 31 --wrap true
-- request: -q debug -t 30 -N 2-9 --wrap true
-- request: -q debug_preempt -t 5 -C gpu --wrap true
-- request: -q xfer -n 3 --wrap true
-- request: -q nosuch --wrap true
-- request: -q shared -n 2 -c 64 --wrap true
-- request: -q shared -n 2 -c 8 --mem=8G --gpus=1 -C gpu&hbm80g --wrap true
-- request: -C cpu&gpu --wrap true
-- request: -C knl -q regular --wrap true
-- request: --begin=2031-05-06T07:08:09 -q regular --wrap true
-- request: --exclusive -q shared --wrap true
local qos_list = {
    regular = { partition = "batch", max_minutes = 48 * 60, max_nodes = nil },
    premium = { partition = "batch", max_minutes = 24 * 60, max_nodes = 1024, charge = 2 },
    debug = { partition = "debug", max_minutes = 30, max_nodes = 8 },
    shared = { partition = "batch", max_minutes = 48 * 60, max_nodes = 1 },
    xfer = { partition = "debug", max_minutes = 60, max_nodes = 1 },
}

local function unset(value)
    return value == nil or value == slurm.NO_VAL or value == slurm.NO_VAL16 or value == slurm.NO_VAL64
end

local function minutes(value)
    if value == slurm.INFINITE then
        return "unlimited"
    end
    return string.format("%02d:%02d:00", math.floor(value / 60), value % 60)
end

local function architectures(features)
    local found, names = {}, {}
    for feature in string.gmatch(features or "", "([%w_]+)") do
        if feature == "cpu" or feature == "gpu" or feature == "knl" then
            if not found[feature] then
                names[#names + 1] = feature
            end
            found[feature] = (found[feature] or 0) + 1
        end
    end
    table.sort(names)
    return names
end

function policy_submit(job_desc, part_list, submit_uid)
    local log_prefix = string.format("slurm_job_submit: uid=%d, job_desc.name='%s'", submit_uid, tostring(job_desc.name))
    slurm.log_info("%s: begin", log_prefix)
    if job_desc.name == "interactive" and job_desc.script == nil then
        return slurm.SUCCESS
    end

    local name = job_desc.qos or "regular"
    local base = string.lower(name):gsub("_preempt$", "")
    local qos = qos_list[base]
    if qos == nil then
        local known = {}
        for key in pairs(qos_list) do
            table.insert(known, key)
        end
        table.sort(known)
        slurm.user_msg("QOS '" .. name .. "' is unknown; use one of " .. table.concat(known, ", "))
        return slurm.ESLURM_INVALID_TIME_LIMIT
    end

    local archs = architectures(job_desc['features'])
    if #archs > 1 then
        slurm.log_user("%s: %d architectures: %s", "constraint", #archs, table.concat(archs, "+"))
        return slurm.ERROR
    elseif archs[1] == "knl" then
        slurm.log_user("Cori has been retired.\nPlease use '-C cpu' or '-C gpu'.")
        return 2015
    end

    if unset(job_desc.time_limit) then
        job_desc.time_limit = math.min(10, qos.max_minutes)
        slurm.log_user("No time limit: %s is set", minutes(job_desc.time_limit))
    elseif job_desc.time_limit > qos.max_minutes then
        slurm.log_user("%s is more than %s, the most of qos %q", minutes(job_desc.time_limit),
            minutes(qos.max_minutes), base)
        return slurm.ESLURM_INVALID_TIME_LIMIT
    end

    local nodes = job_desc.max_nodes
    if unset(nodes) or nodes == 0 then
        nodes = job_desc.min_nodes
    end
    if unset(nodes) then
        nodes = 1
    end
    if qos.max_nodes and nodes > qos.max_nodes then
        slurm.log_user("%d nodes are more than %d", nodes, qos.max_nodes)
        return slurm.ESLURM_INVALID_NODE_COUNT
    end

    if base == "shared" then
        if job_desc.shared == 0 then
            slurm.log_user("a shared job can't have nodes of its own (%s)", tostring(job_desc.oversubscribe))
            return slurm.ERROR
        end
        local cpus = (unset(job_desc.cpus_per_task) and 1 or job_desc.cpus_per_task)
            * (unset(job_desc.num_tasks) and 1 or job_desc.num_tasks)
        if cpus > 64 then
            slurm.log_user(("%d CPUs of a shared node: at most %d"):format(cpus, 64))
            return slurm.ERROR
        end
        job_desc.comment = string.format("%s;cpus=%d;mem=%s", base, cpus, tostring(job_desc.min_mem_per_node))
    end

    local account = job_desc.account
    if account ~= nil and archs[1] == "gpu" and not string.find(account, "_g$") then
        job_desc.account = account .. "_g"
    end
    job_desc.partition = qos.partition
    job_desc.qos = archs[1] and (archs[1] .. "_" .. base) or base
    job_desc.admin_comment = (job_desc.admin_comment or "") .. '{"charge":' .. (qos.charge or 1) .. "}"
    slurm.log_info("%s: end, qos %s", log_prefix, job_desc.qos)
    return slurm.SUCCESS
end
