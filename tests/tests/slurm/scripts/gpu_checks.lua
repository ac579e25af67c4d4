-- Wants a sensible number of CPUs beside each GPU.
-- request: --gres=gpu:2 --wrap true
-- request: --gres=gpu:1 -c 4 --wrap true
-- request: --gres=gpu -c 4 --wrap true
-- request: --gpus=1 -c 64 --wrap true
-- request: -c 64 --wrap true
local function gpus(text)
    if text == nil then
        return 0
    end
    local count = 0
    for part in string.gmatch(text, "[^,]+") do
        if string.find(part, "gpu") then
            count = count + (tonumber(string.match(part, ":(%d+)$")) or 1)
        end
    end
    return count
end
function policy_submit(job)
    local wanted = gpus(job.gres) + gpus(job.tres_per_job)
    if wanted == 0 then
        return slurm.SUCCESS
    end
    local cpus = job.cpus_per_task
    if cpus == slurm.NO_VAL16 then
        job.cpus_per_task = 4 * wanted
        slurm.user_msg("cpus per task set to " .. job.cpus_per_task)
    elseif cpus > 16 * wanted then
        slurm.log_user("%d CPUs for %d GPU are too many", cpus, wanted)
        return slurm.ERROR
    end
    return slurm.SUCCESS
end
