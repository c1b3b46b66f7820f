"""How hard Hypothesis tries: HYPOTHESIS_PROFILE=thorough is for long runs."""

from __future__ import annotations

import os

import hypothesis

THOROUGH = "thorough"
_TIMES = 20


def load_profile() -> None:
    """Take the profile that the environment names. None has deadlines: other tests run beside."""
    usual = hypothesis.settings.get_profile("default").max_examples
    hypothesis.settings.register_profile("usual", deadline=None)
    hypothesis.settings.register_profile(THOROUGH, deadline=None, max_examples=_TIMES * usual)
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def examples(usual: int) -> int:
    """How many sequences of calls are tried, for tests where the usual number is small as they are slow."""
    return usual * _TIMES if os.environ.get("HYPOTHESIS_PROFILE") == THOROUGH else usual
