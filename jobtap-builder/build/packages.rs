// The folders of the packages that a manager is made of. The build script, which packs them, and the builder, which
// takes their checksum, read the same list.
&[
    "jobtap-builder",
    "jobtap-builtins",
    "jobtap-core",
    "jobtap-daemon",
    "jobtap-domain",
    "jobtap-engine",
    "jobtap-flux",
    "jobtap-laboratory",
    "jobtap-macros",
    "jobtap-pmi",
    "jobtap-sdk",
    "jobtap-slurm",
    "jobtap-topics",
    "manager-bin",
]
