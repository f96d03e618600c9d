"""The card of a published datastore: README.md with the Hub's metadata, for people who find it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tabulate import tabulate

from aded.errors import literal
from aded.shown import in_markdown
from datastore.cleaning.header import described
from datastore.sharing.manifest import Manifest

SIGN = "A datastore of [ADED](https://arxiv.org/abs/2407.12021)"
"""What tells a card from other people's README.md: it stands below the file's name."""
TEMPLATE = """---
{metadata}
---
# {name}

{sign}, built from the corpus {corpus}: {what}.

- **Sources**: {sources}
- **Licence**: {licence}
- **Tokenizer**: {tokenizer}

{table}

## Use

```bash
aded fetch {place} out={name}
aded run {model}{use}
```

The first command verifies the file's sha256, and goes on where it was interrupted.
"""
KINDS = {
    "aded-ngrams": (
        "how often each sequence of up to {order} tokens occurs in it",
        "method=aded_backoff datastore.path={name}",
    ),
    "aded-suffixes": ("its tokens, and all its suffixes in sorted order", "method=rest datastore.path={name}"),
    "aded-lookup": ("a small language model that learned from it", "method=aded_backoff method.lookup={name}"),
}
"""Format -> what such a file holds, and how a run reads it."""
LEFT_OUT_OF_TABLE = ("format", "version", "levels", "tokenizer")


def file_of(text: str) -> str | None:
    """The file that a card is of; None: the text is no card."""
    found = re.search(rf"^# (\S+)\n\n{re.escape(SIGN)}", text, re.MULTILINE)
    return found and found[1]


def card(
    header: Mapping[str, str],
    manifest: Manifest,
    place: str,
    order: int,
    *,
    licence: str | None,
    sources: str | None,
    tokenizer: str | None,
) -> str:
    """The text of the card.

    header: of the file; place: where it is published; order: of its n-grams; the others as the user gave them.
    """
    from huggingface_hub import DatasetCardData

    tags = ["speculative-decoding", "aded", header["format"]]
    metadata = DatasetCardData(license=licence or "unknown", pretty_name=manifest.file, tags=tags, viewer=False)
    what, use = KINDS[header["format"]]
    known = described(header, place)
    facts = {
        "format": f"{header['format']}, version {header['version']}",
        "bytes": str(manifest.bytes),
        **{key: in_markdown(value) for key, value in known.items() if key not in LEFT_OUT_OF_TABLE},
    }
    hash_of = f"its fingerprint in ADED is `{header['tokenizer']}`"
    return TEMPLATE.format(
        metadata=metadata.to_yaml(),
        name=manifest.file,
        sign=SIGN,
        corpus=in_markdown(known.get("corpus", "unnamed")),
        what=what.format(order=order),
        sources=sources or "not stated",
        licence=licence or "not stated; ask the publisher before you use it",
        tokenizer=f"`{tokenizer}`; {hash_of}" if tokenizer else f"not named; {hash_of}",
        table=tabulate(facts.items(), ("of the file", ""), "github", disable_numparse=True),
        place=literal(place),
        model=f"model={tokenizer} " if tokenizer else "",
        use=use.format(name=manifest.file),
    )
