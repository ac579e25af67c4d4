-- Refuses with each error that a script of Slurm 22.05 knows by name, and with some of newer releases.
-- request: -J ESLURM_ACCESS_DENIED --wrap true
-- request: -J ESLURM_ACCOUNTING_POLICY --wrap true
-- request: -J ESLURM_INVALID_ACCOUNT --wrap true
-- request: -J ESLURM_INVALID_LICENSES --wrap true
-- request: -J ESLURM_INVALID_NODE_COUNT --wrap true
-- request: -J ESLURM_INVALID_TIME_LIMIT --wrap true
-- request: -J ESLURM_JOB_MISSING_SIZE_SPECIFICATION --wrap true
-- request: -J ESLURM_MISSING_TIME_LIMIT --wrap true
-- request: -J ESLURM_INVALID_QOS --wrap true
-- request: -J ESLURM_LICENSES_UNAVAILABLE --wrap true
-- request: -J ESLURM_RES_CORES_PER_GPU_UNIQUE --wrap true
-- request: -J ESLURM_INVALID_EXTERNAL_JOB --wrap true
-- request: -J ESLURM_LUA_FUNC_FAILED --wrap true
-- request: -J ERROR --wrap true
-- request: -J SUCCESS --wrap true
function policy_submit(job)
    return slurm[job.name]
end
