"""What a completion may do: called by the worker, as root of its own namespaces, before it runs the completion.

The calls are those of Linux 5.12 and later, by ctypes, because mount(8) makes file systems read-only one by one.

Some system calls are refused by a seccomp filter, a program that the kernel runs at each call: sockets, a second
process, and what no namespace and no limit reaches, the user's keys, and memory that no address space counts.
Threads, and pairs of stream sockets, which asyncio needs, are allowed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class _Machine(NamedTuple):
    """Its number, and those of its system calls."""

    audit: int
    clone: int
    socketpair: int
    refused: tuple[int, ...]


_ALIKE = (425, 447)
"""io_uring_setup, which makes sockets too, and memfd_secret."""
_CLONE3 = 435
_MACHINES = {
    # socket, fork, vfork, unshare, add_key, request_key, keyctl, shmget, semget, msgget, memfd_create
    "x86_64": _Machine(0xC000003E, 56, 53, (41, 57, 58, 272, 248, 249, 250, 29, 64, 68, 319, *_ALIKE)),
    # The same without fork and vfork, which are calls of clone there.
    "aarch64": _Machine(0xC00000B7, 220, 199, (198, 97, 217, 218, 219, 194, 190, 186, 279, *_ALIKE)),
}
_X32 = 0x40000000
"""From here on x86_64 has the same calls under other numbers."""
_CLONE_THREAD, _AF_UNIX, _SOCK_STREAM, _SOCK_TYPES = 0x10000, 1, 1, 15

_NUMBER, _AUDIT, _FIRST, _SECOND = 0, 4, 16, 24
"""Where the kernel tells the call's number, the machine's, and the low half of the first two arguments."""
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_REFUSE = _ERROR | errno.EPERM


def seccomp_filter() -> bytes:
    """The program for this machine, an array of struct sock_filter. Raises OSError where none is known."""
    name = os.uname().machine
    if name not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no seccomp filter is known for {name}")
    machine = _MACHINES[name]
    only_threads = _do(_LOAD, _FIRST) + _if(_ANY_BIT, _CLONE_THREAD, _do(_RETURN, _ALLOW)) + _do(_RETURN, _REFUSE)
    stream = _do(_LOAD, _SECOND) + _do(_AND, _SOCK_TYPES) + _if(_EQUAL, _SOCK_STREAM, _do(_RETURN, _ALLOW))
    # A pair of datagram sockets is refused: each sends to any address.
    only_streams = _do(_LOAD, _FIRST) + _if(_EQUAL, _AF_UNIX, stream) + _do(_RETURN, _REFUSE)
    checks = (
        _if(_AT_LEAST, _X32, _do(_RETURN, _REFUSE)),
        # Its flags lie in memory, where no filter sees them. The C library then makes threads by clone.
        _if(_EQUAL, _CLONE3, _do(_RETURN, _ERROR | errno.ENOSYS)),
        *(_if(_EQUAL, number, _do(_RETURN, _REFUSE)) for number in machine.refused),
        _if(_EQUAL, machine.clone, only_threads),
        _if(_EQUAL, machine.socketpair, only_streams),
        _do(_RETURN, _ALLOW),
    )
    known = _do(_LOAD, _NUMBER) + b"".join(checks)
    return _do(_LOAD, _AUDIT) + _if(_EQUAL, machine.audit, known) + _do(_RETURN, _REFUSE)


def _do(code: int, value: int, skipped: int = 0) -> bytes:
    """One instruction. skipped: how many a condition that does not hold passes over."""
    return struct.pack("HBBI", code, 0, skipped, value)


def _if(condition: int, value: int, then: bytes) -> bytes:
    return _do(condition, value, len(then) // len(_do(0, 0))) + then


FILE_BYTES, FILES = 64 << 20, 10_000
"""All that a completion writes; it lies in memory."""
THREADS = 32
"""The kernel does not hold root to it."""
SCRATCH = "/tmp"
"""Where a completion begins."""
SYSTEM = ("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/alternatives", "/etc/ld.so.cache", os.devnull)
"""What libraries need, as far as it exists."""

_STAGE = "/proc"
"""A folder of every Linux, in which no file is needed any more."""
_RDONLY, _NOSUID, _NODEV, _BIND, _RECURSIVE = 1, 2, 4, 4096, 16384
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_DETACH = 2
_PR_SET_SECCOMP, _FILTER, _PR_SET_NO_NEW_PRIVS, _CAPABILITIES_V3 = 22, 2, 38, 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    """struct mount_attr"""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace"))


class _Header(ctypes.Structure):
    """struct __user_cap_header_struct"""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def close_files(shown: Iterable[str], hidden: Iterable[str]) -> None:
    """An empty file system in memory replaces all files; in it SYSTEM and the `shown` folders are there to read.

    hidden: folders that are empty also there. Raises OSError.
    """
    for folder in hidden:
        _mount("tmpfs", folder, b"tmpfs", 0, None)
    options = f"size={FILE_BYTES},nr_inodes={FILES},mode=755"
    _mount("tmpfs", _STAGE, b"tmpfs", 0, options.encode())
    for path in map(Path, sorted({*SYSTEM, *shown})):
        inside = Path(f"{_STAGE}{path}")
        if not path.exists() or inside.exists():  # it stands in one of those before
            continue
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.mkdir() if path.is_dir() else inside.touch()
        _mount(str(path), str(inside), None, _BIND | _RECURSIVE, None)
    _set_attributes(_STAGE, _AT_RECURSIVE, set=_RDONLY | _NOSUID | _NODEV)
    _set_attributes(_STAGE, 0, clear=_RDONLY)
    _set_attributes(_STAGE + os.devnull, 0, clear=_NODEV)
    os.chdir(_STAGE)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount2")
    os.makedirs(SCRATCH, exist_ok=True)
    os.chdir(SCRATCH)


def give_up_rights() -> None:
    """No capability is left, in no program started from here, so that nothing above is undone, and the calls of
    `seccomp_filter` are refused. Raises OSError."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(_Header(_CAPABILITIES_V3, 0)), none), "capset")
    code = seccomp_filter()
    program = _Program(len(code) // 8, code)
    _check(_libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0), "seccomp")


def limit(memory_mb: int, seconds: float) -> None:
    """Soft and hard limits of the only process; they cannot be raised again. Raises OSError or ValueError."""
    for kind, most in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_CPU, int(seconds) + 5),  # judge.py ends it earlier, unless it is itself killed
        (resource.RLIMIT_NPROC, THREADS),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _set_attributes(path: str, flags: int, *, set: int = 0, clear: int = 0) -> None:
    attributes = _Attributes(set, clear, 0, 0)
    size = ctypes.sizeof(attributes)
    done = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), size)
    _check(done, f"mount_setattr {path}")


def _mount(source: str, path: str, kind: bytes | None, flags: int, options: bytes | None) -> None:
    _check(_libc.mount(source.encode(), path.encode(), kind, flags, options), f"mount {path}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
