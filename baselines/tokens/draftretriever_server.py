"""The child process that searches for baselines.tokens.draftretriever. It imports little, so it starts at once.

    python -m baselines.tokens.draftretriever_server INDEX

Each line of its input is a question in JSON, [context, choices]; it answers with a line of JSON, the sequences. The
question null drops the adapted matrix.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def _serve(index: str) -> None:
    """Open the index, then let one fork after another search; a fork ends at the question null."""
    import draftretriever

    reader = draftretriever.Reader(index_file_path=index)
    while True:
        fork = os.fork()
        if fork == 0:
            os._exit(_search(reader))
        if os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) != 0:
            return


def _search(reader: Any) -> int:
    """Answer questions. Return the exit code of the fork: 0 at the question null, 1 at the end of the input."""
    for line in iter(sys.stdin.readline, ""):
        question = json.loads(line)
        found = question and reader.search(question[0], choices=question[1])[0]
        print(json.dumps(found), flush=True)  # noqa: T201 - to another program
        if question is None:
            return 0
    return 1


if __name__ == "__main__":
    _serve(sys.argv[1])
