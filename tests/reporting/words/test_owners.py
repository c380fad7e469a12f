"""One word for each owner of time, under the category that the account gives it."""

from __future__ import annotations

from stepscope.advice.catalogue import OWNER_TEXTS, OWNERS_OF
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS, category_owners
from stepscope.reporting.words.names import CATEGORY_NAMES


def test_every_owner_has_one_word_under_its_own_category() -> None:
    assert set(OWNERS_OF) == set(CATEGORIES) == set(CATEGORY_NAMES)
    for category, words in OWNERS_OF.items():
        assert set(words) == set(category_owners(category))
    assert len(OWNER_TEXTS) == len(OWNERS)
    assert len(set(OWNER_TEXTS.values())) == len(OWNERS)
