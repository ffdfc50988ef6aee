//! Text negotiation in full-feature phase.
