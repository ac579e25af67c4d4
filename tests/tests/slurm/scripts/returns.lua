-- What a function may return.
-- request: -J nothing --wrap true
-- request: -J text --wrap true
-- request: -J number_text --wrap true
-- request: -J zero_text --wrap true
-- request: -J fraction --wrap true
-- request: -J half --wrap true
-- request: -J yes --wrap true
-- request: -J list --wrap true
-- request: -J nil --wrap true
-- request: -J minus --wrap true
-- request: -J failure --wrap true
-- request: -J unknown --wrap true
-- request: -J two --wrap true
local answers = {
    text = "abc", number_text = "2002", zero_text = "0", fraction = 2002.7, half = 0.5, yes = true,
    list = {}, minus = -7, failure = slurm.FAILURE, unknown = 99999,
}
function policy_submit(job)
    if job.name == "nothing" then
        return
    elseif job.name == "two" then
        return slurm.SUCCESS, slurm.ERROR
    end
    return answers[job.name]
end
