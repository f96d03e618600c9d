"""Builds datastores: python -m datastore.build corpus=NAME [corpus.path=FILE] tokenizer=NAME_OR_DIR out=FILE

Corpus, tokens, counts, file. Exit code 0: built; 2: bad input, told in one line on stderr; 130: interrupted, nothing
left behind.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from aded.command_line import CONF, exit_with_error, run_hydra
from aded.errors import BadInput
from aded.files.embedded_model import EMBEDDED, embedded_model
from datastore.builder import build

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ORDERS = (1, 2, 3, 4, 5)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """By Hub id or folder; `embedded` is that of the embedded model, which the cache holds."""
    from transformers import AutoTokenizer  # takes seconds to load, and commands on files alone need none

    if name == EMBEDDED:
        name = str(embedded_model(Path(OmegaConf.load(CONF / "paths" / "default.yaml").cache).expanduser()))
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise BadInput("tokenizer", f"{name} is no folder with a tokenizer and no Hub id at hand ({error})") from None


def checked_orders(orders: Sequence[int]) -> list[int]:
    if not orders or not all(order in ORDERS for order in orders):
        raise BadInput("orders", f"{list(orders)} must be a list of numbers from 1 to 5, such as [2,3,4]")
    return sorted(set(orders))


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="build")
def _hydra_main(cfg: DictConfig) -> None:
    try:
        build(
            hydra.utils.instantiate(cfg.corpus),
            load_tokenizer(cfg.tokenizer),
            out=cfg.out and Path(cfg.out),
            orders=checked_orders(cfg.orders),
            suffixes=cfg.suffixes and Path(cfg.suffixes),
            progress=cfg.progress and sys.stderr.isatty(),
        )
        print(f"built {' and '.join(file for file in (cfg.out, cfg.suffixes) if file)}")
    except (BadInput, HydraException, OmegaConfBaseException) as error:
        exit_with_error(error)


def main() -> None:
    run_hydra(_hydra_main, "interrupted; nothing was built")


if __name__ == "__main__":
    main()
