//! What is usual for something, learned from its own past.

/// Figures that have to be seen before anything is called usual: an hour of them.
const LEAST: u32 = 360;
/// Figures that the mean is over: a day of them.
const MOST: u32 = 8640;
/// What is unusual is learned as if it were so many times what is usual, at most: a bad night is not to become the measure.
const MOST_UNUSUAL: f64 = 2.0;

/// The mean of the last day, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Baseline {
    /// In the unit of the figure.
    pub mean: f64,
    /// Figures that were seen, up to a day of them.
    pub count: u32,
}

impl Baseline {
    /// Takes a figure, and says how many times what is usual it is; `None` as long as nobody knows what is usual.
    pub fn hold(&mut self, value: f64) -> Option<f64> {
        let times = (self.count >= LEAST && self.mean > 0.0).then(|| value / self.mean);
        let learned = if times.is_some() { value.min(self.mean * MOST_UNUSUAL) } else { value };
        self.count = (self.count + 1).min(MOST);
        self.mean += (learned - self.mean) / f64::from(self.count);
        times
    }
}
