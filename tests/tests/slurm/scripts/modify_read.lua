-- Reads what a user wants to change of a job, and accepts it.
-- modify: TimeLimit=10 => update ID duration=10m
-- modify: TimeLimit=1-00:00:00 => update ID duration=1d
-- modify: TimeLimit=UNLIMITED => update ID duration=0
-- modify: Partition=debug => update ID queue=debug
-- modify (fields): Priority=7 => job urgency ID 7
-- modify (fields): Comment=new => update ID attributes.user.comment=new
-- modify (fields): JobName=new => update ID name=new
-- modify (fields): Account=chemistry => update ID bank=chemistry
-- modify (fields): QOS=high => update ID attributes.system.qos=high
-- modify (fields): WCKey=key => update ID project=key
-- modify (fields): TimeLimit=20 Partition=debug => update ID duration=20m queue=debug
function policy_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
