"""The view of a map as JSON, to save it with its run, and as a short text, for the address. Pure.

A text is "best" or two latent dimensions from 1, such as "3,1", where nothing else differs from a
new map. Else it is "1." and the base64 of the compressed JSON of what differs.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from app.analysis.map.map_view import (
    BEST,
    MapOptions,
    MapView,
    Ranges,
    ShownAxes,
    available_view,
    is_drawn,
)
from app.analysis.map.selections import from_json, to_json
from lvmcore.errors import DataError
from lvmcore.projection import LatentProjection

__all__ = [
    "LONGEST_TEXT",
    "OpenedView",
    "left_out_sentence",
    "open_view_json",
    "open_view_text",
    "view_json",
    "view_text",
]

#: Most characters of the text of a view, of a text that is opened, and of its JSON.
LONGEST_TEXT, LONGEST_OPENED, LONGEST_JSON = 1800, 8000, 100_000
_VERSION = 1
#: Frequent parts of the JSON, which shorten a compressed text; a change makes another version.
_DICTIONARY = (
    b'"attempt":1"selection":{"axes":[0,1],"polygons":[[["column":"","test":"at least","value":'
    b'"zoom":[["place":["row":"tab":"Selection""tab":"Columns""tab":"Point""held_out":false'
    b'"inducing":true"shape":"label""size":""ellipses":false"ellipses":true"at_point":true"label":'
    b'"noise":true"column":"background":"class probability""background":"class entropy"'
    b'"background":"magnification""background":"nothing""colour":"residual""colour":""'
    b'"colour":"column {"axes":"best",{"axes":[1,0],"colour":"column '
)
#: Largest magnitude of a position, and of another number.
_FARTHEST, _LARGEST = 1e6, 1e100
#: What an invalid part raises: its text is whatever somebody wrote into the address.
_INVALID = (
    DataError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
#: All that a text held could not be read.
_ALL = "all"
_TITLES = {
    "axes": "axes",
    "colour": "colour",
    "background": "background",
    "column": "decoded column",
    "noise": "noise",
    "contours": "contours",
    "label": "class of the background",
    "at_point": "fixed dimensions",
    "ellipses": "ellipses",
    "size": "size",
    "shape": "shape",
    "group_labels": "labels of groups",
    "pictures": "pictures as marks",
    "inducing": "inducing inputs",
    "held_out": "held-out rows",
    "tab": "tab",
    "row": "point",
    "place": "point",
    "zoom": "zoom",
    "selection": "selection",
    "end": "its damaged end",
    "newer": "what a newer version added",
}


@dataclass(frozen=True)
class OpenedView:
    """A view that was opened.

    Attributes:
        view: the view, which the map can show.
        left_out: what could not be opened, by the keys of the titles in texts.
    """

    view: MapView
    left_out: tuple[str, ...] = ()


def left_out_sentence(opened: OpenedView) -> str | None:
    """What a view was opened without, as a sentence; None where it was opened whole."""
    if not opened.left_out:
        return None
    if _ALL in opened.left_out:
        return "The view in the link cannot be read, so the page shows a new map."
    parts = dict.fromkeys(_TITLES[part] for part in opened.left_out)
    return f"The view was opened without: {', '.join(parts)}."


# ---- as JSON ---------------------------------------------------------------------------------


def view_json(view: MapView, options: MapOptions) -> dict[str, Any]:
    """What differs between a view and that of a new map, as a JSON object."""
    found: dict[str, Any] = {}
    for field in fields(MapView):
        value = getattr(view, field.name)
        if value != getattr(options.new, field.name):
            found[field.name] = value
    if options.attempt and not {"zoom", "place", "selection"}.isdisjoint(found):
        found["attempt"] = options.attempt
    if view.selection is not None:
        found.pop("selection", None)  # the last, as it is the longest
        best = None if options.best is None else asdict(options.best)
        found["selection"] = _with_named_best(to_json(view.selection), best)
    return found


def open_view_json(content: Mapping[str, Any], options: MapOptions) -> OpenedView:
    """A view from ``view_json``; parts that are invalid, or that the map lacks, are left out."""
    parts: dict[str, Any] = {}
    left_out = []
    attempt = content.get("attempt", 0)
    for name, value in content.items():
        if name == "attempt":
            continue
        if name not in _PARSERS and name != "selection":
            left_out.append("newer")
            continue
        try:
            part = _part(name, value, options)
        except _INVALID:
            left_out.append(name)
            continue
        if attempt != options.attempt and (
            name in ("zoom", "place") or (name == "selection" and is_drawn(part))
        ):
            left_out.append(name)
        else:
            parts[name] = part
    view, lacking = available_view(replace(options.new, **parts), options)
    return OpenedView(view, tuple(dict.fromkeys((*left_out, *lacking))))


def _part(name: str, value: Any, options: MapOptions) -> Any:
    """An attribute of a view from its JSON; raises an error where it is invalid."""
    if not _has_plain_numbers(value):
        raise ValueError("a number is infinite or too large")
    if name == "selection":
        return from_json(_with_best(value, options.best), options.dimensions)
    return _PARSERS[name](value)


def _axes(value: Any) -> ShownAxes:
    if value == BEST:
        return BEST
    first, second = value
    return _whole(first), _whole(second)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a switch")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a whole number")
    return value


def _position(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _FARTHEST:
        raise ValueError("not a position")
    return float(value)


def _zoom(value: Any) -> Ranges:
    (left, right), (low, high) = value
    ends = tuple(map(_position, (left, right, low, high)))
    if not (ends[0] < ends[1] and ends[2] < ends[3]):
        raise ValueError("an empty range")
    return (ends[0], ends[1]), (ends[2], ends[3])


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "axes": _axes,
    **dict.fromkeys(("colour", "background", "size", "shape", "tab"), _text),
    **dict.fromkeys(
        (
            *("noise", "contours", "at_point", "ellipses", "group_labels", "pictures"),
            *("inducing", "held_out"),
        ),
        _switch,
    ),
    **dict.fromkeys(("column", "label", "row"), _whole),
    "place": lambda value: tuple(map(_position, value)),
    "zoom": _zoom,
}


def _has_plain_numbers(value: Any) -> bool:
    """Whether all numbers in a JSON value are finite and of a usual size."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
        elif isinstance(one, int | float) and not abs(one) <= _LARGEST:
            return False  # NaN too
    return True


def _with_named_best(value: Any, best: Mapping[str, Any] | None) -> Any:
    """The JSON of a selection, with a name for the numbers of the best view."""
    if isinstance(value, Mapping) and value == best:
        return BEST
    if isinstance(value, Mapping):
        return {name: _with_named_best(one, best) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_named_best(one, best) for one in value]
    return value


def _with_best(value: Any, best: LatentProjection | None) -> Any:
    """The reverse of ``_with_named_best``."""
    if isinstance(value, Mapping):
        return {
            name: asdict(best)
            if best is not None and (name, one) == ("axes", BEST)
            else _with_best(one, best)
            for name, one in value.items()
        }
    return [_with_best(one, best) for one in value] if isinstance(value, list | tuple) else value


# ---- as a text -------------------------------------------------------------------------------


def view_text(view: MapView, options: MapOptions) -> tuple[str, tuple[str, ...]]:
    """The text of a view, "" for that of a new map, and the parts that are too long for it.

    A selection that would make the text longer than ``LONGEST_TEXT`` is left out; where other
    parts are too long, all but the axes are.
    """
    content = view_json(view, options)
    text = _text_of(content)
    if len(text) <= LONGEST_TEXT:
        return text, ()
    without = {name: value for name, value in content.items() if name != "selection"}
    text = _text_of(without)
    if len(text) <= LONGEST_TEXT:
        return text, ("selection",)
    axes = {name: value for name, value in content.items() if name == "axes"}
    return _text_of(axes), tuple(name for name in content if name not in ("axes", "attempt"))


def _text_of(content: Mapping[str, Any]) -> str:
    if not content:
        return ""
    if set(content) == {"axes"}:
        axes = content["axes"]
        return axes if axes == BEST else ",".join(str(q + 1) for q in axes)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=_DICTIONARY)
    written = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = packed.compress(written.encode("utf-8", "surrogatepass")) + packed.flush()
    return f"{_VERSION}.{base64.urlsafe_b64encode(data).decode().rstrip('=')}"


def open_view_text(text: str, options: MapOptions) -> OpenedView:
    """The view of a text; whatever of it cannot be opened is that of a new map.

    Args:
        text: any text; "" is a new map.
        options: what the map can show.
    """
    if not text:
        return OpenedView(options.new)
    if text == BEST or re.fullmatch(r"[0-9]{1,4},[0-9]{1,4}", text):
        axes = BEST if text == BEST else [int(part) - 1 for part in text.split(",")]
        return open_view_json({"axes": axes}, options)
    match = re.match(r"([0-9]{1,3})\.([A-Za-z0-9_-]+)", text)
    if match is None or len(text) > LONGEST_OPENED:
        return OpenedView(options.new, (_ALL,))
    content, whole = _content(match[2])
    if content is None:
        return OpenedView(options.new, (_ALL,))
    opened = open_view_json(content, options)
    damaged = () if whole and match.end() == len(text) else ("end",)
    newer = ("newer",) if int(match[1]) > _VERSION else ()
    return replace(opened, left_out=tuple(dict.fromkeys((*opened.left_out, *newer, *damaged))))


def _content(encoded: str) -> tuple[dict[str, Any] | None, bool]:
    """The JSON object of an encoded text, or its readable start, and whether it is whole."""
    usable = encoded[: len(encoded) - (len(encoded) % 4 == 1)]
    data = base64.urlsafe_b64decode(usable + "=" * (-len(usable) % 4))
    unpacked = zlib.decompressobj(-15, zdict=_DICTIONARY)
    written = b""
    try:
        for place in range(0, len(data), 16):  # in parts, so that the start of a damaged text stays
            written += unpacked.decompress(data[place : place + 16], LONGEST_JSON - len(written))
            if len(written) >= LONGEST_JSON:
                return None, False
    except zlib.error:
        pass
    pairs, whole = _pairs(written.decode("utf-8", "replace"))
    whole &= unpacked.eof and not unpacked.unused_data and usable == encoded
    return (pairs, whole) if pairs or whole else (None, False)


def _pairs(written: str) -> tuple[dict[str, Any], bool]:
    """The members of a JSON object up to the first that is cut off, and whether all were read."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found: dict[str, Any] = {}
    place = 1
    if not written.startswith("{"):
        return found, False
    try:
        while True:
            name, place = decoder.raw_decode(written, place)
            if not isinstance(name, str) or written[place] != ":":
                return found, False
            value, place = decoder.raw_decode(written, place + 1)
            if written[place] not in ",}":
                return found, False
            found[name] = value
            if written[place] == "}":
                return found, place + 1 == len(written)
            place += 1
    except (ValueError, IndexError, RecursionError):
        return found, False


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
