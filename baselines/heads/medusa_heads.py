"""Medusa's heads and their files (arXiv 2401.10774).

Head k reads the target's last hidden state at a position and predicts the token k positions after the one decided
there: residual blocks x + silu(W x + b), then a projection to the vocabulary. Each published head has a projection of
its own. Ours use the target's projection, so a file has a few MB of residual blocks only. They use only the rows of
the tokens they were trained on, which makes a draft several times faster.

The names of a file's tensors are those of the published `medusa_lm_head.pt`: `K.L.linear.weight` and
`K.L.linear.bias` for block L of head K, and after the last block the head's own projection `K.L.weight`, if it has
one. Reading a `.pt` file executes nothing in it. Our files are safetensors and also have `tokens`, int32: the tokens
the heads were trained on.
"""

from __future__ import annotations

import re
from os.path import expanduser
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from aded.errors import BadInput
from aded.files.atomic import write_bytes

KEY = "method.heads"
PUBLISHED = "medusa_lm_head.pt"
OURS = "heads.safetensors"
REPOSITORY = Path(__file__).parent.parent


class ResBlock(torch.nn.Module):
    """x + silu(W x + b), the identity before training: [.., hidden] to [.., hidden]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(hidden, hidden)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.silu(self.linear(x))


class MedusaHeads(torch.nn.Module):
    """All heads of a file.

    heads: number of heads
    blocks: residual blocks per head
    hidden: size of the target's hidden state
    vocabulary: tokens of the heads' own projections; None: they use the target's projection
    tokens: int64 [m], the rows of the target's projection to use; None: all
    """

    def __init__(
        self,
        heads: int,
        blocks: int,
        hidden: int,
        vocabulary: int | None = None,
        tokens: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary, self.tokens = vocabulary, tokens
        own = [] if vocabulary is None else [torch.nn.Linear(hidden, vocabulary, bias=False)]
        self.stacks = torch.nn.ModuleList(
            torch.nn.Sequential(*(ResBlock(hidden) for _ in range(blocks)), *own) for _ in range(heads)
        )

    def __len__(self) -> int:
        return len(self.stacks)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[.., hidden] to [heads, .., hidden], or to [heads, .., vocabulary] if the heads have projections."""
        return torch.stack([stack(hidden) for stack in self.stacks])


def save_heads(heads: MedusaHeads, path: Path, metadata: dict[str, str]) -> None:
    """Write the heads in bfloat16, as safetensors, whole or not at all. Raises BadInput."""
    state = {name.removeprefix("stacks."): value.to(torch.bfloat16) for name, value in heads.state_dict().items()}
    if heads.tokens is not None:
        state["tokens"] = heads.tokens.int()
    write_bytes(path, save(state, metadata), "out")


def load_heads(place: str, hidden: int, vocabulary: int) -> MedusaHeads:
    """The heads of a file, or of the file in a folder, in float32.

    place: file or folder; a relative path is searched in the working directory, then in the repository
    hidden, vocabulary: the target's sizes

    Raises BadInput naming the file if there is none, if it cannot be read, or if its shapes do not fit.
    """
    path = _file(place)
    state = _state(path)
    tokens = _tokens(state.pop("tokens", None), path, vocabulary)
    names = [re.fullmatch(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)", name) for name in state]
    count = len({name[1] for name in names if name})
    blocks = sum(name[1] == "0" and name[3] == "linear.weight" for name in names if name)
    own = f"0.{blocks}.weight" in state
    heads = MedusaHeads(count, blocks, hidden, vocabulary if own else None, tokens)
    expected = {name.removeprefix("stacks."): value.shape for name, value in heads.state_dict().items()}
    if count == 0 or state.keys() != expected.keys():
        odd = sorted(state.keys() ^ expected.keys())[:1]
        raise BadInput(KEY, f"{path} holds no set of Medusa heads (odd: {', '.join(odd) or 'it is empty'})")
    for name, shape in expected.items():
        if state[name].shape != shape:
            raise BadInput(
                KEY,
                f"{path} was trained for another model: {name} is {list(state[name].shape)}, this target needs "
                f"{list(shape)}; name heads of this very model",
            )
    heads.load_state_dict({f"stacks.{name}": value.float() for name, value in state.items()})
    return heads.eval()


def _file(place: str) -> Path:
    """The file itself, or the file of heads in a folder."""
    given = Path(expanduser(place))
    for start in (Path(), REPOSITORY):
        for path in (start / given, start / given / OURS, start / given / PUBLISHED):
            if path.is_file():
                return path
    raise BadInput(
        KEY,
        f"no heads at {place}; it must be a file, or a folder that holds {OURS} or a published {PUBLISHED}: train "
        "some with python -m scripts.train_medusa",
    )


def _tokens(tokens: torch.Tensor | None, path: Path, vocabulary: int) -> torch.Tensor | None:
    """The `tokens` of a file, checked: lookups check no bounds."""
    if tokens is None:
        return None
    if tokens.ndim != 1 or tokens.dtype not in (torch.int32, torch.int64) or len(tokens) == 0:
        raise BadInput(KEY, f"{path}: its tokens must be a list of token ids")
    if not ((tokens >= 0) & (tokens < vocabulary)).all():
        raise BadInput(KEY, f"{path} was trained for another model: its tokens lie outside of the {vocabulary} known")
    if len(tokens.unique()) < len(tokens):
        raise BadInput(KEY, f"{path}: some of its tokens occur twice")
    return tokens.long()


def _state(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file by name: dense, on the processor, and their numbers finite."""
    try:
        if path.suffix == ".safetensors":
            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged zip or pickle fails in many ways
        problem = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadInput(KEY, f"{path} cannot be read as tensors ({problem[:120]})") from None
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in state.items()
    ):
        raise BadInput(KEY, f"{path} holds no tensors by name; name a {PUBLISHED} or a safetensors file")
    for name, value in state.items():
        if value.layout != torch.strided or value.device.type != "cpu":
            raise BadInput(KEY, f"{path}: {name} must be a dense tensor with values")
        if name != "tokens" and not (value.is_floating_point() and value.float().isfinite().all()):
            raise BadInput(KEY, f"{path}: {name} must hold finite floating-point numbers")
    return state
