import numpy as np
from repeat_last import RepeatLast

from aded.testing import check_drafter


def test_it_keeps_the_contract_of_a_drafter():
    check_drafter(RepeatLast)


def test_it_drafts_what_followed():
    tree = RepeatLast(budget=2).draft(np.array([5, 6, 7, 8, 5]))
    assert tree.tokens.tolist() == [5, 6, 7]
