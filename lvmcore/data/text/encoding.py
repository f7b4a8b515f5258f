"""Detection of text encodings, and conversion to UTF-8."""

import codecs
import re
import unicodedata
from collections import Counter

import charset_normalizer

from lvmcore.data.source import FORMATS, SAMPLE_BYTES
from lvmcore.errors import DataError

__all__ = ["replace_surrogates", "to_utf8"]

#: Byte order marks, longest first, with their encodings.
_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Above this share of non-ASCII bytes among letters the script is not Latin.
_OTHER_SCRIPT = 0.25
#: Signs that are usual in scientific text.
_PLAUSIBLE_SIGNS = frozenset("°µ²³±×·€£§«»–—‘’“”„…ªº½¼¾¡¿ß®©™")
_MAX_CONTEXTS = 2000
_SURROGATE = re.compile("[\ud800-\udfff]")


def to_utf8(data: bytes, encoding: str | None, name: str) -> tuple[bytes, str, list[str]]:
    """Return the text as UTF-8 without a byte order mark.

    Evidence, in this order: the given encoding, a byte order mark, the zero bytes of UTF-16, strict
    UTF-8; then the single-byte encoding whose non-ASCII characters are most plausible beside their
    neighbours, with charset-normalizer's guess as one candidate.

    Args:
        data: The bytes of a text file.
        encoding: A Python codec name, or None to detect.
        name: Name of the file in messages.

    Returns:
        The UTF-8 bytes, the name of the encoding, and notes.

    Raises:
        DataError: The bytes are not text, or not in the given encoding.
    """
    if encoding is not None:
        text, halves = _decode(data, _codec_name(encoding), name)
        return text, encoding, [_halves_note(halves)] if halves else []
    for mark, found in _BOMS:
        if data.startswith(mark):
            shown = "utf-8-sig" if found == "utf-8" else found
            return _decode(data.removeprefix(mark), found, name)[0], shown, []
    wide = _detect_utf16(data[:SAMPLE_BYTES])
    if wide is not None:
        note = f"The file has no byte order mark; read as {wide} by its pattern of zero bytes."
        return _decode(data, wide, name)[0], wide, [note]
    _check_text(data[:SAMPLE_BYTES], name)
    zero = data.find(b"\x00")
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise DataError(
            f"{name!r} holds zero bytes, the first in line {line:,}, "
            "which no text has: the file is damaged from there on. Copy or export it again."
        )
    if _is_utf8(data):
        return data, "ascii" if data.isascii() else "utf-8", []
    guess = _guess_encoding(data)
    if guess == "cp1252" and not any(0x80 <= byte < 0xA0 for byte in set(data)):
        guess = "latin-1"
    note = (
        f"The text is not UTF-8; read as {guess}, the most plausible encoding. Check the accented "
        "letters and signs, and set the encoding if they look wrong."
    )
    return _decode(data, guess, name)[0], guess, [note]


def replace_surrogates(text: str) -> tuple[str, int]:
    """Replace halves of surrogate pairs, which are no characters, by U+FFFD.

    Returns:
        The text, and the number of replaced halves.
    """
    return _SURROGATE.subn("\ufffd", text)


def _codec_name(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError as error:
        raise DataError(
            f"There is no encoding called {encoding!r}. Expected a name such as utf-8, utf-16, "
            "latin-1, cp1252 or mac_roman."
        ) from error


def _halves_note(halves: int) -> str:
    what = (
        "1 half of a surrogate pair, which is"
        if halves == 1
        else (f"{halves:,} halves of surrogate pairs, which are")
    )
    return f"The text holds {what} no character; '\ufffd' stands there instead."


def _decode(data: bytes, encoding: str, name: str) -> tuple[bytes, int]:
    """The text as UTF-8, and the number of replaced halves of surrogate pairs."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name!r} is not {encoding} text: byte {error.start:,} "
            f"(0x{data[error.start]:02x}) does not fit. Leave the encoding to be detected, or "
            "save the file again as UTF-8."
        ) from error
    except (UnicodeError, LookupError) as error:  # codecs of other things than text
        raise DataError(
            f"{name!r} is not {encoding} text: {error}. Leave the encoding to be detected, or "
            "save the file again as UTF-8."
        ) from error
    text = text.removeprefix("\ufeff")
    if "\x00" in text[:SAMPLE_BYTES]:
        raise DataError(
            f"{name!r} read as {encoding} holds zero characters, so it is not plain text in that "
            "encoding. Leave the encoding to be detected, or save the file again as UTF-8."
        )
    try:
        return text.encode("utf-8"), 0
    except UnicodeEncodeError:
        text, halves = replace_surrogates(text)
        return text.encode("utf-8"), halves


def _detect_utf16(head: bytes) -> str | None:
    """Recognise UTF-16 without a mark: in Latin text every other byte is zero."""
    zeros = head.count(0)
    if zeros < len(head) // 4:
        return None
    even = head[::2].count(0)
    odd = zeros - even
    if odd > 20 * max(even, 1):
        return "utf-16-le"
    if even > 20 * max(odd, 1):
        return "utf-16-be"
    return None


def _check_text(head: bytes, name: str) -> None:
    control = sum(head.count(byte) for byte in range(32) if byte not in b"\t\n\r\x0b\x0c\x1b\x1c")
    if head.count(0) or control > len(head) / 100:
        raise DataError(
            f"{name!r} is not a text file: its first {len(head):,} bytes hold {control:,} control "
            f"bytes. Expected {FORMATS}. Export the table as CSV."
        )


def _is_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    step = 16 * 1024**2
    try:
        for start in range(0, len(data), step):
            decoder.decode(data[start : start + step])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _guess_encoding(data: bytes) -> str:
    lines = [line for line in data[: 8 * 1024**2].split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines[:500])[:SAMPLE_BYTES] or data[-SAMPLE_BYTES:]
    best = charset_normalizer.from_bytes(sample).best()
    opinion = best.encoding if best is not None else None
    high = sum(byte >= 0x80 for byte in sample)
    letters = sum(chr(byte).isalpha() for byte in sample if byte < 0x80)
    other_script = high > _OTHER_SCRIPT * (high + letters)
    if opinion is not None and other_script and not _is_latin(sample, opinion):
        return opinion
    candidates = ["cp1252", "mac_roman"]
    if opinion is not None and opinion not in candidates:
        candidates.append(opinion)
    scores = {candidate: _plausibility(sample, candidate) for candidate in candidates}
    winner = max(candidates, key=lambda candidate: scores[candidate])
    return winner if _can_decode(data, winner) else "latin-1"


def _is_latin(sample: bytes, encoding: str) -> bool:
    """Whether most non-ASCII letters are Latin if decoded with this encoding."""
    text = sample.decode(encoding, errors="replace")
    beyond = [char for char in text if ord(char) >= 0x80 and char.isalpha()]
    return 2 * sum("LATIN" in unicodedata.name(char, "") for char in beyond) >= len(beyond)


def _can_decode(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _plausibility(sample: bytes, encoding: str) -> float:
    """Mean plausibility of the non-ASCII characters beside their neighbours, up to 1."""
    text = f" {sample.decode(encoding, errors='replace')} "
    contexts: Counter[tuple[str, str, str]] = Counter()
    for index, char in enumerate(text):
        if ord(char) >= 0x80:
            contexts[text[index - 1], char, text[index + 1]] += 1
            if len(contexts) > _MAX_CONTEXTS:
                break
    total = sum(contexts.values())
    if total == 0:
        return 0.0
    return (
        sum(_character_plausibility(*context) * count for context, count in contexts.items())
        / total
    )


def _character_plausibility(before: str, char: str, after: str) -> float:
    if char.isupper():
        inside_a_word = before.isalpha() and before.islower()
        return -2.0 if inside_a_word else (1.0 if after.isalpha() else 0.0)
    if char.isalpha() and char not in "ªº":
        return 1.0 if before.isalpha() or after.isalpha() else 0.0
    if char == "\xa0" or char in _PLAUSIBLE_SIGNS:
        return 0.8
    if unicodedata.category(char) in {"Cc", "Co", "Cn"} or char == "\ufffd":
        return -3.0
    return -0.5
