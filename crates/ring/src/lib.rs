//! One io_uring, one clock, one buffer pool and one executor per core; and their simulated twin.
