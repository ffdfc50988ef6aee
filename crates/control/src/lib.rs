//! Desired state: the configuration, checked as a whole, and the node made from it.
