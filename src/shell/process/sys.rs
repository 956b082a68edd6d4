//! The system calls for which there is no safe wrapper: `posix_spawn` with a folder and a signal mask, `fork`, `wait4`, a
//! `waitid` that tells the pid, `close_range`. The only unsafe code of the process part.

#![expect(unsafe_code, reason = "libc is called directly; every block says why it is sound")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::{Errno, Result};
use rustix::process::Pid;

use super::procfs::pid_of;

/// All that a new process is made of.
pub(super) struct NewProcess<'a> {
    pub(super) program: &'a CStr,
    pub(super) arguments: &'a [CString],
    pub(super) environment: &'a [CString],
    pub(super) folder: BorrowedFd<'a>,
    pub(super) stdin: BorrowedFd<'a>,
    pub(super) stdout: BorrowedFd<'a>,
    pub(super) stderr: BorrowedFd<'a>,
}

/// Starts a process in a group of its own, with an empty signal mask and default dispositions.
///
/// Not `std::process::Command`: it also uses `posix_spawn`, but hands the caller's signal mask down, and an agent that reads
/// its signals from a signalfd has them blocked: its tools would be deaf to SIGTERM. To unblock them around the call would
/// let a SIGTERM end the agent itself. glibc makes the child by `clone(CLONE_VM | CLONE_VFORK)`, so that the cost does not
/// grow with the memory of the caller, and the error of a failed exec comes back as the result.
pub(super) fn posix_spawn(new: &NewProcess<'_>) -> Result<Pid> {
    let attributes = Attributes::for_a_run()?;
    let actions = Actions::new(new)?;
    let arguments = pointers(new.arguments);
    let environment = pointers(new.environment);
    let mut pid: libc::pid_t = 0;
    // SAFETY: all pointers are to live, initialised values; both arrays end with a null pointer.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            new.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    })?;
    pid_of(pid).ok_or(Errno::CHILD)
}

fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// The `posix_spawn` family returns the error number instead of setting it.
fn check(result: c_int) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(result)) }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn for_a_run() -> Result<Self> {
        let mut raw = MaybeUninit::uninit();
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: init fills what it is given; `this` owns the initialised value from there on and destroys it once; the
        // sets are filled before they are read.
        unsafe {
            check(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            let mut this = Self(raw.assume_init());
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigfillset(all.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(&raw mut this.0, none.as_ptr()))?;
            check(libc::posix_spawnattr_setsigdefault(&raw mut this.0, all.as_ptr()))?;
            check(libc::posix_spawnattr_setpgroup(&raw mut this.0, 0))?;
            let flags = libc::POSIX_SPAWN_SETPGROUP | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
            // The three flags are 2, 4 and 8; the field is a short.
            check(libc::posix_spawnattr_setflags(&raw mut this.0, i16::try_from(flags).unwrap_or(0)))?;
            Ok(this)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `for_a_run`, destroyed here only.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new(new: &NewProcess<'_>) -> Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init fills what it is given; `this` owns the initialised value from there on and destroys it once.
        unsafe {
            check(libc::posix_spawn_file_actions_init(raw.as_mut_ptr()))?;
            let mut this = Self(raw.assume_init());
            for (source, target) in [(new.stdin, 0), (new.stdout, 1), (new.stderr, 2)] {
                check(libc::posix_spawn_file_actions_adddup2(&raw mut this.0, source.as_raw_fd(), target))?;
            }
            check(libc::posix_spawn_file_actions_addfchdir_np(&raw mut this.0, new.folder.as_raw_fd()))?;
            Ok(this)
        }
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed here only.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// How a child ended, and what it used.
pub(super) struct Waited {
    /// The wait status, for `libc::WIFEXITED` and its like.
    pub(super) status: c_int,
    pub(super) usage: libc::rusage,
}

/// A usage of nothing.
#[cfg(test)]
pub(super) fn no_usage() -> libc::rusage {
    // SAFETY: an all-zero rusage is a valid one.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Reaps one known child if it has ended; never any child.
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

/// Makes a copy of the process, which goes on from here like this one: the number of the copy, `None` in the copy.
pub(super) fn fork() -> Result<Option<Pid>> {
    // SAFETY: the caller has seen to it that there is one thread only, so that no lock is held by a thread which the copy
    // does not have.
    match unsafe { libc::fork() } {
        -1 => Err(last_error()),
        pid => Ok(pid_of(pid)),
    }
}

/// What a look at all children finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peek {
    /// There is no child at all.
    NoChild,
    /// There are children, none of which has ended.
    Alive,
    /// This child has ended and waits to be reaped.
    Ended(Pid),
}

/// Looks whether there is a child, without reaping any: the status stays for whoever owns that child.
pub(super) fn peek_children() -> Result<Peek> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a live value; an all-zero siginfo is a valid one, and `si_pid` of it reads as 0, which is
    // also what the kernel leaves when no child has ended.
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

/// Makes SIGCHLD what it is by default. An ignored SIGCHLD, which a parent can hand down, makes the kernel reap our children
/// itself, and their exit codes are lost.
pub(super) fn default_sigchld() {
    // SAFETY: SIG_DFL installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Marks every descriptor from 3 up as close-on-exec, in one system call where the kernel has it (Linux 5.11).
pub(in crate::shell) fn close_all_on_exec() -> Result<()> {
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
