"""How terms are written into the index: as they are, but pairs of Chinese and Japanese characters as chains.

Texts without spaces between words are cut into pairs of neighbouring characters (`gcs.core.words`). There are
many different pairs, most are rare, and each character is in two: an index of them is larger than the text.
So pairs that overlap, 検索 and 索機, are written as the characters ~検 ~索 ~機 one after the other, which are
few and dense. Between pairs that follow each other and do not overlap a sign stands alone.

Invariant: terms follow each other in a text exactly if what they are written as does so in what the text is
written as. For characters with the sign are neighbours only within a chain, where each two are a pair, and
no other term has the sign. So a pair is looked for as a phrase of two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_SIGN: Final = "~"
"""No term has it."""
_PAIR: Final = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{2}"
).fullmatch


def written(terms: Iterable[str]) -> list[str]:
    """What terms are in the index, in their order; also what of a query is looked for."""
    found: list[str] = []
    last = ""
    for term in terms:
        if term.isascii() or _PAIR(term) is None:
            found.append(term)
            last = ""
            continue
        if last != term[0]:
            found += [_SIGN, _SIGN + term[0]] if last else [_SIGN + term[0]]
        found.append(_SIGN + term[1])
        last = term[1]
    return found
