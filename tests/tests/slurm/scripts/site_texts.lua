-- Uses each text of a request with the functions of strings, and each level of the log.
-- request: --wrap true
-- request: -J Weird%20name -A phys.1 -q q-1 -p debug,batch --comment=50%_of_it --wrap true
-- request (fields): -d afterok:1:2?afternotok:3 -w vm -x none[1-3] -L matlab:2,ansys --wrap true
-- request: -o out-%j.txt -e err.%A_%a -i /dev/zero -D /tmp --open-mode=append --wrap true
-- request: --gres=gpu:1 -C a&b --wckey=k*1 --signal=B:USR1@60 --wrap true
-- request (fields): --mail-user=x@y.example --mail-type=ALL --network=us --reservation=maint --wrap true
-- request: --array=1-9:2%3 --export=SITE_MARK=a.b,HOME --wrap true
local names = {
    "account", "acctg_freq", "admin_comment", "alloc_resp_port", "array_inx", "batch_features", "burst_buffer",
    "clusters", "comment", "container", "cpus_per_tres", "dependency", "exc_nodes", "extra", "features", "gres",
    "licenses", "mail_user", "mcs_label", "mem_per_tres", "name", "network", "origin_cluster", "partition", "prefer",
    "qos", "req_nodes", "reservation", "std_err", "std_in", "std_out", "tres_bind", "tres_freq", "tres_per_job",
    "tres_per_node", "tres_per_socket", "tres_per_task", "wckey", "work_dir",
}

function policy_submit(job, partitions, uid)
    for number, name in ipairs(names) do
        local value = job[name]
        slurm.log_debug4("%d %s %s", number, name, tostring(value))
        if type(value) == "string" then
            local plain, count = value:gsub("%W", "")
            slurm.log_user("%s=%q %d %d %s %s %s %s %s", name, value, #value, count, plain:upper(), value:sub(-3),
                tostring(value:find("%d")), tostring(value:match("^(%a+)[^%a]")), value:reverse():lower())
            slurm.log_user("%s %s %d", value:rep(2), tostring(value:find(".", 1, true)), value:byte(1))
            local parts = {}
            for word in value:gmatch("[%w/%%]+") do
                parts[#parts + 1] = word
            end
            slurm.log_user("%-12.6s|%12s|%s", value, parts[1] or "", table.concat(parts, "/"))
        else
            slurm.log_debug3("%s is %s", name, type(value))
            if value == "" then
                return slurm.ERROR
            end
        end
    end
    slurm.log_info("%s %d %5.1f", "info", 1, 1.25)
    slurm.log_verbose("%s %d %5.1f", "verbose", 1, 1.25)
    slurm.log_debug("%s %d %5.1f", "debug", 1, 1.25)
    slurm.log_debug2("%s %d %5.1f", "debug2", 1, 1.25)
    slurm.log_error("%s %d %5.1f", "error", 1, 1.25)
    slurm.error("plain error, 100%")
    for level = 0, 6 do
        slurm.log(level, "plain " .. level .. " 100%")
    end
    slurm.log_user("%s %s", tostring(pcall(slurm.log_info, "%d", "word")), tostring(pcall(slurm.log_user, "%d")))
    slurm.log_user("%s %s", tostring(pcall(slurm.log_info)), tostring(pcall(slurm.user_msg)))
    slurm.log_user("%i|%u|%e|%g|%o|%X|%+d|% d|%#x|%05d|%.3s|%5s|%-5s|", 7, 8, 12345.678, 0.0001, 8, 255, 5, 5, 255, 42,
        "abcdef", "ab", "ab")
    slurm.log_user("%s %s %s", tostring(job.time_limit == nil), tostring(job.nosuch == nil), tostring(job.comment == ""))
    slurm.log_user("%s", tostring(#(job.script or "")))
    job.name = ((job.name or "none"):gsub("%s+", "_"):gsub("%%(%d%d)", function(code)
        return string.char(tonumber(code, 16))
    end))
    job.partition = job.partition and job.partition:gsub("debug,?", "")
    job.comment = tostring(job.comment) .. "+"
    return slurm.SUCCESS
end
