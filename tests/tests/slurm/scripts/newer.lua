-- Calls what newer releases have, where it is there.
-- request: --wrap true
function policy_submit(job)
    if slurm.get_qos_priority then
        slurm.log_user("%s", tostring(slurm.get_qos_priority("no_such_qos")))
    end
    if slurm.to_yaml then
        slurm.log_user("%s", slurm.to_yaml({ a = { ["b c"] = "x: y" } }))
        slurm.log_user("%s", slurm.to_yaml({}))
        slurm.log_user("%s %s", slurm.to_json("a"), slurm.to_json({}))
        slurm.log_user("%s", tostring(slurm.from_json('{"a": [1, 2.5, true]}').a[2]))
        slurm.log_user("%s", tostring(slurm.from_yaml("a: x").a))
    end
    slurm.log_user("%s %s", type(table.unpack), type(unpack))
    return slurm.SUCCESS
end
