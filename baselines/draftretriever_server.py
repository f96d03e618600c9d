"""The child process that searches for baselines.draftretriever; it imports nothing else, to start at once.

    python -m baselines.draftretriever_server INDEX

Reads a line of JSON a question, [context, choices], and answers with a line of JSON, the sequences; null forgets.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def _serve(index: str) -> None:
    """The child: open the index, then let one fork after another search until it is told to forget."""
    import draftretriever

    reader = draftretriever.Reader(index_file_path=index)
    while True:
        fork = os.fork()
        if fork == 0:
            os._exit(_search(reader))
        if os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) != 0:
            return


def _search(reader: Any) -> int:
    """Answer [context, choices] with sequences; null ends the fork with 0, the end of the input with 1."""
    for line in iter(sys.stdin.readline, ""):
        question = json.loads(line)
        print(json.dumps(question and reader.search(question[0], choices=question[1])[0]), flush=True)
        if question is None:
            return 0
    return 1


if __name__ == "__main__":
    _serve(sys.argv[1])
