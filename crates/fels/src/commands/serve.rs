//! `fels serve`: a node in the foreground, until a signal ends it.

mod life;

use super::announcement::{Pool, announcement};
use super::limits::raise_open_files;
use crate::message::{Failure, colours, print};
use control::Store;
use control::store::StoreError;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
/// What a process ends with that a second signal stopped, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Serve the volumes of a configuration, in the foreground
///
/// With --data alone the configuration is fels.toml in that directory, made if it is missing: `fels volume create` fills it.
/// Prints where it listens and, for each volume, how each initiator connects. SIGTERM and SIGINT (Ctrl-C)
/// drain what is in flight and end with 0; a second one ends at once with 130.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration (TOML); changes by command are written into it
    #[arg(short, long, value_name = "FILE", required_unless_present = "data")]
    config: Option<PathBuf>,

    /// The data directory, with its configuration in it
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data: Option<PathBuf>,

    /// What to log on stderr: error, warn, info, debug, trace, or per module, such as info,plane=debug
    #[arg(long, value_name = "LEVEL", env = "FELS_LOG", default_value = "info")]
    log: String,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    log_to_stderr(&arguments.log)?;
    let store = store(arguments)?;
    let document = store.read()?;
    let mut config = document.config.clone();
    control::number_namespaces(&mut config);
    raise_open_files();
    // Before the start, so that a signal that comes during it is not lost.
    let mut signals = signals()?;
    let node = control::start(store, document).map_err(|error| Failure::caused(&error, error.hint()))?;
    // Nobody has to read it for the node to serve.
    let pools: Vec<_> = node.pools().list().iter().map(|pool| Pool::of(pool)).collect();
    print(&announcement(&config, node.portals(), &pools))?;
    let scheme = if node.api().is_encrypted() { "https" } else { "http" };
    for address in node.api().http() {
        print(&format!("administered on {scheme}://{address}\n"))?;
    }
    let life = life::Life::begin(&node);
    let signal = signals.forever().next();
    tracing::info!(signal = signal.and_then(signal_hook::low_level::signal_name), "draining");
    if let Some(life) = life {
        life.end();
    }
    node.shutdown().map_err(|error| Failure::caused(&error, error.hint()))?;
    tracing::info!("stopped");
    Ok(())
}

/// Where the configuration is.
fn store(arguments: &Arguments) -> Result<Store, Failure> {
    let store = match (&arguments.config, &arguments.data) {
        (Some(file), _) => Store::of_file(file),
        (None, Some(data)) => Store::of_directory(data),
        (None, None) => {
            return Err(Failure::usage("nobody said what to serve", "give --config FILE or --data DIR"));
        }
    };
    store.map_err(|error| match error {
        StoreError::Config(errors) => errors.into(),
        StoreError::Io { .. } => {
            Failure::caused(&error, Some("the user who runs fels has to own that directory"))
        }
    })
}

/// The signals that end the node. The second of them ends the process in its handler, whatever hangs.
fn signals() -> Result<Signals, Failure> {
    let failed = |error| Failure::new(format!("the handlers of signals cannot be set: {error}"), None);
    let armed = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds it unarmed and arms it.
        let again = Arc::clone(&armed);
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, again).map_err(failed)?;
        signal_hook::flag::register(signal, Arc::clone(&armed)).map_err(failed)?;
    }
    Signals::new([SIGTERM, SIGINT]).map_err(failed)
}

fn log_to_stderr(level: &str) -> Result<(), Failure> {
    let filter = filter(level).ok_or_else(|| {
        Failure::usage(
            format!("`{level}` is not a level to log at"),
            "write error, warn, info, debug or trace, or per module, such as info,plane=debug",
        )
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && colours())
        // Else a log that nobody reads any more (a closed pipe) would end the node with a panic.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// A filter of log lines. The library takes a misspelt level for the name of a module, and would log nothing.
fn filter(text: &str) -> Option<EnvFilter> {
    let known = |level: &str| LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level.trim()));
    let parts = text.split(',').all(|part| known(part.rsplit_once('=').map_or(part, |(_, level)| level)));
    if parts { EnvFilter::try_new(text).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_or_one_per_module() {
        for good in ["info", "WARN", "off", "info,plane=debug", "control=trace"] {
            assert!(filter(good).is_some(), "{good}");
        }
        for bad in ["", "verbose", "plane", "plane=loud", "info,,debug", "info debug"] {
            assert!(filter(bad).is_none(), "{bad}");
        }
    }
}
