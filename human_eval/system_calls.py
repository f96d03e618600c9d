"""The system calls that a completion is refused, as a seccomp filter: a program that the kernel runs at each call.

Refused are sockets, a second process, and what no namespace and no limit of confine.py reaches: the user's keys, and
memory that no address space counts. Threads, and pairs of stream sockets, which asyncio needs, are allowed.
"""

from __future__ import annotations

import errno
import os
import struct
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
