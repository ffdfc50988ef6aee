//! As many points as there is room for.

use super::{Line, Lines, Point};

impl Lines {
    /// The same with longer slots, so that they are at most about `room`. Slots are joined at the same times whenever that is done: what
    /// was joined once stays as it is when time goes on, and the first may begin a little earlier, the last end a little later.
    pub fn reduced(&self, room: usize) -> Lines {
        let step_s = self.step_s();
        let each = self.slots.div_ceil(room.max(1)).max(1);
        let before = (self.begin_s / step_s % each as u64) as usize;
        let slots = (before + self.slots).div_ceil(each);
        let line = |line: &Line| {
            let points = &line.points[..line.points.len().min(self.slots)];
            // The first of the joined slots has fewer.
            let (first, rest) = points.split_at((each - before).min(points.len()));
            let joined = std::iter::once(first).chain(rest.chunks(each)).map(fold).take(slots).collect();
            Line { label: line.label.clone(), points: joined }
        };
        Lines {
            title: self.title.clone(),
            note: self.note.clone(),
            begin_s: self.begin_s - before as u64 * step_s,
            step_s: step_s.saturating_mul(each as u64),
            slots,
            lines: self.lines.iter().map(line).collect(),
            ..*self
        }
    }
}

/// The smallest, the mean of means, the largest; unknown if all is.
fn fold(points: &[Option<Point>]) -> Option<Point> {
    let known = || points.iter().filter_map(|point| point.and_then(Point::known));
    let first = known().next()?;
    let count = known().count() as f64;
    // Each divided, so that the sum of large values is one.
    let mean = known().map(|point| point.mean / count).sum();
    let (least, most) = known().fold((first.least, first.most), |(least, most), point| {
        (point.least.min(least), point.most.max(most))
    });
    Point { least, mean, most }.known()
}
