//! Slurm's errors, by their names, with Slurm's numbers and the releases that have them. The texts are
//! those that 26.05.5 prints, or 24.11.5 or 22.05.8 if it doesn't have the error.
//!
//! A plugin that refuses a request returns one of them, and a user sees the text that Slurm would show.

use super::release::{Release, Releases};
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
    ///
    /// A number that only older releases have is theirs; see [`in_release`](Self::in_release).
    pub fn from_code(code: i32) -> Option<Self> {
        let newest_first = Release::ALL.iter().rev();
        let known = |release: &Release| Self::known(code, *release);
        Self::of_code(code, newest_first.filter_map(known).next())
    }

    /// The error for a number as one release of Slurm has it; `None` for 0, which is success.
    ///
    /// ```
    /// use jobtap_core::slurm::{Release, SlurmError};
    ///
    /// let text = |release| SlurmError::in_release(2174, release).map(|error| error.to_string());
    /// assert_eq!(text(Release::V22_05).as_deref(), Some("Unknown error 2174"));
    /// assert_ne!(text(Release::V24_11), text(Release::V22_05));
    /// ```
    pub fn in_release(code: i32, release: Release) -> Option<Self> {
        Self::of_code(code, Self::known(code, release))
    }

    fn known(code: i32, release: Release) -> Option<&'static KnownError> {
        ERRORS.iter().find(|error| error.code == code && error.releases.has(release))
    }

    fn of_code(code: i32, known: Option<&'static KnownError>) -> Option<Self> {
        if code == 0 {
            return None;
        }
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
    /// The number. No name has two numbers, but a later release may use the number of an error that it has dropped.
    pub code: i32,
    /// The text that Slurm's commands print.
    pub text: &'static str,
    /// The releases of Slurm that have it.
    pub releases: Releases,
}

/// The errors that scripts of 22.05 know by name. Later releases show scripts all that they have.
const NAMES_OF_22_05: [&str; 8] = [
    "ESLURM_ACCESS_DENIED",
    "ESLURM_ACCOUNTING_POLICY",
    "ESLURM_INVALID_ACCOUNT",
    "ESLURM_INVALID_LICENSES",
    "ESLURM_INVALID_NODE_COUNT",
    "ESLURM_INVALID_TIME_LIMIT",
    "ESLURM_JOB_MISSING_SIZE_SPECIFICATION",
    "ESLURM_MISSING_TIME_LIMIT",
];

impl KnownError {
    /// Whether scripts of a release know it as `slurm.NAME`.
    #[must_use]
    pub fn is_in_scripts(&self, release: Release) -> bool {
        let named = release > Release::V22_05 || NAMES_OF_22_05.contains(&self.name);
        named && self.releases.has(release)
    }
}

macro_rules! errors {
    ($($name:ident = $code:literal, $text:literal $(, $when:ident $($release:ident)+)?;)*) => {
        $(
            #[doc = concat!("`", $code, "`: `", $text, "`.")]
            pub const $name: SlurmError = SlurmError::new($code, stringify!($name), $text);
        )*

        /// Every error, by number; of two with the same number, the older one first.
        pub const ERRORS: &[KnownError] = &[
            $( KnownError {
                name: stringify!($name),
                code: $code,
                text: $text,
                releases: errors!(@releases $($when $($release)+)?),
            }, )*
        ];
    };
    (@releases) => { Releases::ALL };
    (@releases $when:ident $($release:ident)+) => { Releases::$when($(Release::$release),+) };
}

errors! {
    SLURM_ERROR = -1, "Unspecified error";
    EINPROGRESS = 115, "Operation now in progress";
    SLURM_UNEXPECTED_MSG_ERROR = 1000, "Unexpected message received";
    SLURM_COMMUNICATIONS_CONNECTION_ERROR = 1001, "Communication connection failure";
    SLURM_COMMUNICATIONS_SEND_ERROR = 1002, "Message send failure";
    SLURM_COMMUNICATIONS_RECEIVE_ERROR = 1003, "Message receive failure";
    SLURM_COMMUNICATIONS_SHUTDOWN_ERROR = 1004, "Communication shutdown failure";
    SLURM_PROTOCOL_VERSION_ERROR = 1005, "Incompatible versions of client and server code";
    SLURM_PROTOCOL_IO_STREAM_VERSION_ERROR = 1006, "I/O stream version number error";
    SLURM_PROTOCOL_AUTHENTICATION_ERROR = 1007, "Protocol authentication error";
    SLURM_PROTOCOL_INSANE_MSG_LENGTH = 1008, "Insane message length";
    SLURM_MPI_PLUGIN_NAME_INVALID = 1009, "Invalid MPI plugin name";
    SLURM_MPI_PLUGIN_PRELAUNCH_SETUP_FAILED = 1010, "MPI plugin's pre-launch setup failed";
    SLURM_PLUGIN_NAME_INVALID = 1011, "Plugin initialization failed";
    SLURM_UNKNOWN_FORWARD_ADDR = 1012, "Can't find an address, check slurm.conf";
    SLURM_COMMUNICATIONS_MISSING_SOCKET_ERROR = 1013, "Unexpected missing socket error";
    SLURM_COMMUNICATIONS_INVALID_INCOMING_FD = 1014, "Unable to process incoming file descriptor", since V24_11;
    SLURM_COMMUNICATIONS_INVALID_OUTGOING_FD = 1015, "Unable to process outgoing file descriptor", since V24_11;
    SLURM_COMMUNICATIONS_INVALID_FD = 1016, "Unable to process incoming and outgoing file descriptors", since V24_11;
    SLURM_BLOCKED_ON_READ = 1017, "Read would block", since V26_05;
    SLURM_BLOCKED_ON_WRITE = 1018, "Write would block", since V26_05;
    SLURM_COMMUNICATIONS_REJECTED = 1019, "Connection rejected by handler", since V26_05;
    SLURM_COMMUNICATIONS_QUIESCE_TIMEOUT = 1020, "Connection forced closed by quiesce timeout", since V26_05;
    SLURM_COMMUNICATIONS_CONNECT_TIMEOUT = 1021, "Connection timed out establishing", since V26_05;
    SLURM_COMMUNICATIONS_WRITE_TIMEOUT = 1022, "Connection timed out writing", since V26_05;
    SLURM_COMMUNICATIONS_READ_TIMEOUT = 1023, "Connection timed out reading", since V26_05;
    SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR = 1800, "Unable to contact slurm controller (connect failure)";
    SLURMCTLD_COMMUNICATIONS_SEND_ERROR = 1801, "Unable to contact slurm controller (send failure)";
    SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR = 1802, "Unable to contact slurm controller (receive failure)";
    SLURMCTLD_COMMUNICATIONS_SHUTDOWN_ERROR = 1803, "Unable to contact slurm controller (shutdown failure)";
    SLURMCTLD_COMMUNICATIONS_BACKOFF = 1804, "Rate limit exceeded, please retry momentarily", since V23_02;
    SLURMCTLD_COMMUNICATIONS_HARD_DROP = 1805, "Rate limit exceeded, please retry later", since V24_05;
    SLURM_NO_CHANGE_IN_DATA = 1900, "Data has not changed since time specified";
    ESLURM_INVALID_PARTITION_NAME = 2000, "Invalid partition name specified";
    ESLURM_DEFAULT_PARTITION_NOT_SET = 2001, "No partition specified or system default partition";
    ESLURM_ACCESS_DENIED = 2002, "Access/permission denied";
    ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP = 2003, "User's group not permitted to use this partition";
    ESLURM_REQUESTED_NODES_NOT_IN_PARTITION = 2004, "Requested nodes not in this partition";
    ESLURM_TOO_MANY_REQUESTED_CPUS = 2005, "More processors requested than permitted";
    ESLURM_INVALID_NODE_COUNT = 2006, "Node count specification invalid";
    ESLURM_ERROR_ON_DESC_TO_RECORD_COPY = 2007, "Unable to create job record, try again", until V25_11;
    ESLURM_MAX_JOB_COUNT = 2007, "MaxJobCount limit reached", since V26_05;
    ESLURM_JOB_MISSING_SIZE_SPECIFICATION = 2008, "Job size specification needs to be provided";
    ESLURM_JOB_SCRIPT_MISSING = 2009, "Job script not specified";
    ESLURM_USER_ID_MISSING = 2010, "Invalid user id";
    ESLURM_DUPLICATE_JOB_ID = 2011, "Duplicate job id";
    ESLURM_PATHNAME_TOO_LONG = 2012, "Pathname of a file, directory or other parameter too long";
    ESLURM_NOT_TOP_PRIORITY = 2013, "Immediate execution impossible, insufficient priority";
    ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE = 2014, "Requested node configuration is not available";
    ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE = 2015, "Requested partition configuration not available now";
    ESLURM_NODES_BUSY = 2016, "Requested nodes are busy";
    ESLURM_INVALID_JOB_ID = 2017, "Invalid job id specified";
    ESLURM_INVALID_NODE_NAME = 2018, "Invalid node name specified";
    ESLURM_WRITING_TO_FILE = 2019, "I/O error writing script/environment to file";
    ESLURM_TRANSITION_STATE_NO_UPDATE = 2020, "Job can not be altered now, try again later";
    ESLURM_ALREADY_DONE = 2021, "Job/step already completing or completed";
    ESLURM_INTERCONNECT_FAILURE = 2022, "Error configuring interconnect";
    ESLURM_BAD_DIST = 2023, "Task distribution specification invalid";
    ESLURM_JOB_PENDING = 2024, "Job is pending execution";
    ESLURM_BAD_TASK_COUNT = 2025, "Task count specification invalid";
    ESLURM_INVALID_JOB_CREDENTIAL = 2026, "Error generating job credential";
    ESLURM_IN_STANDBY_MODE = 2027, "Slurm backup controller in standby mode";
    ESLURM_INVALID_NODE_STATE = 2028, "Invalid node state specified";
    ESLURM_INVALID_FEATURE = 2029, "Invalid feature specification";
    ESLURM_INVALID_AUTHTYPE_CHANGE = 2030, "AuthType change requires restart of all Slurm daemons and commands to take effect";
    ESLURM_ACTIVE_FEATURE_NOT_SUBSET = 2031, "Active features not subset of available features";
    ESLURM_INVALID_SCHEDTYPE_CHANGE = 2032, "SchedulerType change requires restart of the slurmctld daemon to take effect";
    ESLURM_INVALID_SELECTTYPE_CHANGE = 2033, "SelectType change requires restart of the slurmctld daemon to take effect";
    ESLURM_INVALID_SWITCHTYPE_CHANGE = 2034, "SwitchType change requires restart of all Slurm daemons and jobs to take effect";
    ESLURM_FRAGMENTATION = 2035, "Immediate execution impossible, resources too fragmented for allocation";
    ESLURM_NOT_SUPPORTED = 2036, "Requested operation not supported on this system";
    ESLURM_DISABLED = 2037, "Requested operation is presently disabled";
    ESLURM_DEPENDENCY = 2038, "Job dependency problem";
    ESLURM_BATCH_ONLY = 2039, "Only batch jobs are accepted or processed";
    ESLURM_TASKDIST_ARBITRARY_UNSUPPORTED = 2040, "Current SwitchType does not permit arbitrary task distribution", until V22_05;
    ESLURM_LICENSES_UNAVAILABLE = 2040, "Licenses currently unavailable", since V23_02;
    ESLURM_TASKDIST_REQUIRES_OVERCOMMIT = 2041, "Requested more tasks than available processors", until V22_05;
    ESLURM_TAKEOVER_NO_HEARTBEAT = 2041, "Unable to takeover, heartbeat file is missing", since V23_11;
    ESLURM_JOB_HELD = 2042, "Job is in held state, pending scheduler release";
    ESLURM_INVALID_CRED_TYPE_CHANGE = 2043, "CredType change requires restart of all Slurm daemons to take effect";
    ESLURM_INVALID_TASK_MEMORY = 2044, "Memory required by task is not available";
    ESLURM_INVALID_ACCOUNT = 2045, "Invalid account or account/partition combination specified";
    ESLURM_INVALID_PARENT_ACCOUNT = 2046, "Invalid parent account specified";
    ESLURM_SAME_PARENT_ACCOUNT = 2047, "Account already child of parent account specified";
    ESLURM_INVALID_LICENSES = 2048, "Invalid license specification";
    ESLURM_NEED_RESTART = 2049, "The node configuration changes that were made require restart of the slurmctld daemon to take effect";
    ESLURM_ACCOUNTING_POLICY = 2050, "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
    ESLURM_INVALID_TIME_LIMIT = 2051, "Requested time limit is invalid (missing or exceeds some limit)";
    ESLURM_RESERVATION_ACCESS = 2052, "Access denied to requested reservation";
    ESLURM_RESERVATION_INVALID = 2053, "Requested reservation is invalid";
    ESLURM_INVALID_TIME_VALUE = 2054, "Invalid time specified";
    ESLURM_RESERVATION_BUSY = 2055, "Requested reservation is in use";
    ESLURM_RESERVATION_NOT_USABLE = 2056, "Requested reservation not usable now";
    ESLURM_INVALID_WCKEY = 2057, "Invalid wckey specification";
    ESLURM_RESERVATION_OVERLAP = 2058, "Requested reservation overlaps with another reservation";
    ESLURM_PORTS_BUSY = 2059, "Required ports are in use";
    ESLURM_PORTS_INVALID = 2060, "Requires more ports than can be reserved";
    ESLURM_PROLOG_RUNNING = 2061, "PrologSlurmctld is still running";
    ESLURM_NO_STEPS = 2062, "Job steps can not be run on this cluster";
    ESLURM_INVALID_BLOCK_STATE = 2063, "Invalid block state specified", until V22_05;
    ESLURM_MISSING_WORK_DIR = 2063, "Job cannot be submitted without the current working directory specified.", since V23_11;
    ESLURM_INVALID_BLOCK_LAYOUT = 2064, "Functionality not available with current block layout mode", until V22_05;
    ESLURM_STEPS_DRAINED = 2064, "No running or pending steps in the job", since V26_05;
    ESLURM_INVALID_BLOCK_NAME = 2065, "Invalid block name specified", until V22_05;
    ESLURM_INVALID_QOS = 2066, "Invalid qos specification";
    ESLURM_QOS_PREEMPTION_LOOP = 2067, "QOS Preemption loop detected";
    ESLURM_NODE_NOT_AVAIL = 2068, "Required node not available (down, drained or reserved)";
    ESLURM_INVALID_CPU_COUNT = 2069, "CPU count specification invalid";
    ESLURM_PARTITION_NOT_AVAIL = 2070, "Required partition not available (inactive or drain)";
    ESLURM_CIRCULAR_DEPENDENCY = 2071, "Circular job dependency";
    ESLURM_INVALID_GRES = 2072, "Invalid generic resource (gres) specification";
    ESLURM_JOB_NOT_PENDING = 2073, "Job is no longer pending execution";
    ESLURM_QOS_THRES = 2074, "Requested account has breached requested QOS usage threshold";
    ESLURM_PARTITION_IN_USE = 2075, "Partition is in use";
    ESLURM_STEP_LIMIT = 2076, "Step limit reached for this job";
    ESLURM_JOB_SUSPENDED = 2077, "Job is current suspended, requested operation disabled";
    ESLURM_CAN_NOT_START_IMMEDIATELY = 2078, "Job can not start immediately";
    ESLURM_INTERCONNECT_BUSY = 2079, "Switch resources currently not available", until V25_05;
    ESLURM_RESERVATION_EMPTY = 2080, "Reservation request lacks users, groups or accounts";
    ESLURM_INVALID_ARRAY = 2081, "Invalid job array specification";
    ESLURM_RESERVATION_NAME_DUP = 2082, "Duplicate reservation name";
    ESLURM_JOB_STARTED = 2083, "Job has already started";
    ESLURM_JOB_FINISHED = 2084, "Job has already finished";
    ESLURM_JOB_NOT_RUNNING = 2085, "Job is not running";
    ESLURM_JOB_NOT_PENDING_NOR_RUNNING = 2086, "Job is not pending nor running";
    ESLURM_JOB_NOT_SUSPENDED = 2087, "Job is not suspended";
    ESLURM_JOB_NOT_FINISHED = 2088, "Job is not finished";
    ESLURM_TRIGGER_DUP = 2089, "Duplicate event trigger";
    ESLURM_INTERNAL = 2090, "Slurm internal error, contact system administrator";
    ESLURM_INVALID_BURST_BUFFER_CHANGE = 2091, "BurstBufferType change requires restart of slurmctld daemon to take effect";
    ESLURM_BURST_BUFFER_PERMISSION = 2092, "Burst Buffer permission denied";
    ESLURM_BURST_BUFFER_LIMIT = 2093, "Burst Buffer resource limit exceeded";
    ESLURM_INVALID_BURST_BUFFER_REQUEST = 2094, "Burst Buffer request invalid";
    ESLURM_PRIO_RESET_FAIL = 2095, "Changes to job priority are not persistent, change nice instead";
    ESLURM_CANNOT_MODIFY_CRON_JOB = 2096, "Cannot modify scrontab jobs through scontrol";
    ESLURM_INVALID_JOB_CONTAINER_CHANGE = 2097, "JobContainerType change requires restart of all Slurm daemons and commands to take effect", between V23_02 V25_05;
    ESLURM_INVALID_NAMESPACE_CHANGE = 2097, "NamespaceType change requires restart of all Slurm daemons and commands to take effect", since V25_11;
    ESLURM_CANNOT_CANCEL_CRON_JOB = 2098, "Cannot cancel scrontab jobs without --cron flag.", since V23_02;
    ESLURM_INVALID_MCS_LABEL = 2099, "Invalid mcs_label specified";
    ESLURM_BURST_BUFFER_WAIT = 2100, "Waiting for burst buffer";
    ESLURM_PARTITION_DOWN = 2101, "Partition in DOWN state";
    ESLURM_DUPLICATE_GRES = 2102, "Duplicate generic resource (gres) specification";
    ESLURM_JOB_SETTING_DB_INX = 2103, "Job update not available right now, the DB index is being set, try again in a bit", until V24_05;
    ESLURM_RSV_ALREADY_STARTED = 2104, "Reservation already started";
    ESLURM_SUBMISSIONS_DISABLED = 2105, "System submissions disabled";
    ESLURM_NOT_HET_JOB = 2106, "Job not heterogeneous job";
    ESLURM_NOT_HET_JOB_LEADER = 2107, "Job not heterogeneous job leader";
    ESLURM_NOT_WHOLE_HET_JOB = 2108, "Operation not permitted on individual component of heterogeneous job";
    ESLURM_CORE_RESERVATION_UPDATE = 2109, "Core-based reservation can not be updated";
    ESLURM_DUPLICATE_STEP_ID = 2110, "Duplicate job step id";
    ESLURM_INVALID_CORE_CNT = 2111, "Core count for reservation node list is not consistent!";
    ESLURM_X11_NOT_AVAIL = 2112, "X11 forwarding not available";
    ESLURM_GROUP_ID_MISSING = 2113, "Invalid group id";
    ESLURM_BATCH_CONSTRAINT = 2114, "Job --batch option is invalid or not a subset of --constraint";
    ESLURM_INVALID_TRES = 2115, "Invalid Trackable RESource (TRES) specification";
    ESLURM_INVALID_TRES_BILLING_WEIGHTS = 2116, "Invalid TRESBillingWeights specification";
    ESLURM_INVALID_JOB_DEFAULTS = 2117, "Invalid JobDefaults specification";
    ESLURM_RESERVATION_MAINT = 2118, "Job can not start due to maintenance reservation.";
    ESLURM_INVALID_GRES_TYPE = 2119, "Invalid GRES specification (with and without type identification)";
    ESLURM_REBOOT_IN_PROGRESS = 2120, "Reboot already in progress";
    ESLURM_MULTI_KNL_CONSTRAINT = 2121, "Multiple KNL NUMA and/or MCDRAM constraints require use of a heterogeneous job";
    ESLURM_UNSUPPORTED_GRES = 2122, "Requested GRES option unsupported by configured SelectType plugin";
    ESLURM_INVALID_NICE = 2123, "Invalid --nice value";
    ESLURM_INVALID_TIME_MIN_LIMIT = 2124, "Invalid time-min specification (exceeds job's time or other limits)";
    ESLURM_DEFER = 2125, "Immediate execution impossible. Individual job submission scheduling attempts deferred";
    ESLURM_CONFIGLESS_DISABLED = 2126, "ConfigLess mode is disabled in slurm configuration.";
    ESLURM_ENVIRONMENT_MISSING = 2127, "Environment is missing in job";
    ESLURM_RESERVATION_NO_SKIP = 2128, "Reservation given is not skipable, try deleting instead";
    ESLURM_RESERVATION_USER_GROUP = 2129, "Reservations can't have users and groups specified, only one or the other";
    ESLURM_PARTITION_ASSOC = 2130, "Multiple partition job request not supported when a partition is set in the association";
    ESLURM_IN_STANDBY_USE_BACKUP = 2131, "Controller is in standby mode, try a different controller";
    ESLURM_BAD_THREAD_PER_CORE = 2132, "Cannot request more threads per core than the job allocation";
    ESLURM_INVALID_PREFER = 2133, "Invalid preferred feature specification";
    ESLURM_INSUFFICIENT_GRES = 2134, "Insufficient GRES available in allocation";
    ESLURM_INVALID_CONTAINER_ID = 2135, "Invalid container id specified", since V23_02;
    ESLURM_EMPTY_JOB_ID = 2136, "JobID must not be an empty string", since V23_02;
    ESLURM_INVALID_JOB_ID_ZERO = 2137, "JobID can not be zero", since V23_02;
    ESLURM_INVALID_JOB_ID_NEGATIVE = 2138, "JobID can not be a negative number", since V23_02;
    ESLURM_INVALID_JOB_ID_TOO_LARGE = 2139, "JobID larger than acceptable range", since V23_02;
    ESLURM_INVALID_JOB_ID_NON_NUMERIC = 2140, "JobID includes unexpected non-numeric characters", since V23_02;
    ESLURM_EMPTY_JOB_ARRAY_ID = 2141, "Job Array ID must not be an empty string", since V23_02;
    ESLURM_INVALID_JOB_ARRAY_ID_NEGATIVE = 2142, "Job Array ID can not be a negative number", since V23_02;
    ESLURM_INVALID_JOB_ARRAY_ID_TOO_LARGE = 2143, "Job Array ID larger than acceptable range", since V23_02;
    ESLURM_INVALID_JOB_ARRAY_ID_NON_NUMERIC = 2144, "Job Array ID includes unexpected non-numeric characters", since V23_02;
    ESLURM_EMPTY_HET_JOB_COMP = 2146, "HetJob component must not be an empty string", since V23_02;
    ESLURM_INVALID_HET_JOB_COMP_NEGATIVE = 2147, "HetJob component can not be a negative number", since V23_02;
    ESLURM_INVALID_HET_JOB_COMP_TOO_LARGE = 2148, "HetJob component larger than acceptable range", since V23_02;
    ESLURM_EMPTY_STEP_ID = 2150, "StepID must not be an empty string", since V23_02;
    ESLURM_INVALID_STEP_ID_NEGATIVE = 2151, "StepID can not be a negative number", since V23_02;
    ESLURM_INVALID_STEP_ID_TOO_LARGE = 2152, "StepID larger than acceptable range", since V23_02;
    ESLURM_INVALID_STEP_ID_NON_NUMERIC = 2153, "StepID includes unexpected non-numeric characters", since V23_02;
    ESLURM_EMPTY_HET_STEP = 2154, "HetStep component must not be an empty string", since V23_02;
    ESLURM_INVALID_HET_STEP_ZERO = 2155, "HetStep component can not be zero", since V23_02;
    ESLURM_INVALID_HET_STEP_NEGATIVE = 2156, "HetStep component can not be a negative number", since V23_02;
    ESLURM_INVALID_HET_STEP_TOO_LARGE = 2157, "HetStep component larger than acceptable range", since V23_02;
    ESLURM_INVALID_HET_STEP_NON_NUMERIC = 2158, "HetStep component includes unexpected non-numeric characters", since V23_02;
    ESLURM_INVALID_HET_STEP_JOB = 2159, "HetJob can not Het step id", since V23_02;
    ESLURM_JOB_TIMEOUT_KILLED = 2160, "Job killed due hitting max wall clock limit", since V23_02;
    ESLURM_JOB_NODE_FAIL_KILLED = 2161, "Job killed due node failure", since V23_02;
    ESLURM_EMPTY_LIST = 2162, "Empty list", since V23_11;
    ESLURM_GROUP_ID_INVALID = 2163, "Invalid group ID", since V23_11;
    ESLURM_GROUP_ID_UNKNOWN = 2164, "Unable to resolve group ID to group name", since V23_11;
    ESLURM_USER_ID_INVALID = 2165, "Invalid user ID", since V23_11;
    ESLURM_USER_ID_UNKNOWN = 2166, "Unable to resolve user ID to user name", since V23_11;
    ESLURM_INVALID_ASSOC = 2167, "Invalid or unknown association", since V23_11;
    ESLURM_NODE_ALREADY_EXISTS = 2168, "Node already exists in the node table", since V23_11;
    ESLURM_NODE_TABLE_FULL = 2169, "Unable to add node, node table is full", since V23_11;
    ESLURM_INVALID_RELATIVE_QOS = 2170, "Invalid QOS specification, relative QOS can only be used in a single partition per cluster.", since V23_11;
    ESLURM_INVALID_EXTRA = 2171, "Invalid extra constraints specification", since V23_11;
    ESLURM_JOB_SIGNAL_FAILED = 2172, "Cannot signal job", since V23_11;
    ESLURM_SIGNAL_JOBS_INVALID = 2173, "Invalid signal jobs request, at least one job id or filter is required.", since V23_11;
    ESLURM_RES_CORES_PER_GPU_UNIQUE = 2174, "RestrictedCoresPerGPU: Not enough unique cores per GPU", since V24_05;
    ESLURM_RES_CORES_PER_GPU_TOPO = 2175, "RestrictedCoresPerGPU: Missing core topology for GPUs", since V24_05;
    ESLURM_RES_CORES_PER_GPU_NO = 2176, "RestrictedCoresPerGPU: No GPUs configured on node", since V24_05;
    ESLURM_MAX_POWERED_NODES = 2177, "Max powered up nodes reached", since V24_05;
    ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE = 2178, "Requested topology configuration is not available", since V24_11;
    ESLURM_PREEMPTION_REQUIRED = 2179, "Preemption is required but is disabled on this system", since V24_11;
    ESLURM_INVALID_NODE_STATE_TRANSITION = 2180, "Invalid node state transition", since V25_11;
    ESLURM_INVALID_JOB_STATE = 2181, "Invalid job state", since V25_11;
    ESLURM_BREAK_EVAL = 2182, "Break of an evaluation", between V25_11 V25_11;
    ESLURM_RETRY_EVAL = 2183, "Retry of an evaluation", between V25_11 V25_11;
    ESLURM_RETRY_EVAL_HINT = 2184, "Retry of an evaluation with a hint", between V25_11 V25_11;
    ESLURM_INVALID_SLUID = 2185, "SLUID is invalid", since V25_11;
    ESLURM_EXTERN_ONLY = 2186, "Requested operation requires extern step", since V26_05;
    ESLURM_INVALID_POWER_ACTION = 2187, "Invalid power action", since V26_05;
    ESLURM_STEP_QUEUED = 2188, "Step queued as pending", since V26_05;
    ESLURM_INVALID_EXTERNAL_JOB = 2189, "Invalid configuration for external job", since V26_05;
    ESLURM_FILE_UNREADABLE = 2190, "Unable to load file for reading", since V26_05;
    ESPANK_ERROR = 3000, "Generic error";
    ESPANK_BAD_ARG = 3001, "Bad argument";
    ESPANK_NOT_TASK = 3002, "Not in task context";
    ESPANK_ENV_EXISTS = 3003, "Environment variable exists";
    ESPANK_ENV_NOEXIST = 3004, "No such environment variable";
    ESPANK_NOSPACE = 3005, "Buffer too small";
    ESPANK_NOT_REMOTE = 3006, "Valid only in remote context";
    ESPANK_NOEXIST = 3007, "Id/PID does not exist on this node";
    ESPANK_NOT_EXECD = 3008, "Lookup by PID requested, but no tasks running";
    ESPANK_NOT_AVAIL = 3009, "Item not available from this callback";
    ESPANK_NOT_LOCAL = 3010, "Valid only in local or allocator context";
    ESPANK_NODE_FAILURE = 3011, "Spank plugin failure, node failed", since V25_05;
    ESPANK_JOB_FAILURE = 3012, "Spank plugin failure, job failed", since V25_05;
    ESLURMD_PIPE_ERROR_ON_TASK_SPAWN = 4000, "Pipe error on task spawn", until V22_05;
    ESLURMD_KILL_TASK_FAILED = 4001, "Kill task failed";
    ESLURMD_INVALID_ACCT_FREQ = 4003, "Invalid accounting frequency requested";
    ESLURMD_INVALID_JOB_CREDENTIAL = 4004, "Invalid job credential";
    ESLURMD_UID_NOT_FOUND = 4005, "User not found on host", until V22_05;
    ESLURMD_GID_NOT_FOUND = 4006, "Group ID not found on host", until V22_05;
    ESLURMD_CREDENTIAL_EXPIRED = 4007, "Job credential expired";
    ESLURMD_CREDENTIAL_REVOKED = 4008, "Job credential revoked";
    ESLURMD_CREDENTIAL_REPLAYED = 4009, "Job credential replayed";
    ESLURMD_CREATE_BATCH_DIR_ERROR = 4010, "Slurmd could not create a batch directory or file";
    ESLURMD_MODIFY_BATCH_DIR_ERROR = 4011, "Slurmd could not chown or chmod a batch directory", until V22_05;
    ESLURMD_CREATE_BATCH_SCRIPT_ERROR = 4012, "Slurmd could not create a batch script", until V22_05;
    ESLURMD_MODIFY_BATCH_SCRIPT_ERROR = 4013, "Slurmd could not chown or chmod a batch script", until V22_05;
    ESLURMD_SETUP_ENVIRONMENT_ERROR = 4014, "Slurmd could not set up environment for batch job";
    ESLURMD_SHARED_MEMORY_ERROR = 4015, "Slurmd shared memory error", until V22_05;
    ESLURMD_SET_UID_OR_GID_ERROR = 4016, "Slurmd could not set UID or GID";
    ESLURMD_SET_SID_ERROR = 4017, "Slurmd could not set session ID", until V22_05;
    ESLURMD_CANNOT_SPAWN_IO_THREAD = 4018, "Slurmd could not spawn I/O thread", until V22_05;
    ESLURMD_FORK_FAILED = 4019, "Slurmd could not fork job", until V22_05;
    ESLURMD_EXECVE_FAILED = 4020, "Slurmd could not execve job";
    ESLURMD_IO_ERROR = 4021, "Slurmd could not connect IO";
    ESLURMD_PROLOG_FAILED = 4022, "Job prolog failed";
    ESLURMD_EPILOG_FAILED = 4023, "Job epilog failed";
    ESLURMD_SESSION_KILLED = 4024, "Session manager killed", until V22_05;
    ESLURMD_TOOMANYSTEPS = 4025, "Too many job steps on node";
    ESLURMD_STEP_EXISTS = 4026, "Job step already exists";
    ESLURMD_JOB_NOTRUNNING = 4027, "Job step not running", until V24_11;
    ESLURMD_STEP_NOTRUNNING = 4027, "Job step not running", since V25_05;
    ESLURMD_STEP_SUSPENDED = 4028, "Job step is suspended";
    ESLURMD_STEP_NOTSUSPENDED = 4029, "Job step is not currently suspended";
    ESLURMD_INVALID_SOCKET_NAME_LEN = 4030, "Unix socket name exceeded maximum length";
    ESLURMD_CONTAINER_RUNTIME_INVALID = 4031, "Container runtime not configured or invalid";
    ESLURMD_CPU_BIND_ERROR = 4032, "Unable to satisfy cpu bind request";
    ESLURMD_CPU_LAYOUT_ERROR = 4033, "Unable to layout tasks on given cpus";
    ESLURMD_STEPD_PROXY_FAILED = 4035, "Unable to proxy slurmstepd message", since V25_05;
    SLURM_PROTOCOL_SOCKET_IMPL_ZERO_RECV_LENGTH = 5000, "Received zero length message", until V22_05;
    SLURM_PROTOCOL_SOCKET_IMPL_NEGATIVE_RECV_LENGTH = 5001, "Received message length < 0", until V22_05;
    SLURM_PROTOCOL_SOCKET_IMPL_NOT_ALL_DATA_SENT = 5002, "Failed to send entire message", until V22_05;
    ESLURM_PROTOCOL_INCOMPLETE_PACKET = 5003, "Header lengths are longer than data received";
    SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT = 5004, "Socket timed out on send/recv operation";
    SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT = 5005, "Zero Bytes were transmitted or received";
    ESLURM_AUTH_CRED_INVALID = 6000, "Invalid authentication credential";
    ESLURM_AUTH_FOPEN_ERROR = 6001, "Failed to open authentication public key", until V22_05;
    ESLURM_AUTH_EXPIRED = 6001, "Authentication credential expired", since V24_11;
    ESLURM_AUTH_NET_ERROR = 6002, "Failed to connect to authentication agent", until V22_05;
    ESLURM_AUTH_BADARG = 6004, "Bad argument to plugin function";
    ESLURM_AUTH_MEMORY = 6005, "Memory management error", until V22_05;
    ESLURM_AUTH_INVALID = 6006, "Authentication credential invalid", until V22_05;
    ESLURM_AUTH_UNPACK = 6007, "Cannot unpack credential";
    ESLURM_AUTH_SKIP = 6008, "Authentication does not apply to request";
    ESLURM_AUTH_UNABLE_TO_GENERATE_TOKEN = 6009, "Token Generation failed.", since V23_02;
    ESLURM_AUTH_NOBODY = 6010, "Rejecting authentication of user nobody or group nobody", since V25_11;
    ESLURM_AUTH_SOCKET_INVALID_PEER = 6011, "Unable to query kernel for socket peer credential", since V25_11;
    ESLURM_DB_CONNECTION = 7000, "Unable to connect to database";
    ESLURM_JOBS_RUNNING_ON_ASSOC = 7001, "Job(s) active, cancel job(s) before remove";
    ESLURM_CLUSTER_DELETED = 7002, "Cluster deleted, commit/rollback immediately";
    ESLURM_ONE_CHANGE = 7003, "Can only change one at a time";
    ESLURM_BAD_NAME = 7004, "Unacceptable name given. (No '.' in name allowed)";
    ESLURM_OVER_ALLOCATE = 7005, "You can not allocate more than 100% of a resource";
    ESLURM_RESULT_TOO_LARGE = 7006, "Query result exceeds size limit";
    ESLURM_DB_QUERY_TOO_WIDE = 7007, "Too wide of a date range in query";
    ESLURM_DB_CONNECTION_INVALID = 7008, "Database connection reference is invalid";
    ESLURM_NO_REMOVE_DEFAULT_ACCOUNT = 7009, "You can not remove the default account of a user";
    ESLURM_BAD_SQL = 7010, "There is something internally wrong with the SQL needed for this. Please consult the slurmdbd log for more info.", since V23_11;
    ESLURM_NO_REMOVE_DEFAULT_QOS = 7011, "This request would make it so some associations would not have access to their default qos.", since V23_11;
    ESLURM_COORD_NO_INCREASE_JOB_LIMIT = 7012, "Coordinators can not increase job limits beyond the parent ones", since V24_05;
    ESLURM_NO_RPC_STATS = 7013, "No RPC stats are available", since V25_05;
    ESLURM_INVALID_SHARED_POOL_ALLOWED = 7014, "Invalid value for Allowed field when SharedPool enabled, must be 0 or 100% (without Absolute) or Count (with Absolute).", since V26_05;
    ESLURM_ROLLUP_IN_PROGRESS = 7015, "Usage rollup or archive in progress, retry later", since V26_05;
    ESLURM_FED_CLUSTER_MAX_CNT = 7100, "Too many clusters in federation";
    ESLURM_FED_CLUSTER_MULTIPLE_ASSIGNMENT = 7101, "Clusters can only be assigned to one federation";
    ESLURM_INVALID_CLUSTER_FEATURE = 7102, "Invalid cluster feature specification";
    ESLURM_JOB_NOT_FEDERATED = 7103, "Not a valid federated job";
    ESLURM_INVALID_CLUSTER_NAME = 7104, "Invalid cluster name";
    ESLURM_FED_JOB_LOCK = 7105, "Job locked by another sibling";
    ESLURM_FED_NO_VALID_CLUSTERS = 7106, "No eligible clusters for federated job";
    ESLURM_TOPO_REQ_NODES_NOT_AVAIL = 7201, "Required nodes lack available resources", since V26_05;
    ESLURM_TOPO_REQ_NODES_NO_MATCH_TOPO = 7202, "Required nodes do not fit topology", since V26_05;
    ESLURM_TOPO_NO_FIT = 7203, "No suitable topology unit found", since V26_05;
    ESLURM_TOPO_SEGMENT_NO_FIT = 7204, "No suitable topology unit found for segment", since V26_05;
    ESLURM_TOPO_INSUFFICIENT_RESOURCES = 7205, "Insufficient resources in topology unit", since V26_05;
    ESLURM_TOPO_WEIGHT_NO_FIT = 7206, "Weight-based selection could not satisfy request within topology unit", since V26_05;
    ESLURM_TOPO_MAX_NODE_LIMIT = 7207, "Exceeded maximum node limit during topology allocation", since V26_05;
    ESLURM_TOPO_EMPTY_NODE_MAP = 7208, "No available nodes in topology", since V26_05;
    ESLURM_LUA_INVALID_STATE = 7400, "Invalid or NULL Lua state pointer", since V25_11;
    ESLURM_LUA_INVALID_SYNTAX = 7401, "Lua script loading failed due to invalid syntax", since V25_11;
    ESLURM_LUA_FUNC_NOT_FOUND = 7402, "Requested Lua function not found", since V25_11;
    ESLURM_LUA_FUNC_INVALID_RC = 7403, "Lua function returned nil or table instead of numeric result", since V25_11;
    ESLURM_LUA_FUNC_FAILED = 7404, "Lua function execution failed for unknown reasons", since V25_11;
    ESLURM_LUA_FUNC_FAILED_RUNTIME_ERROR = 7405, "Lua function execution failed due to runtime error", since V25_11;
    ESLURM_LUA_FUNC_FAILED_ENOMEM = 7406, "Lua function execution failed due to memory allocation failure. Either not enough memory for Lua script's variables or memory allocation request for a variable was way too large.", since V25_11;
    ESLURM_LUA_FUNC_FAILED_GARBAGE_COLLECTOR = 7407, "Lua function execution failed due to unknown failure in Lua's garbage collector", since V25_11;
    ESLURM_LUA_INVALID_CONVERSION_TYPE = 7408, "Lua invalid conversion type", since V25_11;
    ESLURM_MISSING_TIME_LIMIT = 8000, "Time limit specification required, but not provided";
    ESLURM_INVALID_KNL = 8001, "Invalid KNL configuration (MCDRAM or NUMA option)", until V25_05;
    ESLURM_PLUGIN_INVALID = 8002, "Plugin has invalid format or unable to be loaded";
    ESLURM_PLUGIN_INCOMPLETE = 8003, "Plugin missing required symbol or function";
    ESLURM_PLUGIN_NOT_LOADED = 8004, "Required plugin type not loaded or initialized", since V23_02;
    ESLURM_PLUGIN_NOTFOUND = 8005, "Plugin file not found", since V23_11;
    ESLURM_PLUGIN_ACCESS_ERROR = 8006, "Plugin access denied", since V23_11;
    ESLURM_PLUGIN_DLOPEN_FAILED = 8007, "Dlopen of plugin file failed", since V23_11;
    ESLURM_PLUGIN_INIT_FAILED = 8008, "Plugin init() callback failed", since V23_11;
    ESLURM_PLUGIN_MISSING_NAME = 8009, "Plugin name/type/version symbol missing", since V23_11;
    ESLURM_PLUGIN_BAD_VERSION = 8010, "Incompatible plugin version", since V23_11;
    ESLURM_REST_INVALID_QUERY = 9000, "Query empty or not RFC7320 compliant";
    ESLURM_REST_FAIL_PARSING = 9001, "Failure during parsing";
    ESLURM_REST_INVALID_JOBS_DESC = 9002, "Jobs description entry not found, empty or not dictionary or list";
    ESLURM_REST_EMPTY_RESULT = 9003, "Nothing found with query";
    ESLURM_REST_MISSING_UID = 9004, "Missing UNIX user in the system", since V23_02;
    ESLURM_REST_MISSING_GID = 9005, "Missing UNIX group in the system", since V23_02;
    ESLURM_REST_UNKNOWN_URL = 9006, "Unable to find requested URL endpoint. Please query the '/openapi/v3' endpoint or visit 'https://slurm.schedmd.com/rest_api.html' for the OpenAPI specification which includes a list of all possible slurmrestd endpoints.", since V25_11;
    ESLURM_REST_UNKNOWN_URL_METHOD = 9007, "Requested HTTP query method is not supported at URL endpoint. Please query the '/openapi/v3' endpoint or visit 'https://slurm.schedmd.com/rest_api.html' for the OpenAPI specification which includes a list of all possible slurmrestd endpoints.", since V25_11;
    ESLURM_REST_AUTH_FAIL = 9008, "Authentication failure", since V25_11;
    ESLURM_REST_BAD_REQUEST = 9009, "Query requirements not met", since V26_05;
    ESLURM_DATA_PATH_NOT_FOUND = 9200, "Unable to resolve path";
    ESLURM_DATA_PTR_NULL = 9201, "Data pointer is NULL";
    ESLURM_DATA_CONV_FAILED = 9202, "Unable to convert Data type";
    ESLURM_DATA_REGEX_COMPILE = 9203, "Unable to compile regex";
    ESLURM_DATA_UNKNOWN_MIME_TYPE = 9204, "MIME type is unknown to any loaded plugins";
    ESLURM_DATA_TOO_LARGE = 9205, "Data too large to handle";
    ESLURM_DATA_FLAGS_INVALID_TYPE = 9206, "Data parser expects flags to be a list", since V23_02;
    ESLURM_DATA_FLAGS_INVALID = 9207, "Data parser unable to parse invalid flag", since V23_02;
    ESLURM_DATA_EXPECTED_LIST = 9208, "Data parser expected a list", since V23_02;
    ESLURM_DATA_EXPECTED_DICT = 9209, "Data parser expected a dictionary or object", since V23_02;
    ESLURM_DATA_AMBIGUOUS_MODIFY = 9210, "Request matched more than one object to modify. Modifications must only apply to a single object. Try adding more properties to make update match a unique object.", since V23_02;
    ESLURM_DATA_AMBIGUOUS_QUERY = 9211, "Request matched more than one object to query. Request is limited to query of a single matching object.", since V23_02;
    ESLURM_DATA_PARSE_NOTHING = 9212, "Request to parse empty string rejected", since V23_02;
    ESLURM_DATA_INVALID_PARSER = 9213, "Invalid parser requested", since V23_11;
    ESLURM_DATA_PARSING_DEPTH = 9214, "Parsing tree too deep. Possible cyclic parsing detected", since V24_05;
    ESLURM_DATA_PARSER_INVALID_STATE = 9215, "Parser went into an invalid state. Possible library issue.", since V24_05;
    ESLURM_DATA_PARSE_BAD_INPUT = 9216, "Request to parse invalid data", since V25_11;
    ESLURM_CONTAINER_NOT_CONFIGURED = 10000, "Container support is not configured";
    ESLURM_URL_UNKNOWN_SCHEME = 11000, "URL unknown scheme", since V25_05;
    ESLURM_URL_EMPTY = 11001, "URL string is empty", since V25_05;
    ESLURM_URL_NON_NULL_TERMINATOR = 11002, "Invalid non-NULL terminated URL", since V25_11;
    ESLURM_URL_INVALID_FORMATING = 11003, "Invalid format for URL format", since V25_11;
    ESLURM_URL_INVALID_SCHEME = 11004, "Invalid or unknown URL scheme", since V25_11;
    ESLURM_URL_UNSUPPORTED_SCHEME = 11005, "URL scheme not supported", since V25_11;
    ESLURM_URL_INVALID_HOST = 11006, "Invalid or unknown URL host", since V25_11;
    ESLURM_URL_INVALID_PORT = 11007, "Invalid or unknown URL port", since V25_11;
    ESLURM_URL_INVALID_PATH = 11008, "Invalid or unknown URL path", since V25_11;
    ESLURM_URL_INVALID_QUERY = 11009, "Invalid or unknown URL query", since V25_11;
    ESLURM_URL_INVALID_FRAGMENT = 11010, "Invalid or unknown URL fragment", since V25_11;
    ESLURM_URL_UNSUPPORTED_FORMAT = 11011, "URL format not supported", since V25_11;
    ESLURM_HTTP_PARSING_FAILURE = 12000, "Unspecified error during HTTP parsing", since V25_11;
    ESLURM_HTTP_UNEXPECTED_URL = 12001, "Unexpected duplicate URL", since V25_11;
    ESLURM_HTTP_EMPTY_HEADER = 12002, "Invalid empty HTTP header", since V25_11;
    ESLURM_HTTP_INVALID_STATUS_CODE = 12003, "Invalid HTTP status code", since V25_11;
    ESLURM_HTTP_INVALID_METHOD = 12004, "Invalid HTTP method", since V25_11;
    ESLURM_HTTP_MISSING_LF = 12005, "Missing an expected LF character", since V25_11;
    ESLURM_HTTP_INVALID_CHARACTER = 12006, "Unexpected character added or missing in HTTP", since V25_11;
    ESLURM_HTTP_INVALID_CONTENT_LENGTH = 12007, "Unexpected character or unparsable number in HTTP Content-Length header", since V25_11;
    ESLURM_HTTP_INVALID_TRANSFER_ENCODING = 12008, "Invalid HTTP Tranfser-Encoding header", since V25_11;
    ESLURM_HTTP_UNSUPPORTED_CHUNK_ENCODING = 12009, "HTTP Chunked Transfer-Encoding not supported", since V25_11;
    ESLURM_HTTP_UNEXPECTED_REQUEST = 12010, "Received unexpected HTTP Request", since V25_11;
    ESLURM_HTTP_UNSUPPORTED_VERSION = 12011, "Only HTTP version 1.1 requests are supported", since V25_11;
    ESLURM_HTTP_UNSUPPORTED_UPGRADE = 12012, "HTTP protocol upgrading is not supported.", since V25_11;
    ESLURM_HTTP_INVALID_CONTENT_ENCODING = 12013, "Invalid or unsupported HTTP Content-Encoding header", since V25_11;
    ESLURM_HTTP_UNSUPPORTED_EXPECT = 12014, "Invalid or unsupported HTTP Content-Encoding header", since V25_11;
    ESLURM_HTTP_UNSUPPORTED_KEEP_ALIVE = 12015, "Invalid or unsupported HTTP Keep-Alive header", since V25_11;
    ESLURM_HTTP_CONTENT_LENGTH_TOO_LARGE = 12016, "HTTP Content-Length header too large to process", since V25_11;
    ESLURM_HTTP_POST_MISSING_CONTENT_LENGTH = 12017, "HTTP Content-Length header required for POST method requests", since V25_11;
    ESLURM_HTTP_UNEXPECTED_BODY = 12018, "Unexpected HTTP body provided when URL Query provided", since V25_11;
    ESLURM_HTTP_UNKNOWN_ACCEPT_MIME_TYPE = 12019, "HTTP Accept header content type is unknown or unsupported", since V25_11;
    ESLURM_HTTP_MISSING_CR = 12020, "Missing an expected CR character", since V26_05;
    ESLURM_TLS_REQUIRED = 13000, "TLS missing but required for connection", since V25_11;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_release_has_each_name_and_number_once() {
        let names: HashSet<&str> = ERRORS.iter().map(|error| error.name).collect();
        assert_eq!(names.len(), ERRORS.len());
        for release in Release::ALL {
            let mut codes = HashSet::from([0]);
            for error in ERRORS.iter().filter(|error| error.releases.has(*release)) {
                assert!(codes.insert(error.code), "{release}: {}", error.name);
            }
        }
    }

    #[test]
    fn scripts_know_as_many_errors_as_in_slurm() {
        let count = |release| ERRORS.iter().filter(|error| error.is_in_scripts(release)).count();
        let counts: Vec<usize> = Release::ALL.iter().map(|release| count(*release)).collect();
        // Slurm's table also has SLURM_SUCCESS, which is not an error.
        assert_eq!(counts, [8, 261, 284, 292, 297, 303, 353, 375]);
    }

    #[test]
    fn errors_of_newer_releases_have_their_numbers() {
        for (error, code) in [
            (ESLURM_RES_CORES_PER_GPU_UNIQUE, 2174),
            (ESLURM_INVALID_EXTERNAL_JOB, 2189),
            (ESLURM_LUA_FUNC_FAILED, 7404),
        ] {
            assert_eq!(error.code(), code);
        }
    }

    #[test]
    fn a_number_that_was_given_anew_is_read_by_release() {
        let name = |release| SlurmError::in_release(2007, release).unwrap().name();
        assert_eq!(name(Release::V22_05), "ESLURM_ERROR_ON_DESC_TO_RECORD_COPY");
        assert_eq!(name(Release::V26_05), "ESLURM_MAX_JOB_COUNT");
        assert_eq!(SlurmError::from_code(2007), Some(ESLURM_MAX_JOB_COUNT));
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
