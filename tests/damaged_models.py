"""Damaged model files: a saved file with one part changed, by a seed."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["KINDS", "damaged"]

KINDS = (
    "bytes changed",
    "truncated",
    "fact replaced",
    "fact deleted",
    "array renamed",
    "array reshaped",
    "type of an array changed",
    "arrays swapped",
    "values not finite",
    "description replaced",
    "description nested",
)
_WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**12, 10**30, -(10**30), 1e308, math.nan, math.inf),
    *("text", "", "\u0000", "cuda:7", [], {}, [[1]], {"a": {}}, [None] * 3),
)
_OTHER_TYPE = {"F64": "I64", "I64": "F64", "F32": "I32", "I32": "F32", "U8": "I8", "BOOL": "U8"}
_DESCRIPTIONS = ("", "[]", "null", "{}", '{"model": []}', "x")


def damaged(content: bytes, kind: str, rng: random.Random) -> bytes:
    """A model file with one damage.

    Args:
        content: the file.
        kind: one of ``KINDS``.
        rng: chooses the place and the value.
    """
    if kind == "truncated":
        return content[: rng.randrange(len(content))]
    if kind == "bytes changed":
        changed = bytearray(content)
        for _ in range(rng.choice([1, 4, 40])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    header, data = _split(content)
    header["__metadata__"].pop("digest", None)  # as a writer of such a file would
    if kind.startswith("fact"):
        header["__metadata__"]["json"] = _with_wrong_fact(header["__metadata__"]["json"], kind, rng)
    elif kind == "description replaced":
        header["__metadata__"]["json"] = rng.choice(_DESCRIPTIONS)
    elif kind == "description nested":
        header["__metadata__"]["json"] = "[" * 100_000 + "]" * 100_000
    elif kind == "values not finite":
        data = _not_finite(header, data, rng)
    else:
        header = _with_wrong_array(header, kind, rng)
    return _join(header, data)


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _join(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a JSON value, nested ones included."""
    if place:
        yield place
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*place, key))
    elif isinstance(value, list):
        for position in range(min(len(value), 4)):
            yield from _places(value[position], (*place, position))


def _with_wrong_fact(text: str, kind: str, rng: random.Random) -> str:
    facts = json.loads(text)
    *parents, last = rng.choice(list(_places(facts)))
    part = facts
    for key in parents:
        part = part[key]
    if kind == "fact deleted":
        del part[last]
    else:
        part[last] = rng.choice(_WRONG)
    return json.dumps(facts)


def _with_wrong_array(header: dict[str, Any], kind: str, rng: random.Random) -> dict[str, Any]:
    names = [name for name in header if name != "__metadata__"]
    name = rng.choice(names)
    facts = header[name]
    if kind == "array renamed":
        return {f"x.{key}" if key == name else key: value for key, value in header.items()}
    if kind == "array reshaped":
        size = math.prod(facts["shape"])
        facts["shape"] = rng.choice([[size], [1, size], [size, 1], facts["shape"][::-1]])
    elif kind == "arrays swapped":
        other = rng.choice(names)
        header[name], header[other] = header[other], facts
    else:
        facts["dtype"] = _OTHER_TYPE.get(facts["dtype"], facts["dtype"])
    return header


def _not_finite(header: dict[str, Any], data: bytes, rng: random.Random) -> bytes:
    doubles = [facts for facts in header.values() if facts.get("dtype") == "F64"]
    start, end = rng.choice(doubles)["data_offsets"]
    values = (rng.choice([math.nan, math.inf, -1e300, 1e300, 0.0]) for _ in range(start, end, 8))
    return data[:start] + b"".join(struct.pack("<d", value) for value in values) + data[end:]
