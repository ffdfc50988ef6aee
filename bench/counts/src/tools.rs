//! What the number of instructions depends on beside the source.

use std::process::Command;

use crate::error::Error;

/// Compiler, Valgrind, C library, and whether the processor has the vector instructions for which libraries have code
/// of their own. In one line.
pub fn versions() -> Result<String, Error> {
    let rustc = first_line("rustc", &["--version"])?;
    let valgrind = first_line("valgrind", &["--version"])?;
    let library = first_line("getconf", &["GNU_LIBC_VERSION"])?;
    let vectors = if has_vectors() { "with AVX2" } else { "without AVX2" };
    Ok(format!("{rustc}, {valgrind}, {library}, {} {vectors}", std::env::consts::ARCH))
}

#[cfg(target_arch = "x86_64")]
fn has_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vectors() -> bool {
    false
}

fn first_line(program: &'static str, arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|source| Error::Start { program, source })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed { program, said });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
