"""What all commands share: where the configs lie, how a model is named, how bad input is told.

Loads neither torch nor transformers, so that commands on records start at once.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from aded.errors import BadInput

CONF = Path(__file__).parent.parent / "conf"


def name_pretrained(words: list[str]) -> list[str]:
    """`model=` takes any Hub id or folder: no config of the group becomes model=pretrained model.path=..."""
    named = []
    for word in words:
        key, _, value = word.partition("=")
        if key == "model" and value and "," not in value and not (CONF / "model" / f"{value}.yaml").exists():
            named += ["model=pretrained", f"model.path={value}"]
        else:
            named.append(word)
    return named


def refuse(error: BaseException) -> NoReturn:
    """Tell what is wrong in one line, the innermost message (Hydra wraps what a constructor raises); exit code 2."""
    while error.__cause__ is not None and not isinstance(error, BadInput):
        error = error.__cause__
    print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
    sys.exit(2)


def start(hydra_main: Callable[[], None], interrupted: str) -> None:
    """Run an entry point of Hydra's: bad input in one line and exit code 2, Ctrl-C told as `interrupted` and 130."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors reach this function as they are
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # Files of conf/hydra/launcher/ bear their plugins' names on purpose: they set what the plugins leave open.
    warnings.filterwarnings("ignore", message="(?s).*validated against ConfigStore schema")
    try:
        hydra_main()
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        sys.exit(130)
    except (BadInput, HydraException, OmegaConfBaseException) as error:
        refuse(error)
