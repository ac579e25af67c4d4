-- Greets the user, and wants sizes that fit the queue; answers in many ways.
-- request: -J ok -A physics -p batch -N 1 -n 4 -t 30 --wrap true
-- request: -J ok -A physics -N 1 -n 4 --wrap true
-- request: -J no_size -A physics -p batch -t 30 --wrap true
-- request: -J too_many -A physics -N 2 -n 500 -t 30 --wrap true
-- request: -J fewer -N 4 -n 2 -A physics -t 30 --wrap true
-- request: -J nothing -n 1 -A physics -t 30 --wrap true
-- request: -J true -n 1 -A physics -t 30 --wrap true
-- request: -J false -n 1 -A physics -t 30 --wrap true
-- request: -J text -n 1 -A physics -t 30 --wrap true
-- request: -J two -n 1 -A physics -t 30 --wrap true
-- request: -J float -n 1 -A physics -t 30 --wrap true
-- request: -J unset -n 1 --wrap true
-- request: -J memory --mem=9000 -n 1 -A physics -t 30 --wrap true
-- request: -J mail -n 1 -A physics -t 30 --mail-type=END,FAIL --mail-user=a@b.example --wrap true
-- request: -J o'brien -n 1 -A bio-med.2 -t 30 --wrap true
local function check(condition, what, answer)
    local dots = string.rep(".", 40 - #what)
    slurm.user_msg("--> " .. what .. dots .. (condition and "OK" or "FAILED"))
    if not condition then
        return answer
    end
end

function policy_submit(job_desc, part_list, submit_uid)
    slurm.user_msg(string.rep("-", 65))
    slurm.user_msg(string.format("%10s%s%-10s|", "", "Welcome, " .. tostring(submit_uid), "user"))
    slurm.user_msg(string.rep("-", 65))
    local account = job_desc.account
    local wrong = check(account ~= nil, "Verifying the account", slurm.ESLURM_INVALID_ACCOUNT)
    if wrong then
        slurm.log_user("tonumber of unset: %s %s %s", tostring(tonumber(job_desc.account or "")),
            tostring(tonumber(job_desc.time_limit)), tostring(tonumber(job_desc.cpus_per_task)))
        return wrong
    end
    wrong = check(job_desc.time_limit ~= slurm.NO_VAL, "Verifying the time limit", slurm.ESLURM_MISSING_TIME_LIMIT)
        or check(job_desc.num_tasks ~= slurm.NO_VAL, "Verifying the tasks", slurm.ESLURM_JOB_MISSING_SIZE_SPECIFICATION)
    if wrong then
        return wrong
    end
    local nodes = job_desc.min_nodes == slurm.NO_VAL and 1 or job_desc.min_nodes
    wrong = check(job_desc.num_tasks / nodes <= 128, "Verifying tasks per node", slurm.ESLURM_INVALID_NODE_COUNT)
    if wrong then
        slurm.log_user("%.1f tasks per node", job_desc.num_tasks / nodes)
        return wrong
    end
    if job_desc.num_tasks < nodes then
        job_desc.num_tasks = nodes
        job_desc.ntasks_per_node = 1
        slurm.log_user("one task on each of %d nodes", nodes)
    end
    if not (job_desc.pn_min_memory == slurm.NO_VAL64) and job_desc.pn_min_memory > 0 then
        slurm.log_user("--mem=%d is left out", job_desc.pn_min_memory)
        job_desc.pn_min_memory = 0
    end
    if job_desc.mail_user and not job_desc.mail_user:find("^[%w._-]+@[%w.-]+%.%a%a+$") then
        return slurm.ERROR
    end
    job_desc.wckey = account:gsub("[^%w]", "_") .. ":" .. (job_desc.name:match("^%a+") or "")
    if job_desc.name == "nothing" then
        return
    elseif job_desc.name == "true" then
        return true
    elseif job_desc.name == "false" then
        return false
    elseif job_desc.name == "text" then
        return "2002"
    elseif job_desc.name == "two" then
        return slurm.SUCCESS, slurm.ERROR
    elseif job_desc.name == "float" then
        return 2002.9
    end
    return slurm.SUCCESS
end
