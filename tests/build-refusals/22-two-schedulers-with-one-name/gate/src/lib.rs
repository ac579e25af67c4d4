jobtap_core::scheduler! {
    /// One of two.
    pub static OURS = "ours", |_| Err("not today".to_owned());
}
