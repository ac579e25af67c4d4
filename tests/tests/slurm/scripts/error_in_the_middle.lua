-- Fails after it has changed something.
-- request: --wrap true
-- request: -A x --wrap true
function policy_submit(job)
    job.comment = "changed before the error"
    if job.account ~= nil then
        error({ code = 5 })
    end
    return job.no_such_function()
end
