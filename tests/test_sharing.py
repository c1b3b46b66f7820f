"""How tests are shared out among processes."""

from __future__ import annotations

from pathlib import Path

from tests.sharing import APART, LONGEST, rank


def test_names() -> None:
    """Every file that is named is there, and is named once."""
    there = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert set(LONGEST) | APART <= there
    assert len(LONGEST) == len(set(LONGEST))


def test_order() -> None:
    """What takes longest comes first, and all that is not known to take long comes last."""
    assert rank(f"tests/{LONGEST[0]}.py::TestIt::test[a::b]") == 0
    assert rank(f"tests/{LONGEST[1]}.py") == 1
    assert rank("tests/test_sharing.py::test_order") == rank("tests/test_config.py") == len(LONGEST)
