"""Every command and Python block of the documentation is run, on a tiny random model and small files.

The blocks of a page run in order, in a folder with the files that the pages name. Where the first line of a block is
a comment with the name of a file, the block is that file.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

import forked
import pytest
from answer_lines import written
from command_rules import HUB_IDS, ROOT, TEXTS, VOCABULARY, Block, fenced_blocks, run_command
from small_ngrams import write_small_ngrams, write_small_suffixes
from texts import write_code
from tiny import save_model, tiny_model, tiny_tokenizer

from aded.files.models.embedded_model import embedded_model

OTHERS = ("README.md", "CONTRIBUTING.md", "aded/kernels/README.md")
PAGES = [*(ROOT / name for name in OTHERS), *sorted((ROOT / "docs").glob("*.md"))]
PYTHON_ALONE = (ROOT / "README.md", ROOT / "docs" / "python_api.md")
FIRST = (*PYTHON_ALONE, ROOT / "docs" / "tutorial.md")
FREE_NODES = """
import aded.core.step_cost, aded.drafters.sized, numpy
aded.drafters.sized.measure = lambda target, budget: aded.core.step_cost.StepCost(numpy.ones(budget + 1))
"""
"""Before the Python of a page, as in conftest.py: to measure what nodes cost takes two hundred forwards."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run_block(block: Block, folder: Path) -> None:
    name = re.fullmatch(r"# (\S+\.\w+)", block.text.splitlines()[0])
    if name:
        file = folder / name[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text.partition("\n")[2], encoding="utf-8")
    elif block.language == "python":
        place = Path(mkdtemp(dir=folder)) if block.page in PYTHON_ALONE else folder
        done = forked.run([sys.executable, "-c", FREE_NODES + block.text], env=os.environ, cwd=place)
        assert done.returncode == 0, f"{block.place}\n{done.stderr[-3000:]}"
    elif block.language == "bash":
        for arguments in block.commands():
            run_command([one.replace("$PWD", str(folder)) for one in arguments], folder, block.place)
    else:
        pytest.fail(f"{block.place}: a block of {block.language or 'no language'}")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "cache" / "models").mkdir(parents=True)
    (folder / "cache" / "models" / embedded_model().name).symlink_to(embedded_model())  # converting it takes a minute
    model = tiny_model(vocab_size=VOCABULARY, max_position_embeddings=4096, eos_token_id=2)
    for name in HUB_IDS:
        save_model(folder / name, model)
    questions = [{"question_id": 81 + n, "category": "cats", "turns": [f"what {n}?", "and then?"]} for n in range(3)]
    answers = [{"question_id": 81 + n, "choices": [{"turns": [TEXTS[n], TEXTS[n + 1]]}]} for n in range(3)]
    written(folder, *questions, name="question.jsonl")
    written(folder / "answers" / "mt_bench", *answers, name="vicuna-7b-v1.5.jsonl")
    of_spec_bench, elsewhere = {81: "writing", 161: "translation"}, "vicuna-7b-v1.3-pld-float16-temp-0.0"
    asked = [{"question_id": number, "category": of, "turns": ["what?"]} for number, of in of_spec_bench.items()]
    choices = [{"index": 0, "turns": [TEXTS[0]], "accept_lengths": [3, 1]}]
    answered = [{"question_id": number, "model_id": elsewhere, "choices": choices} for number in of_spec_bench]
    written(folder / "answers" / "spec_bench", *asked, name="question.jsonl")
    written(folder / "answers" / "spec_bench", *answered, name="vicuna-7b-v1.3.jsonl")
    written(folder / "data" / "spec_bench" / "model_answer", *answered, name=f"{elsewhere}.jsonl")
    shutil.copytree(ROOT / "results" / "packs", folder / "results" / "packs")
    shutil.copy(ROOT / "results" / "leaderboard.csv", folder / "results")
    written(folder, *({"text": text} for text in TEXTS), name="chat.jsonl")
    written(folder, *({"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(3)), name="gsm8k.jsonl")
    write_code(folder)
    (folder / "src").mkdir()
    for number, text in enumerate(TEXTS):
        (folder / "src" / f"{number}.py").write_text(text)
    (folder / "notes.txt").write_text("\n\n".join(TEXTS))
    write_small_ngrams(folder / "chat.ngrams", TEXTS, VOCABULARY, tokenizer=tiny_tokenizer())
    write_small_suffixes(folder / "chat.suffixes", TEXTS, VOCABULARY, tiny_tokenizer())
    return folder


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page in FIRST else pytest.mark.thorough, id=name_of(page)) for page in PAGES],
)
def test_the_commands_of_a_page_run(page: Path, files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(files, folder, symlinks=True)
    for block in fenced_blocks(page):
        run_block(block, folder)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_of_a_page_is_overlooked(page: Path) -> None:
    fences = re.findall(r"^ *(?:```|~~~)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(list(fenced_blocks(page)))
