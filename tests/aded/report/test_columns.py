import re

import pandas as pd

from aded.report.columns import as_latex

HOSTILE = '50% of a_b & $c #1 {x} ~^\\\\ <|> "q" – ¹²³ ± × é Ж漢'
SPEEDUPS = ["1.20 [1.10, 1.30]¹³", "–", HOSTILE, "2 of 3"]
TABLE = pd.DataFrame({"method_1": ["aded", "[x]", "*y", HOSTILE], "speedup [95 %]": SPEEDUPS})
FRAMES = {"human_eval, 95 % & more": TABLE, "another": pd.DataFrame({"a": ["1"]})}
NOTES = [HOSTILE, "[p1]: a note"]


def test_no_letter_is_raw_and_every_row_has_its_cells() -> None:
    text = as_latex(FRAMES, NOTES)
    assert text.isascii()
    plain = re.sub(r"\\[&%$#_{}\\]", "", text)
    assert not set(plain) & set('%#_~^"')
    rows = [line for line in plain.splitlines() if " & " in line]
    assert [line.count("&") for line in rows] == [1] * 5
    assert not re.search(r"^[\[*]", text, re.MULTILINE), "after a row's end it would be an option"
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
