jobtap_core::scheduler! {
    /// One of two.
    pub static OURS = "ours", |_| Err(jobtap_core::sched::TableError::new("not today"));
}
