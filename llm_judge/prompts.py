"""Prompt templates of FastChat, by FastChat's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aded.errors import BadInput

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class FastchatTemplate:
    """A conversation template of fastchat.conversation, such as `vicuna_v1.1` or `llama-2`."""

    def __init__(self, name: str) -> None:
        from fastchat.conversation import conv_templates

        if name not in conv_templates:
            near = ", ".join(sorted(template for template in conv_templates if template[:3] == name[:3])[:6])
            raise BadInput("model.template.name", f"{name!r} is no FastChat template; near it: {near or 'none'}")
        self.name = name

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        return tokenizer(self.text(turns, answers))["input_ids"]

    def text(self, turns: Sequence[str], answers: Sequence[str]) -> str:
        """The conversation so far, up to the position where the model answers."""
        from fastchat.conversation import get_conv_template

        conversation = get_conv_template(self.name)
        for index, turn in enumerate(turns):
            conversation.append_message(conversation.roles[0], turn)
            conversation.append_message(conversation.roles[1], answers[index] if index < len(answers) else None)
        return conversation.get_prompt()
