-- Wants a known constraint, and reads what partitions there are and a file of the site.
-- request: --wrap true
-- request: -C gpu -A physics --wrap true
-- request: -C mc -A physics -p debug --wrap true
-- request: -C gpu,perf -A chemistry --wrap true
-- request: -C GPU -A physics --wrap true
-- request: -C [rack1|rack2] -A physics --wrap true
-- request: -C mc -A closed --wrap true
-- request: -C mc -A bio-med.2 -p batch,debug --wrap true
local accepted = { gpu = true, mc = true, ["gpu,perf"] = "perf", ssd = false }

local function directory()
    return package.path:match("^([^;]*)/%?%.lua")
end

local function accounts()
    local list = {}
    local file, why = io.open(directory() .. "/accounts.txt", "r")
    if not file then
        slurm.log_error("accounts: %s", why)
        return nil
    end
    for line in file:lines() do
        local name, queue, hours = line:match("^([^#%s]+):%s+(%S+)%s+(%d+)%s*$")
        if name then
            list[name] = { queue = queue ~= "-" and queue or nil, hours = tonumber(hours) }
        end
    end
    file:close()
    return list
end

function policy_submit(job_desc, part_list, submit_uid)
    local names, defaults = {}, 0
    for name, partition in pairs(part_list) do
        if name ~= partition.name then
            return slurm.ERROR
        end
        names[#names + 1] = string.format("%s:%s:%d", name, partition.max_time == slurm.INFINITE and "inf"
            or tostring(partition.max_time), partition.total_nodes)
        defaults = defaults + partition.flag_default
    end
    table.sort(names)
    slurm.log_user("partitions %s, default %d, of no such %s", table.concat(names, " "), defaults,
        tostring(part_list["nosuch"]))

    local features = job_desc.features
    if not features then
        slurm.user_msg("srun/sbatch: error: no constraint (-C gpu | -C mc)")
        return slurm.ERROR
    end
    local kind = accepted[features]
    if kind == nil then
        -- Combinations: all of their words have to be known.
        for word in features:gsub("[%[%]]", ""):gmatch("[^|&,]+") do
            word = word:gsub("%*%d+$", "")
            if not accepted[word] then
                slurm.log_user("constraint '%s' of '%s' is unknown", word, features)
                return slurm.ERROR
            end
        end
    end

    local list = accounts()
    local account = list and list[job_desc.account]
    if account == nil then
        slurm.log_user("account %s is unknown", tostring(job_desc.account))
        return slurm.ESLURM_INVALID_ACCOUNT
    end
    if account.hours <= 0 then
        slurm.log_user("account %s has no hours left", job_desc.account)
        return slurm.ESLURM_ACCOUNTING_POLICY
    end
    if job_desc.partition == nil then
        job_desc.partition = account.queue
    else
        local first = job_desc.partition:match("^([^,]+)")
        slurm.log_user("%d partitions, the first is %s of %d nodes", select(2, job_desc.partition:gsub(",", ",")) + 1,
            first, part_list[first].total_nodes)
    end
    slurm.log_user("%s %s %s", type(os.getenv("PATH")), type(os.getenv("NO_SUCH_VARIABLE_9")),
        type(os.time()))
    job_desc.comment = string.format("%-10s|%6.2f|%5d|%x|%c|%%|%s", job_desc.account, account.hours / 3,
        account.hours, account.hours, 65, tostring(kind))
    return
end
