-- The job_submit.lua of both managers: runs the script of the pair that is being compared, and writes the
-- fields of the description before and after it to a file. Some scripts read slurm.jobs, which our manager
-- passes to scripts that name it.
local directory = "@DIRECTORY@"
package.path = directory .. "/?.lua;" .. package.path

local fields = {
@FIELDS@
}

local function shown(value)
    if type(value) == "number" then
        return string.format("%.14g", value)
    elseif type(value) == "table" then
        return "a table"
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
    file:close()
end

function slurm_job_submit(description, partitions, uid)
    policy_submit = nil
    dofile(directory .. "/policy.lua")
    record("before", description)
    local well, answer = pcall(policy_submit, description, partitions, uid)
    record("after", description)
    if not well then
        error(answer, 0)
    end
    return answer
end

function slurm_job_modify(description, job, partitions, uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
