"""What a proposal leaves in its trial's system attributes, so that any other process can continue the search.

It is one line of a nestbo journal, the `Asked` event with the point in the target space, bit for bit, its region, the
fit and what a success has to beat; before it stands the key of the chain of embeddings in which the point means
something.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from nestbo.chain import VERSION
from nestbo.codec import FORMAT, decode, encode
from nestbo.errors import JournalError
from nestbo.events import Asked
from nestbo.state import State

ATTRIBUTE = "nestbo"
"""The attributes are `nestbo:0`, `nestbo:1`, and so on; all but very long notes have only the first."""
PIECE = 60_000
"""Optuna's tables keep an attribute in a column of type TEXT. On MySQL that ends at 65,535 bytes, which a note passes
at about 4000 target dimensions; PostgreSQL, SQLite, the journal file and memory have no limit that matters here."""


def chain_key(state: State) -> str:
    """What a target point means follows from these, and from the number of its region."""
    settings = state.settings
    fixed = [settings.bins, settings.initial_dim, settings.max_target_dim]
    described = json.dumps([FORMAT, VERSION, state.seed, state.space.describe(), fixed], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def written(key: str, asked: Asked) -> Iterator[tuple[str, str]]:
    """The attributes of a proposal, in the order to set them: once the first piece is there, all are."""
    text = f"{key} {encode(asked, 0).decode().rstrip()}"
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    pieces[0] = f"{len(pieces)} {pieces[0]}"
    for number, piece in reversed(list(enumerate(pieces))):
        yield f"{ATTRIBUTE}:{number}", piece


def has_note(attributes: Mapping[str, Any]) -> bool:
    """Whether a trial is a proposal of nestbo, of whatever search."""
    return f"{ATTRIBUTE}:0" in attributes


def read(key: str, attributes: Mapping[str, Any]) -> Asked | None:
    """The proposal in a trial's system attributes; None if there is none, or one of another chain of embeddings."""
    first = attributes.get(f"{ATTRIBUTE}:0")
    if first is None:
        return None
    try:
        count, found, line = first.split(" ", 2)
        if found != key:
            return None
        line += "".join(attributes[f"{ATTRIBUTE}:{number}"] for number in range(1, int(count)))
        event = decode(line.encode(), 0)
    except (AttributeError, KeyError, TypeError, ValueError, JournalError):
        return None  # Somebody has changed it: the trial still has its parameters and its value.
    return event if isinstance(event, Asked) else None
