//! The layer that does nothing: what a hop costs.

use crate::layers::Layer;

/// Passes every verb through.
pub struct Passthrough;

impl Layer for Passthrough {
    fn name(&self) -> &'static str {
        "passthrough"
    }
}
