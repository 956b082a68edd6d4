//! The system calls without a safe wrapper: starting a child that shares our memory, `wait4`, a `waitid` that returns
//! the pid, and `close_range`. This is the only unsafe code of the process module.

#![expect(unsafe_code, reason = "libc is called directly; every block says why it is sound")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{Pid, Rlimit, WaitOptions};

use super::brand::Brand;
use super::procfs::pid_of;
use super::spawn::PASSED;
use crate::files::privacy::umask_of_tools;
use crate::limits;

/// Bytes of the stack of a new process until its exec. A few functions of the C library are called on it, one after
/// another.
const STACK_BYTES: usize = 32 << 10;

thread_local! {
    /// The stack of the last child of this thread, which is reused: an allocation of this size makes glibc consolidate
    /// all small free blocks.
    static STACK: Cell<Vec<u128>> = const { Cell::new(Vec::new()) };
}

/// The parameters of a new process.
#[derive(Clone, Copy)]
pub(super) struct NewProcess<'a> {
    pub(super) program: &'a CStr,
    pub(super) arguments: &'a [&'a CStr],
    pub(super) environment: &'a [&'a CStr],
    pub(super) folder: BorrowedFd<'a>,
    /// Its standard input, output and error, each above 2.
    pub(super) stdio: [BorrowedFd<'a>; 3],
    pub(super) brand: Option<Brand>,
    /// Its umask; `None` for the umask of tools.
    pub(super) umask: Option<Mode>,
    /// It ends with `ETIME` instead of its exec when the machine has been up for longer than this.
    pub(super) not_after: Option<Duration>,
    /// Whether it leads a session, whose controlling terminal is its standard input.
    pub(super) is_terminal: bool,
    /// A descriptor above [`PASSED`] that it gets under that number.
    pub(super) passed: Option<BorrowedFd<'a>>,
}

/// The data of a new process before its exec, while it must not allocate.
struct Birth<'a> {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    folder: c_int,
    stdio: [c_int; 3],
    unusual: &'a [c_int],
    /// Its umask, if that differs from ours.
    umask: Option<libc::mode_t>,
    /// Its `RLIMIT_RTTIME`, if it gets one.
    brand: Option<libc::rlimit>,
    not_after: Option<Duration>,
    is_terminal: bool,
    passed: Option<c_int>,
    /// Its `RLIMIT_NOFILE`, if that differs from ours.
    descriptors: Option<libc::rlimit>,
    /// The error number of a failure, or 0.
    error: c_int,
}

/// Starts a process in its own group, with an empty signal mask and default dispositions.
///
/// `std::process::Command` is not used because it passes the caller's signal mask on. An agent that reads its signals
/// from a signalfd has them blocked, so its tools would be deaf to SIGTERM. Unblocking them around the call would let a
/// SIGTERM end the agent itself. `posix_spawn` does the same as this function, but makes some 80 system calls around
/// it: it maps a stack for each child, sets every one of 64 dispositions, and queries the descriptor limit six times.
///
/// The child shares our memory and our thread is suspended until its exec, so the cost does not grow with the memory of
/// the caller, and the error of a failed exec is returned.
pub(super) fn start(new: &NewProcess<'_>) -> Result<Pid> {
    let (arguments, environment) = (pointers(new.arguments), pointers(new.environment));
    let mut birth = Birth {
        program: new.program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        folder: new.folder.as_raw_fd(),
        stdio: new.stdio.map(|fd| fd.as_raw_fd()),
        unusual: unusual_dispositions(),
        umask: new.umask.or_else(umask_of_tools).map(|mode| mode.bits()),
        brand: new.brand.map(|brand| libc::rlimit { rlim_cur: brand.number(), rlim_max: brand.number() }),
        not_after: new.not_after,
        is_terminal: new.is_terminal,
        passed: new.passed.map(|fd| fd.as_raw_fd()),
        descriptors: limits::for_programs().map(raw_limit),
        error: 0,
    };
    let mut stack = STACK.take();
    stack.reserve_exact(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `be_born` gets the live `birth` and a stack of its own. The parent is suspended until the child has left both
    // by its exec or its end. No signal can make the child run a handler of ours: all are blocked until it has reset them.
    let (pid, error) = unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        let pid = libc::clone(be_born, top.cast(), flags, (&raw mut birth).cast());
        let error = last_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        (pid, error)
    };
    STACK.set(stack);
    let child = pid_of(pid).ok_or(error)?;
    // SAFETY: the value is ours; the child has written it through the pointer that it was given.
    match unsafe { ptr::read_volatile(&raw const birth.error) } {
        0 => Ok(child),
        error => {
            // The child ends at once, so this wait is short.
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
            Err(Errno::from_raw_os_error(error))
        }
    }
}

fn raw_limit(limit: Rlimit) -> libc::rlimit {
    let raw = |limit: Option<u64>| limit.unwrap_or(libc::RLIM_INFINITY);
    libc::rlimit { rlim_cur: raw(limit.current), rlim_max: raw(limit.maximum) }
}

/// Runs in a new process until its exec. It must not panic, allocate or lock: all memory is that of its parent.
extern "C" fn be_born(birth: *mut c_void) -> c_int {
    let birth: *mut Birth<'_> = birth.cast();
    // SAFETY: the pointer is that of `start`, whose thread is suspended. All calls are async-signal-safe, and the error
    // number that they set belongs to the parent, which does not read it.
    unsafe {
        if !prepare_exec(&*birth) || libc::execve((*birth).program, (*birth).arguments, (*birth).environment) == -1 {
            ptr::write_volatile(&raw mut (*birth).error, *libc::__errno_location());
        }
        libc::_exit(127)
    }
}

/// # Safety
/// For a new process before its exec only.
unsafe fn prepare_exec(birth: &Birth<'_>) -> bool {
    // SAFETY: an all-zero disposition is the default one with no flags; the pointers are to live values.
    unsafe {
        let default = MaybeUninit::<libc::sigaction>::zeroed();
        for &signal in birth.unusual {
            libc::sigaction(signal, default.as_ptr(), ptr::null_mut());
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        if let Some(mode) = birth.umask {
            libc::umask(mode);
        }
        if let Some(limit) = &birth.descriptors {
            // A failure leaves it with our limit, which is higher than needed.
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        if let Some(brand) = &birth.brand {
            // Without it, the program is still recognised by its environment.
            libc::setrlimit(libc::RLIMIT_RTTIME, brand);
        }
        let [stdin, stdout, stderr] = birth.stdio;
        let leads = if birth.is_terminal { libc::setsid() != -1 } else { libc::setpgid(0, 0) == 0 };
        let has_streams =
            leads && libc::dup2(stdin, 0) == 0 && libc::dup2(stdout, 1) == 1 && libc::dup2(stderr, 2) == 2;
        if birth.is_terminal {
            // This fails for a terminal that controls another session, which still serves as standard input.
            libc::ioctl(0, libc::TIOCSCTTY, 0);
        }
        has_streams
            && libc::fchdir(birth.folder) == 0
            && birth.passed.is_none_or(|fd| libc::dup2(fd, PASSED) == PASSED)
            && libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) == 0
            && birth.not_after.is_none_or(|end| is_before(end))
    }
}

/// Whether a new process is in time. It checks this itself, last of all: stopping its parent does not stop it, so
/// nothing delays it for long between this check and the exec.
///
/// # Safety
/// For a new process before its exec only.
unsafe fn is_before(end: Duration) -> bool {
    // SAFETY: async-signal-safe, with a pointer to a value of ours; the error number is as in `be_born`.
    unsafe {
        let mut now = MaybeUninit::<libc::timespec>::zeroed();
        libc::clock_gettime(libc::CLOCK_BOOTTIME, now.as_mut_ptr());
        let now = now.assume_init();
        let seconds = u64::try_from(now.tv_sec).unwrap_or(u64::MAX);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        let is_before = (seconds, nanos) < (end.as_secs(), end.subsec_nanos());
        if !is_before {
            *libc::__errno_location() = libc::ETIME;
        }
        is_before
    }
}

fn pointers(texts: &[&CStr]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// The signals whose disposition is not the default one, because this process inherited or set it at its start. Read at
/// the first start of a child and then cached.
fn unusual_dispositions() -> &'static [c_int] {
    static UNUSUAL: LazyLock<Vec<c_int>> = LazyLock::new(|| {
        let is_unusual = |&signal: &c_int| {
            let mut present = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: the pointer is to a live value, and an all-zero disposition is a valid one if the call fails.
            unsafe {
                libc::sigaction(signal, ptr::null(), present.as_mut_ptr());
                present.assume_init().sa_sigaction != libc::SIG_DFL
            }
        };
        (1..=libc::SIGRTMAX()).filter(is_unusual).collect()
    });
    &UNUSUAL
}

/// How a child ended, and its resource usage.
pub(super) struct Waited {
    /// The wait status, for `libc::WIFEXITED` and its like.
    pub(super) status: c_int,
    pub(super) usage: libc::rusage,
}

/// An empty usage.
#[cfg(test)]
pub(super) fn no_usage() -> libc::rusage {
    // SAFETY: an all-zero rusage is a valid one.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Reaps one known child if it has ended; never another child.
pub(super) fn wait4(pid: Pid) -> Result<Option<Waited>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live values; an all-zero rusage is a valid one.
    let (result, usage) = unsafe {
        let result = libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
        (result, usage.assume_init())
    };
    match result {
        0 => Ok(None),
        -1 => Err(last_error()),
        _ => Ok(Some(Waited { status, usage })),
    }
}

/// The result of checking all children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peek {
    /// There is no child at all.
    NoChild,
    /// There are children, none of which has ended.
    Alive,
    /// This child has ended and waits to be reaped.
    Ended(Pid),
}

/// Checks for children without reaping any. The status stays for the owner of the child.
pub(super) fn peek_children() -> Result<Peek> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a live value; an all-zero siginfo is a valid one, and its `si_pid` reads as 0, which the
    // kernel also leaves when no child has ended.
    let (result, pid) = unsafe {
        let result = libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags);
        (result, info.assume_init().si_pid())
    };
    match result {
        0 => Ok(pid_of(pid).map_or(Peek::Alive, Peek::Ended)),
        _ => match last_error() {
            Errno::CHILD => Ok(Peek::NoChild),
            error => Err(error),
        },
    }
}

/// Takes over a descriptor that the previous program in this process has left open; `None` if no descriptor has this
/// number. It is closed on the next exec.
pub(crate) fn adopt_descriptor(number: i32) -> Option<OwnedFd> {
    // SAFETY: the call takes integers, and fails for a number that is not open.
    if number < 3 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return None;
    }
    // SAFETY: the descriptor is open, and the caller is the only one that was told its number.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Resets SIGCHLD to its default. If it is ignored, which a parent can pass on, the kernel reaps our children itself
/// and their exit codes are lost.
pub(super) fn default_sigchld() {
    // SAFETY: SIG_DFL installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Marks every descriptor from 3 up as close-on-exec, in one system call if the kernel has it (Linux 5.11).
///
/// # Errors
/// The error of the system.
pub fn close_all_on_exec() -> Result<()> {
    let first: c_uint = 3;
    // SAFETY: the call takes three integers and changes flags only.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 {
        return Ok(());
    }
    match last_error() {
        // EPERM: the seccomp filter of an old container runtime.
        Errno::NOSYS | Errno::INVAL | Errno::PERM => close_each_on_exec(),
        error => Err(error),
    }
}

fn close_each_on_exec() -> Result<()> {
    let list = std::fs::read_dir("/proc/self/fd").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let numbers = list.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<c_int>().ok());
    for fd in numbers.filter(|&fd| fd > 2) {
        // SAFETY: the call takes integers and changes a flag; a number that is closed meanwhile gives EBADF.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn both_ways_mark_a_leaked_descriptor() {
        for mark in [close_all_on_exec, close_each_on_exec] {
            let file = std::fs::File::open("/dev/null").unwrap();
            rustix::io::fcntl_setfd(file.as_fd(), rustix::io::FdFlags::empty()).unwrap();
            mark().unwrap();
            assert_eq!(rustix::io::fcntl_getfd(file.as_fd()).unwrap(), rustix::io::FdFlags::CLOEXEC);
        }
    }
}
