//! Places between two steps of a change at which tests let the node die.

/// Dies here if `FELS_DIE_AT` says so. Only in builds with debug assertions: the product has no such place.
pub fn point(name: &str) {
    if cfg!(debug_assertions) && std::env::var_os("FELS_DIE_AT").is_some_and(|wanted| wanted == name) {
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("a process may kill itself");
        // The signal is on its way.
        loop {
            std::thread::park();
        }
    }
}
