//! What is counted, and where. Callgrind knows the functions of this file, and two of `ring`'s simulation, by their names.

use std::hint::black_box;

/// Counted: everything in here, and what a simulated reactor does in its turns.
const COUNTED: [&str; 2] = ["counts::meter::counted", "ring::sim::world::simulated_turn"];
/// Left out of that: what the simulated world does in place of the kernel.
const LEFT_OUT: (&str, [&str; 6]) =
    ("ring::sim::driver::Driver", ["now", "has_lockstep", "submit", "cancel", "turn", "chunk"]);

/// Callgrind's options: what to count, what to leave out, when to begin and when to write down. Names are whole, as a part
/// of one would also be found in those of closures.
pub fn callgrind_options() -> Vec<String> {
    let mut options =
        vec!["--zero-before=counts::meter::begin".to_owned(), "--dump-before=counts::meter::end".to_owned()];
    options.extend(COUNTED.map(|name| format!("--toggle-collect={name}")));
    let (driver, methods) = LEFT_OUT;
    for method in methods {
        // As the older and as the newer compilers' symbols are shown.
        options.push(format!("--toggle-collect={driver}::{method}"));
        options.push(format!("--toggle-collect=<{driver}>::{method}"));
    }
    options
}

/// Counts `operations` of them, done by `work` that is given their number, after twice as many that warm up. What is
/// counted is named on standard output, in the order in which Callgrind writes its files.
pub fn measure(path: &str, operations: u64, mut work: impl FnMut(u64)) {
    work(2 * operations);
    begin();
    work(operations);
    end();
    println!("{path} {operations}");
}

/// The same outside of a reactor.
pub fn measure_all(path: &str, mut work: impl FnMut()) {
    const OPERATIONS: u64 = 1000;
    measure(path, OPERATIONS, |operations| {
        counted(&mut || {
            for _ in 0..operations {
                work();
            }
        });
    });
}

/// Everything that runs in here is counted.
#[inline(never)]
pub fn counted(work: &mut dyn FnMut()) {
    work();
}

#[inline(never)]
fn begin() {
    // Not the same as `end`, or the linker would make one of both.
    black_box(1);
}

#[inline(never)]
fn end() {
    black_box(2);
}
