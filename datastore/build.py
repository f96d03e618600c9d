"""Builds datastore files: python -m datastore.build corpus=NAME [corpus.path=FILE] tokenizer=NAME_OR_DIR out=FILE

Tokenises a corpus and writes its n-gram counts (out=FILE), its sorted suffixes (suffixes=FILE), or both. Exit code 0:
built; 2: bad input, one line on stderr; 130 (Ctrl-C) and 143 (SIGTERM): interrupted, and no file is left behind.
"""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from aded.command_line import CONF, INPUT_ERRORS, exit_with_error, plain, run_hydra
from aded.config import check_top, instantiate
from aded.files.atomic import check_outputs
from aded.files.tokenizer import load_tokenizer
from datastore.builder import build
from datastore.corpora.corpus import Corpus


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="build")
def _hydra_main(cfg: DictConfig) -> None:
    try:
        check_top(plain(cfg), "build")
        check_outputs(
            [("out", cfg.out), ("suffixes", cfg.suffixes)],
            [("corpus.path", cfg.corpus.get("path")), ("tokenizer", cfg.tokenizer)],
        )
        build(
            instantiate(plain(cfg.corpus), "corpus", Corpus),
            load_tokenizer(cfg.tokenizer, cfg.paths.cache),
            out=cfg.out and Path(cfg.out),
            order=cfg.order,
            suffixes=cfg.suffixes and Path(cfg.suffixes),
            progress=cfg.progress and sys.stderr.isatty(),
        )
        print(f"built {' and '.join(file for file in (cfg.out, cfg.suffixes) if file)}")
    except INPUT_ERRORS as error:  # Hydra would print a line of its own first
        exit_with_error(error)


def main() -> None:
    run_hydra(_hydra_main, "interrupted; nothing was built")


if __name__ == "__main__":
    main()
