-- The job_submit.lua of both managers: runs the script of the pair that is being compared, and writes the
-- fields of the description before and after it to a file. Some scripts read slurm.jobs, which our manager
-- passes to scripts that name it.
local directory = "@DIRECTORY@"
package.path = directory .. "/?.lua;" .. package.path

local fields = {
@FIELDS@
}

-- The names of slurm, which are recorded for a script that asks for it.
local names = {
@NAMES@
}

local function shown(value)
    if type(value) == "number" then
        return string.format("%.14g", value)
    elseif type(value) == "table" then
        return "a table"
    elseif type(value) == "function" then
        return "a function"
    end
    return tostring(value)
end

local function record(when, description)
    local file = assert(io.open(directory .. "/record", "a"))
    for _, name in ipairs(fields) do
        file:write(when, "\t", name, "\t", (shown(description[name]):gsub("\n", "\\n")), "\n")
    end
    for _, name in ipairs({ "SITE_MARK", "HOME", "ADDED" }) do
        file:write(when, "\tenvironment.", name, "\t", shown(description.environment[name]), "\n")
    end
    for _, name in ipairs(policy_shows_names and names or {}) do
        file:write(when, "\tslurm.", name, "\t", shown(slurm[name]), "\n")
    end
    file:close()
end

-- A script that decides about changes of jobs has no function for submissions, and accepts them.
function decide(name, description, ...)
    policy_submit, policy_modify, policy_shows_names = nil, nil, nil
    dofile(directory .. "/policy.lua")
    if _G[name] == nil then
        return slurm.SUCCESS
    end
    record("before", description)
    local well, answer = pcall(_G[name], description, ...)
    record("after", description)
    if not well then
        error(answer, 0)
    end
    return answer
end

function slurm_job_submit(description, partitions, uid)
    return decide("policy_submit", description, partitions, uid)
end

function slurm_job_modify(description, job, partitions, uid)
    return decide("policy_modify", description, job, partitions, uid)
end

return slurm.SUCCESS
