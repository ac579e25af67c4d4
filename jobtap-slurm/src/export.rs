//! The macros by which a generated crate of the type `cdylib` becomes a Slurm plugin.

/// Makes the crate a job_submit plugin with this name that contains these plugins, in this order. Its file must be
/// named `job_submit_NAME.so`.
///
/// ```ignore
/// use fairshare as _;
/// use limits as _;
/// jobtap_slurm::export_job_submit!("site", ["limits", "fairshare"]);
/// ```
#[macro_export]
macro_rules! export_job_submit {
    ($name:literal, [$($plugin:literal),* $(,)?]) => {
        $crate::__export_plugin!("job_submit", $name, init_job_submit, [$($plugin),*]);

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn job_submit(
            descriptor: *mut ::std::ffi::c_void,
            user: u32,
            message: *mut *mut ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: only slurmctld calls this, as `ffi::job_submit` requires.
            unsafe { $crate::ffi::job_submit(descriptor, user, message) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn job_modify(
            descriptor: *mut ::std::ffi::c_void,
            record: *mut ::std::ffi::c_void,
            user: u32,
            message: *mut *mut ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: only slurmctld calls this, as `ffi::job_modify` requires.
            unsafe { $crate::ffi::job_modify(descriptor, record, user, message) }
        }
    };
}

/// Makes the crate a PrEp plugin with this name that contains these plugins, in this order. Its file must be named
/// `prep_NAME.so`.
///
/// ```ignore
/// use scratch as _;
/// jobtap_slurm::export_prep!("site", ["scratch"]);
/// ```
#[macro_export]
macro_rules! export_prep {
    ($name:literal, [$($plugin:literal),* $(,)?]) => {
        $crate::__export_plugin!("prep", $name, init_prep, [$($plugin),*]);

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn prep_p_register_callbacks(callbacks: *mut ::std::ffi::c_void) {
            // SAFETY: only slurmctld calls this, with its callbacks.
            unsafe { $crate::ffi::prep_register_callbacks(callbacks) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn prep_p_prolog(
            env: *mut ::std::ffi::c_void,
            _credential: *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: only slurmd calls this, with its `job_env_t`.
            unsafe { $crate::ffi::prep_prolog(env) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn prep_p_epilog(
            env: *mut ::std::ffi::c_void,
            _credential: *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: only slurmd calls this, with its `job_env_t`.
            unsafe { $crate::ffi::prep_epilog(env) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn prep_p_prolog_slurmctld(
            record: *mut ::std::ffi::c_void,
            is_async: *mut bool,
        ) -> ::std::ffi::c_int {
            // SAFETY: only slurmctld calls this, as `ffi::prep_prolog_slurmctld` requires.
            unsafe { $crate::ffi::prep_prolog_slurmctld(record, is_async) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn prep_p_epilog_slurmctld(
            record: *mut ::std::ffi::c_void,
            is_async: *mut bool,
        ) -> ::std::ffi::c_int {
            // SAFETY: only slurmctld calls this, as `ffi::prep_epilog_slurmctld` requires.
            unsafe { $crate::ffi::prep_epilog_slurmctld(record, is_async) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn prep_p_required(call: ::std::ffi::c_int, required: *mut bool) {
            // SAFETY: only Slurm's daemons call this, with a pointer to a variable.
            unsafe { $crate::ffi::prep_required(call, required) }
        }
    };
}

/// Defines the symbols that every Slurm plugin exports.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_plugin {
    ($kind:literal, $name:literal, $init:ident, [$($plugin:literal),*]) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static plugin_name: [u8; concat!("jobtap plugins ", $($plugin, " ",)* "").len() + 1] =
            $crate::ffi::c_array(concat!("jobtap plugins ", $($plugin, " ",)* ""));

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static plugin_type: [u8; concat!($kind, "/", $name).len() + 1] =
            $crate::ffi::c_array(concat!($kind, "/", $name));

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static plugin_version: u32 = $crate::ffi::VERSION;

        #[unsafe(no_mangle)]
        pub extern "C" fn init() -> ::std::ffi::c_int {
            $crate::ffi::$init(&[$($plugin),*])
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn fini() -> ::std::ffi::c_int {
            $crate::ffi::fini()
        }
    };
}
