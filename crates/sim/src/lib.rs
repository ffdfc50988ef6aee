//! The seeded world: whole nodes on simulated disks, network and time.
