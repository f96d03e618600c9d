"""What a completion may do: called by the worker, as root of its own namespaces, before it runs the completion.

The calls are those of Linux 5.12 and later, by ctypes, because mount(8) makes file systems read-only one by one.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterable
from pathlib import Path

from system_calls import seccomp_filter

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
    system_calls.py are refused. Raises OSError."""
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
