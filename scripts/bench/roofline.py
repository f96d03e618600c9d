"""t(batch, nodes) of a GPU as its data sheet allows: a cost table that is computed, not measured.

    python -m scripts.bench.roofline shape=NAME gpu=h100|a100 out=FILE [KEY=VALUE ...]

    shape=NAME             a shape in conf/model/compute, with 16-bit weights
    gpu=NAME               h100 (SXM, 80 GB) or a100 (SXM, 80 GB); or give bandwidth_gb_s and tflops
    bandwidth_gb_s=N       of the memory
    tflops=N               dense 16-bit matrix products, in 10^12 operations per second
    context=512            tokens in the KV cache of each request
    overhead_ms=0          of each step: launches, sampling, what the host does
    nodes=[1,2,4]  batch=[1,2,4]    sizes of trees, and of batches

A step reads all weights once and the keys and values of each request once, and multiplies each node with all weights
and with the keys and values that it sees; it takes the longer of the two (the roofline of Williams et al., 2009).
Real steps are slower. `aded batch cost=FILE` reads the table.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from tabulate import tabulate

from aded.bench.recording import read_shape
from aded.config.command_line import check_no_arguments, run_command
from aded.errors import BadInput
from aded.files.atomic import write_outputs
from aded.settings import Positive, Rate
from aded.shown import say

GPUS = {"h100": (3350.0, 989.0), "a100": (2039.0, 312.0)}
"""(GB/s, 10^12 operations per second): NVIDIA's data sheets of H100 SXM (80 GB, HBM3) and A100 SXM (80 GB), dense."""
WIDTH = 2
"""Bytes of a weight, a key or a value."""


@dataclass
class RooflineSettings:
    """See above."""

    shape: str
    out: str
    gpu: str | None = None
    bandwidth_gb_s: Rate | None = None
    tflops: Rate | None = None
    context: Positive = 512
    overhead_ms: Annotated[float, Field(ge=0)] = 0.0
    nodes: list[Positive] = field(default_factory=lambda: [1, 2, 3, 4, 6, 9, 13, 17, 33, 65])
    batch: list[Positive] = field(default_factory=lambda: [1, 2, 4, 8, 16, 32, 64, 128, 256])

    def __post_init__(self) -> None:
        if 1 not in self.nodes or 1 not in self.batch:
            raise BadInput("nodes", "nodes and batch must each hold 1, which aded batch compares with")

    @property
    def limits(self) -> tuple[float, float]:
        """(bytes per second, operations per second). Raises BadInput."""
        if self.gpu is not None and self.gpu not in GPUS:
            raise BadInput("gpu", f"{self.gpu!r} must be one of {', '.join(GPUS)}; or give bandwidth_gb_s and tflops")
        bandwidth, tflops = GPUS[self.gpu] if self.gpu else (None, None)
        bandwidth, tflops = self.bandwidth_gb_s or bandwidth, self.tflops or tflops
        if bandwidth is None or tflops is None:
            raise BadInput("gpu", "must be given, or bandwidth_gb_s and tflops")
        return 1e9 * bandwidth, 1e12 * tflops


@dataclass(frozen=True)
class Shape:
    """Of a decoder with grouped keys and gated layers, as in conf/model/compute."""

    weights: int
    """That a node is multiplied with: all but the input embedding."""
    row_values: int
    """Keys and values of a token, in all layers."""
    products_per_seen_row: int
    """Multiplications of a node with each row that it sees, in all layers."""

    @classmethod
    def of(cls, config: dict[str, Any]) -> Shape:
        hidden, layers = config["hidden_size"], config["num_hidden_layers"]
        heads = config["num_attention_heads"]
        head = config.get("head_dim") or hidden // heads
        kv = head * config.get("num_key_value_heads", heads)
        layer = hidden * (2 * head * heads + 2 * kv) + 3 * hidden * config["intermediate_size"]
        return cls(layers * layer + hidden * config["vocab_size"], 2 * layers * kv, 2 * layers * head * heads)


def seconds(shape: Shape, batch: int, nodes: int, context: int, bandwidth: float, operations: float) -> float:
    """Of a step over so many nodes of each request."""
    reads = WIDTH * (shape.weights + batch * context * shape.row_values)
    products = batch * nodes * (shape.weights + context * shape.products_per_seen_row)
    return max(reads / bandwidth, 2 * products / operations)


def run(rest: list[str], settings: RooflineSettings) -> None:
    check_no_arguments(rest)
    shape, limits = Shape.of(read_shape(settings.shape)), settings.limits
    out = Path(settings.out).expanduser()

    def ms(batch: int, nodes: int) -> float:
        return 1e3 * seconds(shape, batch, nodes, settings.context, *limits) + settings.overhead_ms

    by_batch = {str(batch): {str(n): ms(batch, n) for n in settings.nodes} for batch in settings.batch}
    one = {str(settings.context): {str(n): ms(1, n) for n in settings.nodes}}
    engine = {"engine": "computed", "ms_by_context": one, "ms_by_batch": by_batch}
    inputs = {**asdict(settings), "bandwidth_gb_s": limits[0] / 1e9, "tflops": limits[1] / 1e12}
    table = {"computed": True, "from": inputs, "engines": [engine]}
    write_outputs(out.parent, {out.name: (json.dumps(table, indent=1) + "\n").encode()}, "out")
    rows = [[n, *(by_batch[str(batch)][str(n)] for batch in settings.batch)] for n in settings.nodes]
    say(tabulate(rows, ["nodes each", *(f"batch {batch}" for batch in settings.batch)], floatfmt=".2f"))
    say(f"computed, not measured: {settings.out}")


def main() -> None:
    run_command(run, RooflineSettings, __doc__ or "")


if __name__ == "__main__":
    main()
