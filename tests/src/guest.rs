//! Debian's kernel in QEMU under software emulation: the Linux initiator, without root and without KVM.
//!
//! The kernel comes from apt into `${XDG_CACHE_HOME:-~/.cache}/fels/kernel` and is reused from there. Programs
//! are those of the machine, copied with their libraries into an initramfs. The guest reaches the host's
//! loopback as 10.0.2.2.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::Tool;
use crate::tool::{Outcome, locate};

mod cpio;

/// A kernel image with its modules.
pub struct Kernel {
    version: String,
    folder: PathBuf,
}

/// Tests of one process that need the kernel wait here for the first one to fetch it.
static FETCHING: Mutex<()> = Mutex::new(());

/// The newest cached kernel; fetched from apt when there is none.
pub fn kernel() -> Kernel {
    let _guard = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("HOME or XDG_CACHE_HOME is set")).join(".cache"),
        PathBuf::from,
    );
    let cache = cache.join("fels/kernel");
    fs::create_dir_all(&cache).expect("the cache directory can be made");
    cached(&cache).unwrap_or_else(|| {
        fetch(&cache);
        cached(&cache).expect("the kernel just fetched is there")
    })
}

fn cached(cache: &Path) -> Option<Kernel> {
    let names = fs::read_dir(cache).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let version = names.filter(|name| name.ends_with("-amd64") && !name.starts_with('.')).max()?;
    Some(Kernel { folder: cache.join(&version), version })
}

fn fetch(cache: &Path) {
    let depends =
        Tool::new("apt-cache").args(["depends", "--important", "linux-image-amd64"]).run().expect_success();
    let package = depends.stdout.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let version = package.expect("linux-image-amd64 depends on a kernel\nhint: apt-get update").to_owned();
    // In the cache itself, so that the finished folder only has to be renamed.
    let scratch =
        tempfile::Builder::new().prefix(".fetching-").tempdir_in(cache).expect("a temporary directory");
    let patient = |program| Tool::new(program).folder(scratch.path()).deadline(Duration::from_secs(300));
    let _ = patient("apt-get").args(["download", &format!("linux-image-{version}")]).run().expect_success();
    let archive =
        fs::read_dir(scratch.path()).ok().and_then(|mut files| files.next()?.ok()).expect("a .deb file");
    let _ = patient("dpkg-deb").arg("-x").arg(archive.path()).arg("root").run().expect_success();
    let _ = patient("depmod").args(["-b", "root", &version]).run().expect_success();
    // Lost to another process that fetched it too: its copy is as good.
    let _ = fs::rename(scratch.path().join("root"), cache.join(&version));
}

impl Kernel {
    fn image(&self) -> PathBuf {
        self.folder.join("boot").join(format!("vmlinuz-{}", self.version))
    }

    /// Module files of `names` and of all they depend on, in the order of loading.
    fn modules(&self, names: &[&str]) -> Vec<PathBuf> {
        let folder = self.folder.join("lib/modules").join(&self.version);
        let dependencies = fs::read_to_string(folder.join("modules.dep")).expect("modules.dep can be read");
        let builtin =
            fs::read_to_string(folder.join("modules.builtin")).expect("modules.builtin can be read");
        let mut seen = BTreeSet::new();
        let mut files = Vec::new();
        for name in names {
            let file = format!("/{name}.ko");
            let Some((module, needs)) = dependencies
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(module, _)| module.ends_with(&file))
            else {
                assert!(builtin.lines().any(|line| line.ends_with(&file)), "the kernel has no module {name}");
                continue;
            };
            for module in needs.split_whitespace().rev().chain([module]) {
                if seen.insert(module.to_owned()) {
                    files.push(folder.join(module));
                }
            }
        }
        files
    }
}

/// A guest being prepared: what is in its initramfs.
pub struct Guest {
    kernel: Kernel,
    archive: cpio::Archive,
    copied: BTreeSet<PathBuf>,
    loads: String,
    cpus: usize,
}

impl Guest {
    /// A guest with busybox, its network card and `modules`.
    pub fn new(modules: &[&str]) -> Self {
        let kernel = kernel();
        let mut archive = cpio::Archive::default();
        for folder in ["proc", "sys", "dev", "run", "tmp", "mnt", "root"] {
            archive.folder(folder);
        }
        let busybox = fs::read(locate("busybox")).expect("busybox can be read");
        archive.file("bin/busybox", 0o755, &busybox);
        let mut loads = String::new();
        for module in kernel.modules(&[&["virtio_pci", "virtio_net"], modules].concat()) {
            let name = module.file_name().and_then(|name| name.to_str()).expect("a module's name").to_owned();
            archive.file(
                &format!("modules/{name}"),
                0o644,
                &fs::read(&module).expect("a module can be read"),
            );
            let _ = writeln!(loads, "insmod /modules/{name} || fail 'module {name}'");
        }
        Self { kernel, archive, copied: BTreeSet::new(), loads, cpus: 1 }
    }

    /// How many processors it has; one, unless said.
    #[must_use]
    pub fn cpus(mut self, count: usize) -> Self {
        self.cpus = count;
        self
    }

    /// Adds a program of this machine with the libraries it needs, in /usr/sbin. A name that busybox has too
    /// must be called by its path: its shell prefers its own.
    #[must_use]
    pub fn program(mut self, name: &str) -> Self {
        let program = locate(name);
        let listed = Tool::new("ldd").arg(&program).run();
        // Each line names a library's file, after `=>` or alone.
        let words =
            listed.stdout.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
        for library in words.map(PathBuf::from) {
            self.copy(&library, library.to_str().expect("a path in UTF-8"));
        }
        self.copy(&program, &format!("usr/sbin/{name}"));
        self
    }

    fn copy(&mut self, from: &Path, to: &str) {
        if self.copied.insert(from.into()) {
            let bytes = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            self.archive.file(to.trim_start_matches('/'), 0o755, &bytes);
        }
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.archive.file(path.trim_start_matches('/'), 0o644, text.as_bytes());
        self
    }

    /// Boots, runs `script` (in busybox's shell, with the network up) and returns the console.
    ///
    /// In the script `fail WORDS` ends the guest and shows `/tmp/*.log`; a guest that reached the end of the script says
    /// [`VERDICT`] on its console.
    pub fn run(mut self, script: &str, deadline: Duration) -> Outcome {
        let init = format!(
            "#!/bin/busybox sh\n\
             /bin/busybox --install -s /bin\n\
             export PATH=/usr/sbin:/bin\n\
             mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev\n\
             fail() {{ echo \"BED: failed: $*\"; dmesg | tail -n 30; cat /tmp/*.log; poweroff -f; }}\n\
             step() {{ echo \"BED: $(cut -d' ' -f1 /proc/uptime) $*\"; }}\n\
             {}\
             ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0 || fail network\n\
             {script}\n\
             echo '{VERDICT}'\n\
             poweroff -f\n",
            self.loads
        );
        self.archive.file("init", 0o755, init.as_bytes());
        let folder = tempfile::tempdir().expect("a temporary directory");
        let initramfs = folder.path().join("initramfs");
        fs::write(&initramfs, self.archive.finish()).expect("the initramfs can be written");
        Tool::new("qemu-system-x86_64")
            .args([
                "-accel",
                "tcg",
                "-cpu",
                "max",
                "-m",
                "768",
                "-no-reboot",
                "-display",
                "none",
                "-monitor",
                "none",
            ])
            .args(["-smp", &self.cpus.to_string()])
            .args(["-serial", "stdio", "-nic", "user,model=virtio-net-pci"])
            .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on"])
            .arg("-kernel")
            .arg(self.kernel.image())
            .arg("-initrd")
            .arg(&initramfs)
            .deadline(deadline)
            .run()
    }
}

/// The last line of a guest whose script came to its end.
pub const VERDICT: &str = "BED: verdict good";
