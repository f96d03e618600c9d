"""What a completion may do: called by the worker, as root of its own namespaces, before it runs the completion.

The calls are those of Linux 5.12 and later, by ctypes, because mount(8) makes file systems read-only one by one.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterable

FILE_BYTES = 64 << 20
"""All files in the scratch folder; they lie in memory."""
PROCESSES = 32
"""The kernel does not hold root to it."""

_RDONLY, _NOSUID, _NODEV, _BIND = 1, 2, 4, 4096
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PR_SET_NO_NEW_PRIVS, _CAPABILITIES_V3 = 38, 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    """struct mount_attr"""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace"))


class _Header(ctypes.Structure):
    """struct __user_cap_header_struct"""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def close_files(scratch: str, hidden: Iterable[str]) -> None:
    """Every file becomes read-only and every device closed, except /dev/null. `scratch` becomes an empty folder to
    write in; the `hidden` folders become empty, and /proc, where other processes show. Raises OSError."""
    _set_attributes("/", _AT_RECURSIVE, set=_RDONLY | _NOSUID | _NODEV)
    _mount(os.devnull, os.devnull, None, _BIND, None)
    _set_attributes(os.devnull, 0, clear=_RDONLY | _NODEV)
    _mount("tmpfs", scratch, b"tmpfs", _NOSUID | _NODEV, f"size={FILE_BYTES}".encode())
    for folder in (*hidden, "/proc"):
        _mount("tmpfs", folder, b"tmpfs", _RDONLY, None)
    os.chdir(scratch)


def give_up_rights() -> None:
    """No capability is left, in no program started from here, so that nothing above is undone. Raises OSError."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(_Header(_CAPABILITIES_V3, 0)), none), "capset")


def limit(memory_mb: int, seconds: float) -> None:
    """Soft and hard limits of each process; they cannot be raised again. Raises OSError or ValueError."""
    for kind, most in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_CPU, int(seconds) + 5),  # judge.py ends it earlier, unless it is itself killed
        (resource.RLIMIT_NPROC, PROCESSES),
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
