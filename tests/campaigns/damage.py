"""Damage to a file: flipped bits, cuts, splices, other numbers, repeated blocks, edited headers."""

import io
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["damaged"]

_NUMBER = re.compile(rb"\d+(?:[.,]\d+)?")
_OTHER_NUMBERS = (
    *(b"0", b"-1", b"1e309", b"-1e-320", b"NaN", b"inf", b"9007199254740993", b"0x10", b"1,5"),
    *(b"18446744073709551616", b"99999999999999999999999999", b"2147483647", b"4294967296"),
    *(b"", b"?", b" ", b"31.02.2020", b"1_000", "٣".encode(), b"1e5", b"00", b"65536", b"-0"),
)
_OTHER_TEXTS = (
    *(
        b'"',
        b"'",
        b",",
        b";",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ),
    *(b"sep=,\n", b"=1+1", b"\\ud800", b"\xed\xa0\x80", b"{", b"}", b"[[[[", b"]", b":", b"null"),
    *(b"\x1f", b"\x1e", "\u2028".encode(), "−".encode(), b"<", b"&#0;", b"\x1a", b"# ", b"N/A"),
)


def damaged(content: bytes, others: Sequence[bytes], rng: np.random.Generator) -> tuple[str, bytes]:
    """A file with one to three kinds of damage.

    Args:
        content: The whole file.
        others: Files that parts are taken from.
        rng: The generator of random numbers.

    Returns:
        The kinds of damage, for the report, and the damaged file.
    """
    kinds = []
    binary = b"\x00" in content[:4096]
    for _ in range(1 if binary and rng.random() < 0.6 else int(rng.integers(1, 4))):
        gentle = rng.random() < 0.6  # the rest makes most files unreadable
        kind = str(rng.choice((_LENGTH_KEPT if binary else _FEW_CELLS) if gentle else list(_KINDS)))
        if content[:4] == b"PK\x03\x04" and rng.random() < 0.7:
            content, kind = _in_member(content, others, kind, rng), f"{kind} in a member"
        else:
            content = _KINDS[kind](content, others, rng)
        kinds.append(kind)
    return ", ".join(kinds), content


def _in_member(
    content: bytes, others: Sequence[bytes], kind: str, rng: np.random.Generator
) -> bytes:
    """Damage a member of an archive, whose checksums fit."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:  # whatever the damage makes of the archive
        return _KINDS[kind](content, others, rng)
    if not members:
        return content
    place = int(rng.integers(len(members)))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")
        for number, (name, text) in enumerate(members):
            archive.writestr(name, _KINDS[kind](text, others, rng) if number == place else text)
    return buffer.getvalue()


def _flips(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(max(1, len(changed)), size=int(rng.integers(1, 9))).tolist():
        if changed:
            changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _one_bit(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    changed = bytearray(content or b" ")
    changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _cut(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] if rng.random() < 0.7 else content[place:]


def _span(content: bytes, rng: np.random.Generator, most: int = 2000) -> tuple[int, int]:
    start = int(rng.integers(len(content) + 1))
    return start, start + int(rng.integers(1, most))


def _splice(content: bytes, others: Sequence[bytes], rng: np.random.Generator) -> bytes:
    other = others[int(rng.integers(len(others)))]
    start, stop = _span(other, rng)
    place, end = _span(content, rng)
    return content[:place] + other[start:stop] + content[end if rng.random() < 0.5 else place :]


def _header(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Bytes among the first ones, or the last ones, where some formats have their header."""
    changed = bytearray(content)
    width = min(len(changed), 96)
    for _unused in range(int(rng.integers(1, 6)) if width else 0):
        place = int(rng.integers(width))
        place = place if rng.random() < 0.6 else len(changed) - 1 - place
        changed[place] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
    return bytes(changed)


def _numbers(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    found = list(_NUMBER.finditer(content))
    for _unused in range(int(rng.integers(1, 6))):
        if found:
            one = found.pop(int(rng.integers(len(found))))
            other = _OTHER_NUMBERS[int(rng.integers(len(_OTHER_NUMBERS)))]
            if len(other) != one.end() - one.start():
                found = [kept for kept in found if kept.start() < one.start()]
            content = content[: one.start()] + other + content[one.end() :]
    return content


def _inserted(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    for _unused in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(content) + 1))
        text = _OTHER_TEXTS[int(rng.integers(len(_OTHER_TEXTS)))]
        content = content[:place] + text + content[place:]
    return content


def _repeated(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng, 400)
    times = int(rng.choice([2, 3, 50, 2000]))
    return content[:start] + content[start:stop] * times + content[stop:]


def _emptied(content: bytes, _: Sequence[bytes], rng: np.random.Generator) -> bytes:
    start, stop = _span(content, rng, 300)
    blank = b"" if rng.random() < 0.5 else bytes(min(stop, len(content)) - start)
    return content[:start] + blank + content[stop:]


def _overwritten(content: bytes, others: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Bytes of another file, or small numbers, in the place of as many."""
    start, stop = _span(content, rng, 40)
    length = min(stop, len(content)) - start
    other = others[int(rng.integers(len(others)))]
    at = int(rng.integers(max(1, len(other) - length)))
    part = other[at : at + length] if rng.random() < 0.5 else bytes([int(rng.integers(256))])
    return content[:start] + part.ljust(length, b"\x00")[:length] + content[start + length :]


_LENGTH_KEPT = ("flipped bits", "one bit", "one bit", "overwritten")
_FEW_CELLS = ("flipped bits", "one bit", "numbers", "inserted text")
_KINDS: dict[str, Callable[[bytes, Sequence[bytes], np.random.Generator], bytes]] = {
    "flipped bits": _flips,
    "one bit": _one_bit,
    "cut": _cut,
    "splice": _splice,
    "header": _header,
    "numbers": _numbers,
    "inserted text": _inserted,
    "repeated block": _repeated,
    "overwritten": _overwritten,
    "emptied block": _emptied,
}
