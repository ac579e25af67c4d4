-- Reads times as Slurm writes them.
-- request: --wrap true
function policy_submit(job)
    for _, text in ipairs({
        "5", "5:30", "1:02:03", "2-0", "2-3", "2-3:4", "2-3:4:5", "0", "INFINITE", "UNLIMITED", "-1", "0:01",
        "0:59", "100000", "1-", "abc", "", "1:2:3:4",
    }) do
        slurm.log_user("%s = %.0f", text, slurm.time_str2mins(text))
    end
    return slurm.SUCCESS
end
