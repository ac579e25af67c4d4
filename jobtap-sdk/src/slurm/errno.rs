//! Slurm's errors, by their names, with the numbers and texts of Slurm 22.05 as Debian 12 has it.
//!
//! A plugin that refuses a request returns one of them, and a user sees the text that Slurm would show.

use super::table::Versions;
use std::borrow::Cow;
use std::fmt;

/// An error of Slurm with which a request is refused.
///
/// There is a constant for each name that Slurm has: `slurm::errno::ESLURM_ACCESS_DENIED`. `Display`
/// writes the text that Slurm's commands print, and after it the author's own, if there is one.
///
/// ```
/// use jobtap_core::slurm::{SlurmError, errno};
///
/// let refused = errno::ESLURM_ACCESS_DENIED.with("GPUs need an account");
/// assert_eq!(refused.to_string(), "Access/permission denied: GPUs need an account");
/// assert_eq!(refused.code(), 2002);
/// assert_eq!(SlurmError::from_code(2002), Some(errno::ESLURM_ACCESS_DENIED));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct SlurmError {
    code: i32,
    name: &'static str,
    text: Cow<'static, str>,
    message: Option<Cow<'static, str>>,
}

impl SlurmError {
    const fn new(code: i32, name: &'static str, text: &'static str) -> Self {
        Self { code, name, text: Cow::Borrowed(text), message: None }
    }

    /// The error for a number that a script or a plugin in C returns; `None` for 0, which is success. A
    /// number that Slurm doesn't have is an error too, with an empty name and Slurm's text for it.
    pub fn from_code(code: i32) -> Option<Self> {
        if code == 0 {
            return None;
        }
        let known = ERRORS.iter().find(|error| error.code == code);
        Some(match known {
            Some(known) => Self::new(code, known.name, known.text),
            None if code < 0 => Self::new(code, "", "Unknown negative error number"),
            None => {
                Self { text: format!("Unknown error {code}").into(), ..Self::new(code, "", "") }
            }
        })
    }

    /// The error of this name; `None` if Slurm has no such error.
    pub fn from_name(name: &str) -> Option<Self> {
        let known = ERRORS.iter().find(|error| error.name == name)?;
        Some(Self::new(known.code, known.name, known.text))
    }

    /// Adds the author's own message, which the user gets with Slurm's text.
    pub fn with(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.message = Some(message.into()).filter(|message| !message.is_empty());
        self
    }

    /// The number. Never 0.
    #[must_use]
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// The name, such as `ESLURM_ACCESS_DENIED`; empty for a number that Slurm doesn't have.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Slurm's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The author's message, if there is one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl fmt::Display for SlurmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{}: {message}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for SlurmError {}

/// An error in the table of all errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownError {
    /// The name, which scripts know as `slurm.NAME`.
    pub name: &'static str,
    /// The number. Errors that Slurm 22.05 doesn't have get numbers of jobtap's own above a million, since
    /// each version of Slurm may number them anew.
    pub code: i32,
    /// The text that Slurm's commands print.
    pub text: &'static str,
    /// The versions of Slurm whose scripts know the name.
    pub scripts: Versions,
}

macro_rules! errors {
    ($($name:ident = $code:literal, $text:literal, $scripts:ident;)*) => {
        $(
            #[doc = concat!("`", $code, "`: ", $text, ".")]
            pub const $name: SlurmError = SlurmError::new($code, stringify!($name), $text);
        )*

        /// Every error of Slurm 22.05, and then those that newer versions have added.
        pub const ERRORS: &[KnownError] = &[
            $( KnownError {
                name: stringify!($name),
                code: $code,
                text: $text,
                scripts: Versions::$scripts,
            }, )*
        ];
    };
}

errors! {
    SLURM_ERROR = -1, "Unspecified error", NEWEST;
    EINPROGRESS = 115, "Operation now in progress", NEWEST;
    SLURM_UNEXPECTED_MSG_ERROR = 1000, "Unexpected message received", NEWEST;
    SLURM_COMMUNICATIONS_CONNECTION_ERROR = 1001, "Communication connection failure", NEWEST;
    SLURM_COMMUNICATIONS_SEND_ERROR = 1002, "Message send failure", NEWEST;
    SLURM_COMMUNICATIONS_RECEIVE_ERROR = 1003, "Message receive failure", NEWEST;
    SLURM_COMMUNICATIONS_SHUTDOWN_ERROR = 1004, "Communication shutdown failure", NEWEST;
    SLURM_PROTOCOL_VERSION_ERROR = 1005, "Incompatible versions of client and server code", NEWEST;
    SLURM_PROTOCOL_IO_STREAM_VERSION_ERROR = 1006, "I/O stream version number error", NEWEST;
    SLURM_PROTOCOL_AUTHENTICATION_ERROR = 1007, "Protocol authentication error", NEWEST;
    SLURM_PROTOCOL_INSANE_MSG_LENGTH = 1008, "Insane message length", NEWEST;
    SLURM_MPI_PLUGIN_NAME_INVALID = 1009, "Invalid MPI plugin name", NEWEST;
    SLURM_MPI_PLUGIN_PRELAUNCH_SETUP_FAILED = 1010, "MPI plugin's pre-launch setup failed", NEWEST;
    SLURM_PLUGIN_NAME_INVALID = 1011, "Plugin initialization failed", NEWEST;
    SLURM_UNKNOWN_FORWARD_ADDR = 1012, "Can't find an address, check slurm.conf", NEWEST;
    SLURM_COMMUNICATIONS_MISSING_SOCKET_ERROR = 1013, "Unexpected missing socket error", NEWEST;
    SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR = 1800, "Unable to contact slurm controller (connect failure)", NEWEST;
    SLURMCTLD_COMMUNICATIONS_SEND_ERROR = 1801, "Unable to contact slurm controller (send failure)", NEWEST;
    SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR = 1802, "Unable to contact slurm controller (receive failure)", NEWEST;
    SLURMCTLD_COMMUNICATIONS_SHUTDOWN_ERROR = 1803, "Unable to contact slurm controller (shutdown failure)", NEWEST;
    SLURM_NO_CHANGE_IN_DATA = 1900, "Data has not changed since time specified", NEWEST;
    ESLURM_INVALID_PARTITION_NAME = 2000, "Invalid partition name specified", NEWEST;
    ESLURM_DEFAULT_PARTITION_NOT_SET = 2001, "No partition specified or system default partition", NEWEST;
    ESLURM_ACCESS_DENIED = 2002, "Access/permission denied", BOTH;
    ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP = 2003, "User's group not permitted to use this partition", NEWEST;
    ESLURM_REQUESTED_NODES_NOT_IN_PARTITION = 2004, "Requested nodes not in this partition", NEWEST;
    ESLURM_TOO_MANY_REQUESTED_CPUS = 2005, "More processors requested than permitted", NEWEST;
    ESLURM_INVALID_NODE_COUNT = 2006, "Node count specification invalid", BOTH;
    ESLURM_ERROR_ON_DESC_TO_RECORD_COPY = 2007, "Unable to create job record, try again", NONE;
    ESLURM_JOB_MISSING_SIZE_SPECIFICATION = 2008, "Job size specification needs to be provided", BOTH;
    ESLURM_JOB_SCRIPT_MISSING = 2009, "Job script not specified", NEWEST;
    ESLURM_USER_ID_MISSING = 2010, "Invalid user id", NEWEST;
    ESLURM_DUPLICATE_JOB_ID = 2011, "Duplicate job id", NEWEST;
    ESLURM_PATHNAME_TOO_LONG = 2012, "Pathname of a file, directory or other parameter too long", NEWEST;
    ESLURM_NOT_TOP_PRIORITY = 2013, "Immediate execution impossible, insufficient priority", NEWEST;
    ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE = 2014, "Requested node configuration is not available", NEWEST;
    ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE = 2015, "Requested partition configuration not available now", NEWEST;
    ESLURM_NODES_BUSY = 2016, "Requested nodes are busy", NEWEST;
    ESLURM_INVALID_JOB_ID = 2017, "Invalid job id specified", NEWEST;
    ESLURM_INVALID_NODE_NAME = 2018, "Invalid node name specified", NEWEST;
    ESLURM_WRITING_TO_FILE = 2019, "I/O error writing script/environment to file", NEWEST;
    ESLURM_TRANSITION_STATE_NO_UPDATE = 2020, "Job can not be altered now, try again later", NEWEST;
    ESLURM_ALREADY_DONE = 2021, "Job/step already completing or completed", NEWEST;
    ESLURM_INTERCONNECT_FAILURE = 2022, "Error configuring interconnect", NEWEST;
    ESLURM_BAD_DIST = 2023, "Task distribution specification invalid", NEWEST;
    ESLURM_JOB_PENDING = 2024, "Job is pending execution", NEWEST;
    ESLURM_BAD_TASK_COUNT = 2025, "Task count specification invalid", NEWEST;
    ESLURM_INVALID_JOB_CREDENTIAL = 2026, "Error generating job credential", NEWEST;
    ESLURM_IN_STANDBY_MODE = 2027, "Slurm backup controller in standby mode", NEWEST;
    ESLURM_INVALID_NODE_STATE = 2028, "Invalid node state specified", NEWEST;
    ESLURM_INVALID_FEATURE = 2029, "Invalid feature specification", NEWEST;
    ESLURM_INVALID_AUTHTYPE_CHANGE = 2030, "AuthType change requires restart of all Slurm daemons and commands to take effect", NEWEST;
    ESLURM_ACTIVE_FEATURE_NOT_SUBSET = 2031, "Active features not subset of available features", NEWEST;
    ESLURM_INVALID_SCHEDTYPE_CHANGE = 2032, "SchedulerType change requires restart of the slurmctld daemon to take effect", NEWEST;
    ESLURM_INVALID_SELECTTYPE_CHANGE = 2033, "SelectType change requires restart of the slurmctld daemon to take effect", NEWEST;
    ESLURM_INVALID_SWITCHTYPE_CHANGE = 2034, "SwitchType change requires restart of all Slurm daemons and jobs to take effect", NEWEST;
    ESLURM_FRAGMENTATION = 2035, "Immediate execution impossible, resources too fragmented for allocation", NEWEST;
    ESLURM_NOT_SUPPORTED = 2036, "Requested operation not supported on this system", NEWEST;
    ESLURM_DISABLED = 2037, "Requested operation is presently disabled", NEWEST;
    ESLURM_DEPENDENCY = 2038, "Job dependency problem", NEWEST;
    ESLURM_BATCH_ONLY = 2039, "Only batch jobs are accepted or processed", NEWEST;
    ESLURM_TASKDIST_ARBITRARY_UNSUPPORTED = 2040, "Current SwitchType does not permit arbitrary task distribution", NONE;
    ESLURM_TASKDIST_REQUIRES_OVERCOMMIT = 2041, "Requested more tasks than available processors", NONE;
    ESLURM_JOB_HELD = 2042, "Job is in held state, pending scheduler release", NEWEST;
    ESLURM_INVALID_CRED_TYPE_CHANGE = 2043, "CredType change requires restart of all Slurm daemons to take effect", NEWEST;
    ESLURM_INVALID_TASK_MEMORY = 2044, "Memory required by task is not available", NEWEST;
    ESLURM_INVALID_ACCOUNT = 2045, "Invalid account or account/partition combination specified", BOTH;
    ESLURM_INVALID_PARENT_ACCOUNT = 2046, "Invalid parent account specified", NEWEST;
    ESLURM_SAME_PARENT_ACCOUNT = 2047, "Account already child of parent account specified", NEWEST;
    ESLURM_INVALID_LICENSES = 2048, "Invalid license specification", BOTH;
    ESLURM_NEED_RESTART = 2049, "The node configuration changes that were made require restart of the slurmctld daemon to take effect", NEWEST;
    ESLURM_ACCOUNTING_POLICY = 2050, "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", BOTH;
    ESLURM_INVALID_TIME_LIMIT = 2051, "Requested time limit is invalid (missing or exceeds some limit)", BOTH;
    ESLURM_RESERVATION_ACCESS = 2052, "Access denied to requested reservation", NEWEST;
    ESLURM_RESERVATION_INVALID = 2053, "Requested reservation is invalid", NEWEST;
    ESLURM_INVALID_TIME_VALUE = 2054, "Invalid time specified", NEWEST;
    ESLURM_RESERVATION_BUSY = 2055, "Requested reservation is in use", NEWEST;
    ESLURM_RESERVATION_NOT_USABLE = 2056, "Requested reservation not usable now", NEWEST;
    ESLURM_INVALID_WCKEY = 2057, "Invalid wckey specification", NEWEST;
    ESLURM_RESERVATION_OVERLAP = 2058, "Requested reservation overlaps with another reservation", NEWEST;
    ESLURM_PORTS_BUSY = 2059, "Required ports are in use", NEWEST;
    ESLURM_PORTS_INVALID = 2060, "Requires more ports than can be reserved", NEWEST;
    ESLURM_PROLOG_RUNNING = 2061, "PrologSlurmctld is still running", NEWEST;
    ESLURM_NO_STEPS = 2062, "Job steps can not be run on this cluster", NEWEST;
    ESLURM_INVALID_BLOCK_STATE = 2063, "Invalid block state specified", NONE;
    ESLURM_INVALID_BLOCK_LAYOUT = 2064, "Functionality not available with current block layout mode", NONE;
    ESLURM_INVALID_BLOCK_NAME = 2065, "Invalid block name specified", NONE;
    ESLURM_INVALID_QOS = 2066, "Invalid qos specification", NEWEST;
    ESLURM_QOS_PREEMPTION_LOOP = 2067, "QOS Preemption loop detected", NEWEST;
    ESLURM_NODE_NOT_AVAIL = 2068, "Required node not available (down, drained or reserved)", NEWEST;
    ESLURM_INVALID_CPU_COUNT = 2069, "CPU count specification invalid", NEWEST;
    ESLURM_PARTITION_NOT_AVAIL = 2070, "Required partition not available (inactive or drain)", NEWEST;
    ESLURM_CIRCULAR_DEPENDENCY = 2071, "Circular job dependency", NEWEST;
    ESLURM_INVALID_GRES = 2072, "Invalid generic resource (gres) specification", NEWEST;
    ESLURM_JOB_NOT_PENDING = 2073, "Job is no longer pending execution", NEWEST;
    ESLURM_QOS_THRES = 2074, "Requested account has breached requested QOS usage threshold", NEWEST;
    ESLURM_PARTITION_IN_USE = 2075, "Partition is in use", NEWEST;
    ESLURM_STEP_LIMIT = 2076, "Step limit reached for this job", NEWEST;
    ESLURM_JOB_SUSPENDED = 2077, "Job is current suspended, requested operation disabled", NEWEST;
    ESLURM_CAN_NOT_START_IMMEDIATELY = 2078, "Job can not start immediately", NEWEST;
    ESLURM_INTERCONNECT_BUSY = 2079, "Switch resources currently not available", NONE;
    ESLURM_RESERVATION_EMPTY = 2080, "Reservation request lacks users, groups or accounts", NEWEST;
    ESLURM_INVALID_ARRAY = 2081, "Invalid job array specification", NEWEST;
    ESLURM_RESERVATION_NAME_DUP = 2082, "Duplicate reservation name", NEWEST;
    ESLURM_JOB_STARTED = 2083, "Job has already started", NEWEST;
    ESLURM_JOB_FINISHED = 2084, "Job has already finished", NEWEST;
    ESLURM_JOB_NOT_RUNNING = 2085, "Job is not running", NEWEST;
    ESLURM_JOB_NOT_PENDING_NOR_RUNNING = 2086, "Job is not pending nor running", NEWEST;
    ESLURM_JOB_NOT_SUSPENDED = 2087, "Job is not suspended", NEWEST;
    ESLURM_JOB_NOT_FINISHED = 2088, "Job is not finished", NEWEST;
    ESLURM_TRIGGER_DUP = 2089, "Duplicate event trigger", NEWEST;
    ESLURM_INTERNAL = 2090, "Slurm internal error, contact system administrator", NEWEST;
    ESLURM_INVALID_BURST_BUFFER_CHANGE = 2091, "BurstBufferType change requires restart of slurmctld daemon to take effect", NEWEST;
    ESLURM_BURST_BUFFER_PERMISSION = 2092, "Burst Buffer permission denied", NEWEST;
    ESLURM_BURST_BUFFER_LIMIT = 2093, "Burst Buffer resource limit exceeded", NEWEST;
    ESLURM_INVALID_BURST_BUFFER_REQUEST = 2094, "Burst Buffer request invalid", NEWEST;
    ESLURM_PRIO_RESET_FAIL = 2095, "Changes to job priority are not persistent, change nice instead", NEWEST;
    ESLURM_CANNOT_MODIFY_CRON_JOB = 2096, "Cannot modify scrontab jobs through scontrol", NEWEST;
    ESLURM_INVALID_MCS_LABEL = 2099, "Invalid mcs_label specified", NEWEST;
    ESLURM_BURST_BUFFER_WAIT = 2100, "Waiting for burst buffer", NEWEST;
    ESLURM_PARTITION_DOWN = 2101, "Partition in DOWN state", NEWEST;
    ESLURM_DUPLICATE_GRES = 2102, "Duplicate generic resource (gres) specification", NEWEST;
    ESLURM_JOB_SETTING_DB_INX = 2103, "Job update not available right now, the DB index is being set, try again in a bit", NONE;
    ESLURM_RSV_ALREADY_STARTED = 2104, "Reservation already started", NEWEST;
    ESLURM_SUBMISSIONS_DISABLED = 2105, "System submissions disabled", NEWEST;
    ESLURM_NOT_HET_JOB = 2106, "Job not heterogeneous job", NEWEST;
    ESLURM_NOT_HET_JOB_LEADER = 2107, "Job not heterogeneous job leader", NEWEST;
    ESLURM_NOT_WHOLE_HET_JOB = 2108, "Operation not permitted on individual component of heterogeneous job", NEWEST;
    ESLURM_CORE_RESERVATION_UPDATE = 2109, "Core-based reservation can not be updated", NEWEST;
    ESLURM_DUPLICATE_STEP_ID = 2110, "Duplicate job step id", NEWEST;
    ESLURM_INVALID_CORE_CNT = 2111, "Core count for reservation node list is not consistent!", NEWEST;
    ESLURM_X11_NOT_AVAIL = 2112, "X11 forwarding not available", NEWEST;
    ESLURM_GROUP_ID_MISSING = 2113, "Invalid group id", NEWEST;
    ESLURM_BATCH_CONSTRAINT = 2114, "Job --batch option is invalid or not a subset of --constraints", NEWEST;
    ESLURM_INVALID_TRES = 2115, "Invalid Trackable RESource (TRES) specification", NEWEST;
    ESLURM_INVALID_TRES_BILLING_WEIGHTS = 2116, "Invalid TRESBillingWeights specification", NEWEST;
    ESLURM_INVALID_JOB_DEFAULTS = 2117, "Invalid JobDefaults specification", NEWEST;
    ESLURM_RESERVATION_MAINT = 2118, "Job can not start due to maintenance reservation.", NEWEST;
    ESLURM_INVALID_GRES_TYPE = 2119, "Invalid GRES specification (with and without type identification)", NEWEST;
    ESLURM_REBOOT_IN_PROGRESS = 2120, "Reboot already in progress", NEWEST;
    ESLURM_MULTI_KNL_CONSTRAINT = 2121, "Multiple KNL NUMA and/or MCDRAM constraints require use of a heterogeneous job", NEWEST;
    ESLURM_UNSUPPORTED_GRES = 2122, "Requested GRES option unsupported by configured SelectType plugin", NEWEST;
    ESLURM_INVALID_NICE = 2123, "Invalid --nice value", NEWEST;
    ESLURM_INVALID_TIME_MIN_LIMIT = 2124, "Invalid time-min specification (exceeds job's time or other limits)", NEWEST;
    ESLURM_DEFER = 2125, "Immediate execution impossible. Individual job submission scheduling attempts deferred", NEWEST;
    ESLURM_CONFIGLESS_DISABLED = 2126, "ConfigLess mode is disabled in slurm configuration.", NEWEST;
    ESLURM_ENVIRONMENT_MISSING = 2127, "Environment is missing in job", NEWEST;
    ESLURM_RESERVATION_NO_SKIP = 2128, "Reservation given is not skipable, try deleting instead", NEWEST;
    ESLURM_RESERVATION_USER_GROUP = 2129, "Reservations can't have users and groups specified, only one or the other", NEWEST;
    ESLURM_PARTITION_ASSOC = 2130, "Multiple partition job request not supported when a partition is set in the association", NEWEST;
    ESLURM_IN_STANDBY_USE_BACKUP = 2131, "Controller is in standby mode, try a different controller", NEWEST;
    ESLURM_BAD_THREAD_PER_CORE = 2132, "Cannot request more threads per core than the job allocation", NEWEST;
    ESLURM_INVALID_PREFER = 2133, "Invalid preferred feature specification", NEWEST;
    ESLURM_INSUFFICIENT_GRES = 2134, "Insufficient GRES available in allocation", NEWEST;
    ESPANK_ERROR = 3000, "Generic error", NEWEST;
    ESPANK_BAD_ARG = 3001, "Bad argument", NEWEST;
    ESPANK_NOT_TASK = 3002, "Not in task context", NEWEST;
    ESPANK_ENV_EXISTS = 3003, "Environment variable exists", NEWEST;
    ESPANK_ENV_NOEXIST = 3004, "No such environment variable", NEWEST;
    ESPANK_NOSPACE = 3005, "Buffer too small", NEWEST;
    ESPANK_NOT_REMOTE = 3006, "Valid only in remote context", NEWEST;
    ESPANK_NOEXIST = 3007, "Id/PID does not exist on this node", NEWEST;
    ESPANK_NOT_EXECD = 3008, "Lookup by PID requested, but no tasks running", NEWEST;
    ESPANK_NOT_AVAIL = 3009, "Item not available from this callback", NEWEST;
    ESPANK_NOT_LOCAL = 3010, "Valid only in local or allocator context", NEWEST;
    ESLURMD_PIPE_ERROR_ON_TASK_SPAWN = 4000, "Pipe error on task spawn", NONE;
    ESLURMD_KILL_TASK_FAILED = 4001, "Kill task failed", NEWEST;
    ESLURMD_KILL_JOB_ALREADY_COMPLETE = 4002, "Unknown error 4002", NONE;
    ESLURMD_INVALID_ACCT_FREQ = 4003, "Invalid accounting frequency requested", NEWEST;
    ESLURMD_INVALID_JOB_CREDENTIAL = 4004, "Invalid job credential", NEWEST;
    ESLURMD_UID_NOT_FOUND = 4005, "User not found on host", NONE;
    ESLURMD_GID_NOT_FOUND = 4006, "Group ID not found on host", NONE;
    ESLURMD_CREDENTIAL_EXPIRED = 4007, "Job credential expired", NEWEST;
    ESLURMD_CREDENTIAL_REVOKED = 4008, "Job credential revoked", NEWEST;
    ESLURMD_CREDENTIAL_REPLAYED = 4009, "Job credential replayed", NEWEST;
    ESLURMD_CREATE_BATCH_DIR_ERROR = 4010, "Slurmd could not create a batch directory or file", NEWEST;
    ESLURMD_MODIFY_BATCH_DIR_ERROR = 4011, "Slurmd could not chown or chmod a batch directory", NONE;
    ESLURMD_CREATE_BATCH_SCRIPT_ERROR = 4012, "Slurmd could not create a batch script", NONE;
    ESLURMD_MODIFY_BATCH_SCRIPT_ERROR = 4013, "Slurmd could not chown or chmod a batch script", NONE;
    ESLURMD_SETUP_ENVIRONMENT_ERROR = 4014, "Slurmd could not set up environment for batch job", NEWEST;
    ESLURMD_SHARED_MEMORY_ERROR = 4015, "Slurmd shared memory error", NONE;
    ESLURMD_SET_UID_OR_GID_ERROR = 4016, "Slurmd could not set UID or GID", NEWEST;
    ESLURMD_SET_SID_ERROR = 4017, "Slurmd could not set session ID", NONE;
    ESLURMD_CANNOT_SPAWN_IO_THREAD = 4018, "Slurmd could not spawn I/O thread", NONE;
    ESLURMD_FORK_FAILED = 4019, "Slurmd could not fork job", NONE;
    ESLURMD_EXECVE_FAILED = 4020, "Slurmd could not execve job", NEWEST;
    ESLURMD_IO_ERROR = 4021, "Slurmd could not connect IO", NEWEST;
    ESLURMD_PROLOG_FAILED = 4022, "Job prolog failed", NEWEST;
    ESLURMD_EPILOG_FAILED = 4023, "Job epilog failed", NEWEST;
    ESLURMD_SESSION_KILLED = 4024, "Session manager killed", NONE;
    ESLURMD_TOOMANYSTEPS = 4025, "Too many job steps on node", NEWEST;
    ESLURMD_STEP_EXISTS = 4026, "Job step already exists", NEWEST;
    ESLURMD_JOB_NOTRUNNING = 4027, "Job step not running", NONE;
    ESLURMD_STEP_SUSPENDED = 4028, "Job step is suspended", NEWEST;
    ESLURMD_STEP_NOTSUSPENDED = 4029, "Job step is not currently suspended", NEWEST;
    ESLURMD_INVALID_SOCKET_NAME_LEN = 4030, "Unix socket name exceeded maximum length", NEWEST;
    ESLURMD_CONTAINER_RUNTIME_INVALID = 4031, "Container runtime not configured or invalid", NEWEST;
    ESLURMD_CPU_BIND_ERROR = 4032, "Unable to satisfy cpu bind request", NEWEST;
    ESLURMD_CPU_LAYOUT_ERROR = 4033, "Unable to layout tasks on given cpus", NEWEST;
    SLURM_PROTOCOL_SOCKET_IMPL_ZERO_RECV_LENGTH = 5000, "Received zero length message", NONE;
    SLURM_PROTOCOL_SOCKET_IMPL_NEGATIVE_RECV_LENGTH = 5001, "Received message length < 0", NONE;
    SLURM_PROTOCOL_SOCKET_IMPL_NOT_ALL_DATA_SENT = 5002, "Failed to send entire message", NONE;
    ESLURM_PROTOCOL_INCOMPLETE_PACKET = 5003, "Header lengths are longer than data received", NEWEST;
    SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT = 5004, "Socket timed out on send/recv operation", NEWEST;
    SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT = 5005, "Zero Bytes were transmitted or received", NEWEST;
    ESLURM_AUTH_CRED_INVALID = 6000, "Invalid authentication credential", NEWEST;
    ESLURM_AUTH_FOPEN_ERROR = 6001, "Failed to open authentication public key", NONE;
    ESLURM_AUTH_NET_ERROR = 6002, "Failed to connect to authentication agent", NONE;
    ESLURM_AUTH_UNABLE_TO_SIGN = 6003, "Unknown error 6003", NONE;
    ESLURM_AUTH_BADARG = 6004, "Bad argument to plugin function", NEWEST;
    ESLURM_AUTH_MEMORY = 6005, "Memory management error", NONE;
    ESLURM_AUTH_INVALID = 6006, "Authentication credential invalid", NONE;
    ESLURM_AUTH_UNPACK = 6007, "Cannot unpack credential", NEWEST;
    ESLURM_AUTH_SKIP = 6008, "Authentication does not apply to request", NEWEST;
    ESLURM_DB_CONNECTION = 7000, "Unable to connect to database", NEWEST;
    ESLURM_JOBS_RUNNING_ON_ASSOC = 7001, "Job(s) active, cancel job(s) before remove", NEWEST;
    ESLURM_CLUSTER_DELETED = 7002, "Cluster deleted, commit/rollback immediately", NEWEST;
    ESLURM_ONE_CHANGE = 7003, "Can only change one at a time", NEWEST;
    ESLURM_BAD_NAME = 7004, "Unacceptable name given. (No '.' in name allowed)", NEWEST;
    ESLURM_OVER_ALLOCATE = 7005, "You can not allocate more than 100% of a resource", NEWEST;
    ESLURM_RESULT_TOO_LARGE = 7006, "Query result exceeds size limit", NEWEST;
    ESLURM_DB_QUERY_TOO_WIDE = 7007, "Too wide of a date range in query", NEWEST;
    ESLURM_DB_CONNECTION_INVALID = 7008, "Database connection reference is invalid", NEWEST;
    ESLURM_NO_REMOVE_DEFAULT_ACCOUNT = 7009, "You can not remove the default account of a user", NEWEST;
    ESLURM_FED_CLUSTER_MAX_CNT = 7100, "Too many clusters in federation", NEWEST;
    ESLURM_FED_CLUSTER_MULTIPLE_ASSIGNMENT = 7101, "Clusters can only be assigned to one federation", NEWEST;
    ESLURM_INVALID_CLUSTER_FEATURE = 7102, "Invalid cluster feature specification", NEWEST;
    ESLURM_JOB_NOT_FEDERATED = 7103, "Not a valid federated job", NEWEST;
    ESLURM_INVALID_CLUSTER_NAME = 7104, "Invalid cluster name", NEWEST;
    ESLURM_FED_JOB_LOCK = 7105, "Job locked by another sibling", NEWEST;
    ESLURM_FED_NO_VALID_CLUSTERS = 7106, "No eligible clusters for federated job", NEWEST;
    ESLURM_MISSING_TIME_LIMIT = 8000, "Time limit specification required, but not provided", BOTH;
    ESLURM_INVALID_KNL = 8001, "Invalid KNL configuration (MCDRAM or NUMA option)", NONE;
    ESLURM_PLUGIN_INVALID = 8002, "Plugin has invalid format or unable to be loaded", NEWEST;
    ESLURM_PLUGIN_INCOMPLETE = 8003, "Plugin missing required symbol or function", NEWEST;
    ESLURM_REST_INVALID_QUERY = 9000, "Query empty or not RFC7320 compliant", NEWEST;
    ESLURM_REST_FAIL_PARSING = 9001, "Failure during parsing", NEWEST;
    ESLURM_REST_INVALID_JOBS_DESC = 9002, "Jobs description entry not found, empty or not dictionary or list", NEWEST;
    ESLURM_REST_EMPTY_RESULT = 9003, "Nothing found with query", NEWEST;
    ESLURM_DATA_PATH_NOT_FOUND = 9200, "Unable to resolve path", NEWEST;
    ESLURM_DATA_PTR_NULL = 9201, "Data pointer is NULL", NEWEST;
    ESLURM_DATA_CONV_FAILED = 9202, "Unable to convert Data type", NEWEST;
    ESLURM_DATA_REGEX_COMPILE = 9203, "Unable to compile regex", NEWEST;
    ESLURM_DATA_UNKNOWN_MIME_TYPE = 9204, "MIME type is unknown to any loaded plugins", NEWEST;
    ESLURM_DATA_TOO_LARGE = 9205, "DATA too large to handle", NEWEST;
    ESLURM_CONTAINER_NOT_CONFIGURED = 10000, "Container support is not configured", NEWEST;

    // Not in 22.05.
    SLURM_COMMUNICATIONS_INVALID_INCOMING_FD = 1000001, "Communications invalid incoming file descriptor", NEWEST;
    SLURM_COMMUNICATIONS_INVALID_OUTGOING_FD = 1000002, "Communications invalid outgoing file descriptor", NEWEST;
    SLURM_COMMUNICATIONS_INVALID_FD = 1000003, "Communications invalid file descriptor", NEWEST;
    SLURM_BLOCKED_ON_READ = 1000004, "Blocked on read", NEWEST;
    SLURM_BLOCKED_ON_WRITE = 1000005, "Blocked on write", NEWEST;
    SLURM_COMMUNICATIONS_REJECTED = 1000006, "Communications rejected", NEWEST;
    SLURM_COMMUNICATIONS_QUIESCE_TIMEOUT = 1000007, "Communications quiesce timeout", NEWEST;
    SLURM_COMMUNICATIONS_CONNECT_TIMEOUT = 1000008, "Communications connect timeout", NEWEST;
    SLURM_COMMUNICATIONS_WRITE_TIMEOUT = 1000009, "Communications write timeout", NEWEST;
    SLURM_COMMUNICATIONS_READ_TIMEOUT = 1000010, "Communications read timeout", NEWEST;
    SLURM_COMMUNICATIONS_DELAYED_ERROR = 1000011, "Communications delayed error", NEWEST;
    SLURM_SHUTTING_DOWN = 1000012, "Shutting down", NEWEST;
    SLURMCTLD_COMMUNICATIONS_BACKOFF = 1000013, "Communications backoff", NEWEST;
    SLURMCTLD_COMMUNICATIONS_HARD_DROP = 1000014, "Communications hard drop", NEWEST;
    ESLURM_MAX_JOB_COUNT = 1000015, "Max job count", NEWEST;
    ESLURM_EXTERN_ONLY = 1000016, "Extern only", NEWEST;
    ESLURM_LICENSES_UNAVAILABLE = 1000017, "Licenses unavailable", NEWEST;
    ESLURM_TAKEOVER_NO_HEARTBEAT = 1000018, "Takeover no heartbeat", NEWEST;
    ESLURM_MISSING_WORK_DIR = 1000019, "Missing work dir", NEWEST;
    ESLURM_STEPS_DRAINED = 1000020, "Steps drained", NEWEST;
    ESLURM_INVALID_NAMESPACE_CHANGE = 1000021, "Invalid namespace change", NEWEST;
    ESLURM_CANNOT_CANCEL_CRON_JOB = 1000022, "Cannot cancel cron job", NEWEST;
    ESLURM_INVALID_CONTAINER_ID = 1000023, "Invalid container id", NEWEST;
    ESLURM_EMPTY_JOB_ID = 1000024, "Empty job id", NEWEST;
    ESLURM_INVALID_JOB_ID_ZERO = 1000025, "Invalid job id zero", NEWEST;
    ESLURM_INVALID_JOB_ID_NEGATIVE = 1000026, "Invalid job id negative", NEWEST;
    ESLURM_INVALID_JOB_ID_TOO_LARGE = 1000027, "Invalid job id too large", NEWEST;
    ESLURM_INVALID_JOB_ID_NON_NUMERIC = 1000028, "Invalid job id non numeric", NEWEST;
    ESLURM_EMPTY_JOB_ARRAY_ID = 1000029, "Empty job array id", NEWEST;
    ESLURM_INVALID_JOB_ARRAY_ID_NEGATIVE = 1000030, "Invalid job array id negative", NEWEST;
    ESLURM_INVALID_JOB_ARRAY_ID_TOO_LARGE = 1000031, "Invalid job array id too large", NEWEST;
    ESLURM_INVALID_JOB_ARRAY_ID_NON_NUMERIC = 1000032, "Invalid job array id non numeric", NEWEST;
    ESLURM_EMPTY_HET_JOB_COMP = 1000033, "Empty heterogeneous job component", NEWEST;
    ESLURM_INVALID_HET_JOB_COMP_NEGATIVE = 1000034, "Invalid heterogeneous job component negative", NEWEST;
    ESLURM_INVALID_HET_JOB_COMP_TOO_LARGE = 1000035, "Invalid heterogeneous job component too large", NEWEST;
    ESLURM_EMPTY_STEP_ID = 1000036, "Empty step id", NEWEST;
    ESLURM_INVALID_STEP_ID_NEGATIVE = 1000037, "Invalid step id negative", NEWEST;
    ESLURM_INVALID_STEP_ID_TOO_LARGE = 1000038, "Invalid step id too large", NEWEST;
    ESLURM_INVALID_STEP_ID_NON_NUMERIC = 1000039, "Invalid step id non numeric", NEWEST;
    ESLURM_EMPTY_HET_STEP = 1000040, "Empty heterogeneous step", NEWEST;
    ESLURM_INVALID_HET_STEP_ZERO = 1000041, "Invalid heterogeneous step zero", NEWEST;
    ESLURM_INVALID_HET_STEP_NEGATIVE = 1000042, "Invalid heterogeneous step negative", NEWEST;
    ESLURM_INVALID_HET_STEP_TOO_LARGE = 1000043, "Invalid heterogeneous step too large", NEWEST;
    ESLURM_INVALID_HET_STEP_NON_NUMERIC = 1000044, "Invalid heterogeneous step non numeric", NEWEST;
    ESLURM_INVALID_HET_STEP_JOB = 1000045, "Invalid heterogeneous step job", NEWEST;
    ESLURM_JOB_TIMEOUT_KILLED = 1000046, "Job timeout killed", NEWEST;
    ESLURM_JOB_NODE_FAIL_KILLED = 1000047, "Job node failure killed", NEWEST;
    ESLURM_EMPTY_LIST = 1000048, "Empty list", NEWEST;
    ESLURM_GROUP_ID_INVALID = 1000049, "Group id invalid", NEWEST;
    ESLURM_GROUP_ID_UNKNOWN = 1000050, "Group id unknown", NEWEST;
    ESLURM_USER_ID_INVALID = 1000051, "User id invalid", NEWEST;
    ESLURM_USER_ID_UNKNOWN = 1000052, "User id unknown", NEWEST;
    ESLURM_INVALID_ASSOC = 1000053, "Invalid assoc", NEWEST;
    ESLURM_NODE_ALREADY_EXISTS = 1000054, "Node already exists", NEWEST;
    ESLURM_NODE_TABLE_FULL = 1000055, "Node table full", NEWEST;
    ESLURM_INVALID_RELATIVE_QOS = 1000056, "Invalid relative QOS", NEWEST;
    ESLURM_INVALID_EXTRA = 1000057, "Invalid extra", NEWEST;
    ESLURM_JOB_SIGNAL_FAILED = 1000058, "Job signal failed", NEWEST;
    ESLURM_SIGNAL_JOBS_INVALID = 1000059, "Signal jobs invalid", NEWEST;
    ESLURM_RES_CORES_PER_GPU_UNIQUE = 1000060, "Res cores per GPU unique", NEWEST;
    ESLURM_RES_CORES_PER_GPU_TOPO = 1000061, "Res cores per GPU topology", NEWEST;
    ESLURM_RES_CORES_PER_GPU_NO = 1000062, "Res cores per GPU no", NEWEST;
    ESLURM_MAX_POWERED_NODES = 1000063, "Max powered nodes", NEWEST;
    ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE = 1000064, "Requested topology config unavailable", NEWEST;
    ESLURM_PREEMPTION_REQUIRED = 1000065, "Preemption required", NEWEST;
    ESLURM_INVALID_NODE_STATE_TRANSITION = 1000066, "Invalid node state transition", NEWEST;
    ESLURM_INVALID_JOB_STATE = 1000067, "Invalid job state", NEWEST;
    ESLURM_INVALID_SLUID = 1000068, "Invalid SLUID", NEWEST;
    ESLURM_INVALID_POWER_ACTION = 1000069, "Invalid power action", NEWEST;
    ESLURM_STEP_QUEUED = 1000070, "Step queued", NEWEST;
    ESLURM_INVALID_EXTERNAL_JOB = 1000071, "Invalid external job", NEWEST;
    ESLURM_FILE_UNREADABLE = 1000072, "File unreadable", NEWEST;
    ESLURM_TOPO_REQ_NODES_NOT_AVAIL = 1000073, "Topology request nodes not avail", NEWEST;
    ESLURM_TOPO_REQ_NODES_NO_MATCH_TOPO = 1000074, "Topology request nodes no match topology", NEWEST;
    ESLURM_TOPO_NO_FIT = 1000075, "Topology no fit", NEWEST;
    ESLURM_TOPO_SEGMENT_NO_FIT = 1000076, "Topology segment no fit", NEWEST;
    ESLURM_TOPO_INSUFFICIENT_RESOURCES = 1000077, "Topology insufficient resources", NEWEST;
    ESLURM_TOPO_WEIGHT_NO_FIT = 1000078, "Topology weight no fit", NEWEST;
    ESLURM_TOPO_MAX_NODE_LIMIT = 1000079, "Topology max node limit", NEWEST;
    ESLURM_TOPO_EMPTY_NODE_MAP = 1000080, "Topology empty node map", NEWEST;
    ESPANK_NODE_FAILURE = 1000081, "SPANK node failure", NEWEST;
    ESPANK_JOB_FAILURE = 1000082, "SPANK job failure", NEWEST;
    ESLURMD_STEP_NOTRUNNING = 1000083, "Step notrunning", NEWEST;
    ESLURMD_STEPD_PROXY_FAILED = 1000084, "Stepd proxy failed", NEWEST;
    ESLURM_AUTH_EXPIRED = 1000085, "Authentication expired", NEWEST;
    ESLURM_AUTH_UNABLE_TO_GENERATE_TOKEN = 1000086, "Authentication unable to generate token", NEWEST;
    ESLURM_AUTH_NOBODY = 1000087, "Authentication nobody", NEWEST;
    ESLURM_AUTH_SOCKET_INVALID_PEER = 1000088, "Authentication socket invalid peer", NEWEST;
    ESLURM_BAD_SQL = 1000089, "Bad SQL", NEWEST;
    ESLURM_NO_REMOVE_DEFAULT_QOS = 1000090, "No remove default QOS", NEWEST;
    ESLURM_COORD_NO_INCREASE_JOB_LIMIT = 1000091, "Coord no increase job limit", NEWEST;
    ESLURM_NO_RPC_STATS = 1000092, "No RPC stats", NEWEST;
    ESLURM_INVALID_SHARED_POOL_ALLOWED = 1000093, "Invalid shared pool allowed", NEWEST;
    ESLURM_LUA_INVALID_STATE = 1000094, "Lua invalid state", NEWEST;
    ESLURM_LUA_INVALID_SYNTAX = 1000095, "Lua invalid syntax", NEWEST;
    ESLURM_LUA_FUNC_NOT_FOUND = 1000096, "Lua func not found", NEWEST;
    ESLURM_LUA_FUNC_INVALID_RC = 1000097, "Lua func invalid return code", NEWEST;
    ESLURM_LUA_FUNC_FAILED = 1000098, "Lua func failed", NEWEST;
    ESLURM_LUA_FUNC_FAILED_RUNTIME_ERROR = 1000099, "Lua func failed runtime error", NEWEST;
    ESLURM_LUA_FUNC_FAILED_ENOMEM = 1000100, "Lua func failed out of memory", NEWEST;
    ESLURM_LUA_FUNC_FAILED_GARBAGE_COLLECTOR = 1000101, "Lua func failed garbage collector", NEWEST;
    ESLURM_LUA_INVALID_CONVERSION_TYPE = 1000102, "Lua invalid conversion type", NEWEST;
    ESLURM_PLUGIN_NOT_LOADED = 1000103, "Plugin not loaded", NEWEST;
    ESLURM_PLUGIN_NOTFOUND = 1000104, "Plugin notfound", NEWEST;
    ESLURM_PLUGIN_ACCESS_ERROR = 1000105, "Plugin access error", NEWEST;
    ESLURM_PLUGIN_DLOPEN_FAILED = 1000106, "Plugin dlopen failed", NEWEST;
    ESLURM_PLUGIN_INIT_FAILED = 1000107, "Plugin init failed", NEWEST;
    ESLURM_PLUGIN_MISSING_NAME = 1000108, "Plugin missing name", NEWEST;
    ESLURM_PLUGIN_BAD_VERSION = 1000109, "Plugin bad version", NEWEST;
    ESLURM_REST_MISSING_UID = 1000110, "REST missing UID", NEWEST;
    ESLURM_REST_MISSING_GID = 1000111, "REST missing GID", NEWEST;
    ESLURM_REST_UNKNOWN_URL_METHOD = 1000112, "REST unknown URL method", NEWEST;
    ESLURM_REST_AUTH_FAIL = 1000113, "REST authentication failure", NEWEST;
    ESLURM_REST_BAD_REQUEST = 1000114, "REST bad request", NEWEST;
    ESLURM_DATA_FLAGS_INVALID_TYPE = 1000115, "Data flags invalid type", NEWEST;
    ESLURM_DATA_FLAGS_INVALID = 1000116, "Data flags invalid", NEWEST;
    ESLURM_DATA_EXPECTED_LIST = 1000117, "Data expected list", NEWEST;
    ESLURM_DATA_EXPECTED_DICT = 1000118, "Data expected dict", NEWEST;
    ESLURM_DATA_AMBIGUOUS_MODIFY = 1000119, "Data ambiguous modify", NEWEST;
    ESLURM_DATA_AMBIGUOUS_QUERY = 1000120, "Data ambiguous query", NEWEST;
    ESLURM_DATA_PARSE_NOTHING = 1000121, "Data parse nothing", NEWEST;
    ESLURM_DATA_INVALID_PARSER = 1000122, "Data invalid parser", NEWEST;
    ESLURM_DATA_PARSING_DEPTH = 1000123, "Data parsing depth", NEWEST;
    ESLURM_DATA_PARSER_INVALID_STATE = 1000124, "Data parser invalid state", NEWEST;
    ESLURM_DATA_PARSE_BAD_INPUT = 1000125, "Data parse bad input", NEWEST;
    ESLURM_UTF_INVALID_CODE = 1000126, "UTF invalid code", NEWEST;
    ESLURM_UTF8_INVALID_READ = 1000127, "UTF-8 invalid read", NEWEST;
    ESLURM_UTF8_READ_ILLEGAL_TERMINATION = 1000128, "UTF-8 read illegal termination", NEWEST;
    ESLURM_UTF8_INVALID_BYTE_2 = 1000129, "UTF-8 invalid byte 2", NEWEST;
    ESLURM_UTF8_INVALID_BYTE_3 = 1000130, "UTF-8 invalid byte 3", NEWEST;
    ESLURM_UTF8_INVALID_BYTE_4 = 1000131, "UTF-8 invalid byte 4", NEWEST;
    ESLURM_UTF_RESERVED_CODE = 1000132, "UTF reserved code", NEWEST;
    ESLURM_UTF16_SURROGATE_CODE = 1000133, "UTF-16 surrogate code", NEWEST;
    ESLURM_UTF_PRIVATE_CODE = 1000134, "UTF private code", NEWEST;
    ESLURM_UTF_NONCHARACTER_CODE = 1000135, "UTF noncharacter code", NEWEST;
    ESLURM_UTF_NULL_CODE = 1000136, "UTF null code", NEWEST;
    ESLURM_UTF16BE_SCHEMA = 1000137, "UTF-16BE schema", NEWEST;
    ESLURM_UTF16LE_SCHEMA = 1000138, "UTF-16LE schema", NEWEST;
    ESLURM_UTF32BE_SCHEMA = 1000139, "UTF-32BE schema", NEWEST;
    ESLURM_UTF32LE_SCHEMA = 1000140, "UTF-32LE schema", NEWEST;
    ESLURM_URL_UNKNOWN_SCHEME = 1000141, "URL unknown scheme", NEWEST;
    ESLURM_URL_EMPTY = 1000142, "URL empty", NEWEST;
    ESLURM_URL_NON_NULL_TERMINATOR = 1000143, "URL non null terminator", NEWEST;
    ESLURM_URL_INVALID_FORMATING = 1000144, "URL invalid formating", NEWEST;
    ESLURM_URL_INVALID_SCHEME = 1000145, "URL invalid scheme", NEWEST;
    ESLURM_URL_UNSUPPORTED_SCHEME = 1000146, "URL unsupported scheme", NEWEST;
    ESLURM_URL_INVALID_HOST = 1000147, "URL invalid host", NEWEST;
    ESLURM_URL_INVALID_PORT = 1000148, "URL invalid port", NEWEST;
    ESLURM_URL_INVALID_PATH = 1000149, "URL invalid path", NEWEST;
    ESLURM_URL_INVALID_QUERY = 1000150, "URL invalid query", NEWEST;
    ESLURM_URL_INVALID_FRAGMENT = 1000151, "URL invalid fragment", NEWEST;
    ESLURM_URL_UNSUPPORTED_FORMAT = 1000152, "URL unsupported format", NEWEST;
    ESLURM_HTTP_EMPTY_HEADER = 1000153, "HTTP empty header", NEWEST;
    ESLURM_HTTP_PARSING_FAILURE = 1000154, "HTTP parsing failure", NEWEST;
    ESLURM_HTTP_UNEXPECTED_URL = 1000155, "HTTP unexpected URL", NEWEST;
    ESLURM_HTTP_INVALID_STATUS_CODE = 1000156, "HTTP invalid status code", NEWEST;
    ESLURM_HTTP_INVALID_METHOD = 1000157, "HTTP invalid method", NEWEST;
    ESLURM_HTTP_MISSING_LF = 1000158, "HTTP missing LF", NEWEST;
    ESLURM_HTTP_INVALID_CHARACTER = 1000159, "HTTP invalid character", NEWEST;
    ESLURM_HTTP_INVALID_CONTENT_LENGTH = 1000160, "HTTP invalid content length", NEWEST;
    ESLURM_HTTP_INVALID_TRANSFER_ENCODING = 1000161, "HTTP invalid transfer encoding", NEWEST;
    ESLURM_HTTP_UNSUPPORTED_CHUNK_ENCODING = 1000162, "HTTP unsupported chunk encoding", NEWEST;
    ESLURM_HTTP_UNEXPECTED_REQUEST = 1000163, "HTTP unexpected request", NEWEST;
    ESLURM_HTTP_UNSUPPORTED_VERSION = 1000164, "HTTP unsupported version", NEWEST;
    ESLURM_HTTP_UNSUPPORTED_UPGRADE = 1000165, "HTTP unsupported upgrade", NEWEST;
    ESLURM_HTTP_INVALID_CONTENT_ENCODING = 1000166, "HTTP invalid content encoding", NEWEST;
    ESLURM_HTTP_UNSUPPORTED_EXPECT = 1000167, "HTTP unsupported expect", NEWEST;
    ESLURM_HTTP_UNSUPPORTED_KEEP_ALIVE = 1000168, "HTTP unsupported keep alive", NEWEST;
    ESLURM_HTTP_CONTENT_LENGTH_TOO_LARGE = 1000169, "HTTP content length too large", NEWEST;
    ESLURM_HTTP_POST_MISSING_CONTENT_LENGTH = 1000170, "HTTP post missing content length", NEWEST;
    ESLURM_HTTP_UNEXPECTED_BODY = 1000171, "HTTP unexpected body", NEWEST;
    ESLURM_HTTP_UNKNOWN_ACCEPT_MIME_TYPE = 1000172, "HTTP unknown accept MIME type", NEWEST;
    ESLURM_HTTP_MISSING_CR = 1000173, "HTTP missing CR", NEWEST;
    ESLURM_TLS_REQUIRED = 1000174, "TLS required", NEWEST;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_and_number_stands_once() {
        let names: HashSet<&str> = ERRORS.iter().map(|error| error.name).collect();
        let codes: HashSet<i32> = ERRORS.iter().map(|error| error.code).collect();
        assert_eq!((names.len(), codes.len()), (ERRORS.len(), ERRORS.len()));
        assert!(!codes.contains(&0));
    }

    #[test]
    fn scripts_know_as_many_errors_as_in_slurm() {
        let count = |of: fn(&KnownError) -> bool| ERRORS.iter().filter(|error| of(error)).count();
        assert_eq!(count(|error| error.scripts.v22_05), 8);
        // Slurm's table also has SLURM_SUCCESS, which is not an error.
        assert_eq!(count(|error| error.scripts.newest), 390);
    }

    #[test]
    fn an_unknown_number_is_an_error_with_the_text_of_slurm() {
        let text = |code: i32| SlurmError::from_code(code).map(|error| error.to_string());
        assert_eq!(text(0), None);
        assert_eq!(text(-1).as_deref(), Some("Unspecified error"));
        assert_eq!(text(-7).as_deref(), Some("Unknown negative error number"));
        assert_eq!(text(99_999).as_deref(), Some("Unknown error 99999"));
        let known = "Time limit specification required, but not provided";
        assert_eq!(text(8000).as_deref(), Some(known));
    }

    #[test]
    fn a_message_follows_the_text() {
        assert_eq!(ESLURM_INVALID_QOS.with("").to_string(), ESLURM_INVALID_QOS.to_string());
        let error = ESLURM_ACCESS_DENIED.with("ask for an account");
        assert_eq!(error.message(), Some("ask for an account"));
        assert_eq!(error.to_string(), "Access/permission denied: ask for an account");
        assert_eq!(SlurmError::from_name("ESLURM_ACCESS_DENIED"), Some(ESLURM_ACCESS_DENIED));
        assert_eq!(SlurmError::from_name("ESLURM_NONE"), None);
    }
}
