"""What the time of each owner is called, wherever it is told."""

from __future__ import annotations

from typing import Final

from stepscope.advice.catalogue import catalogue

#: Category → its owners in the account → what their time is.
OWNERS_OF: Final = catalogue().owners
#: Owner of the account → what its time is.
OWNER_WORDS: Final = {
    owner: words for owners in OWNERS_OF.values() for owner, words in owners.items()
}
