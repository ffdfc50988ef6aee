//! Test beds shared by the end-to-end tests.
