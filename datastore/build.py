"""Builds datastore files: aded build corpus=NAME [corpus.path=FILE] tokenizer=NAME_OR_DIR out=FILE

Tokenises a corpus and writes what is named: its n-gram counts (out=FILE), its sorted suffixes (suffixes=FILE), a
look-up model that learned from it (lookup=FILE). With parts=N jobs count the n-grams, on this machine or a cluster
(conf/cluster). Exit code 0: built; 2: bad input, one line on stderr; 130 (Ctrl-C) and 143 (SIGTERM): interrupted, and
no file is left behind but whole parts, and what a training goes on from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import DictConfig

from aded.config.command_line import PATHS, plain, run_config
from aded.config.objects import GROUP, Kinds, instantiate
from aded.errors import BadInput
from aded.files.atomic import check_outputs
from aded.files.datastores.array_file import check_replaceable
from aded.files.models.tokenizer import load_tokenizer
from aded.settings import Count, FilePath, NgramOrder
from aded.shown import say
from datastore.builder import build
from datastore.corpora.corpus import Corpus
from datastore.parts import Cluster, build_in_parts

BUILD: Kinds = {
    "corpus": GROUP,
    "paths": PATHS,
    "tokenizer": FilePath,
    "out": FilePath | None,
    "order": NgramOrder,
    "suffixes": FilePath | None,
    "lookup": FilePath | None,
    "parts": Count,
    "cluster": GROUP,
    "progress": bool,
}
"""The keys at the top of conf/build.yaml."""
BUILT = ("out", "suffixes", "lookup")
"""The keys that name files to build."""


def run(cfg: DictConfig) -> None:
    corpus = instantiate(plain(cfg.corpus), "corpus", Corpus)
    check_outputs(
        [(key, cfg[key]) for key in BUILT],
        [
            *(("corpus.path", file) for file in (cfg.corpus.get("path"), *corpus.files)),
            ("tokenizer", cfg.tokenizer),
            *corpus.cleaning.question_files(),
        ],
    )
    for key in BUILT:
        check_replaceable(key, cfg[key])
    cluster = instantiate(plain(cfg.cluster), "cluster", Cluster)
    progress = cfg.progress and sys.stderr.isatty()
    if cfg.parts == 1:
        build(
            corpus,
            load_tokenizer(cfg.tokenizer, cfg.paths.cache),
            out=_path(cfg.out),
            order=cfg.order,
            suffixes=_path(cfg.suffixes),
            lookup=_path(cfg.lookup),
            progress=progress,
        )
    elif cfg.suffixes or cfg.lookup or not cfg.out:
        raise BadInput("parts", "are parts of an n-gram file: name out=FILE, and build other files without parts")
    else:
        build_in_parts(
            corpus,
            cfg.tokenizer,
            cfg.paths.cache,
            out=Path(cfg.out).expanduser(),
            order=cfg.order,
            parts=cfg.parts,
            cluster=cluster,
            progress=progress,
        )
    say(f"built {' and '.join(cfg[key] for key in BUILT if cfg[key])}")


def _path(name: str | None) -> Path | None:
    return Path(name).expanduser() if name else None


def main() -> None:
    run_config("build", run, __doc__ or "", "interrupted; start the same command again", BUILD)
