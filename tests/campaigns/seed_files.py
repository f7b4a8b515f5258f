"""The whole files that a campaign damages: every format that is read."""

import datetime as dt
import gzip
import io
import json

import numpy as np
import pandas as pd

from lvmcore.data import load_sample, samples
from tests.unit.lvmcore.data.readers.anndata_files import COUNTS, annotated, by_anndata
from tests.unit.lvmcore.data.readers.workbooks import workbook

__all__ = ["table_files"]

_ROWS = 40


def _mixed() -> pd.DataFrame:
    """A column of every kind, with gaps."""
    rng = np.random.default_rng(3)
    days = pd.date_range("2021-01-25", periods=_ROWS, freq="36h")
    frame = pd.DataFrame(
        {
            "sample": [f"s{i:02d}" for i in range(_ROWS)],
            "height": np.round(rng.normal(170, 10, _ROWS), 2),
            "count": rng.poisson(3, _ROWS),
            "group": rng.choice(["control", "treated", "größer, as said"], _ROWS),
            "day": days.strftime("%d.%m.%Y"),
            "note": ['he said "no"', "", "two\nlines", "plain"] * (_ROWS // 4),
            "code": 2**53 + np.arange(_ROWS),
        }
    )
    frame["count"] = frame["count"].astype("Int64").mask(rng.random(_ROWS) < 0.1)
    frame["height"] = frame["height"].mask(rng.random(_ROWS) < 0.1)
    return frame


def _npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _sheet(frame: pd.DataFrame) -> list[list[str | int | float | dt.datetime | None]]:
    cells = frame.astype(object).where(frame.notna(), None)
    return [list(frame.columns), *cells.to_numpy().tolist()]


def table_files() -> dict[str, list[bytes]]:
    """Small files by their kind: csv, json, xlsx, parquet, npz, h5ad."""
    mixed = _mixed()
    frames = [load_sample(key).frame.iloc[:_ROWS, :12] for key in list(samples())[:3]]
    everything = [mixed, *frames]
    typed = mixed.assign(day=pd.to_datetime(mixed["day"], format="%d.%m.%Y"), flag=mixed.index < 9)
    records = json.loads(mixed.to_json(orient="records"))
    first = [mixed, frames[0]]
    zipped = gzip.compress(frames[1].to_csv(index=False).encode(), mtime=0)
    return {
        "csv": [
            *(frame.to_csv(index=False).encode() for frame in everything),
            *(frame.to_csv(index=False, sep="\t").encode() for frame in first),
            b"sep=;\r\n" + mixed.to_csv(index=False, sep=";", decimal=",").encode(),
            mixed.to_csv(index=False, sep=";", decimal=",").encode("utf-16"),
            mixed.to_csv(index=False).encode("latin-1"),
            b"A title\n\n" + frames[0].to_csv(index=False).encode() + b"\nSource: a book\n",
            zipped,
        ],
        "json": [
            *("\n".join(map(json.dumps, records)).encode(), json.dumps(records).encode()),
            *(frame.to_json(orient="records", lines=True).encode() for frame in frames[:1]),
            json.dumps([{"a": i, "b": {"c": [i]}, "d": None} for i in range(20)]).encode(),
        ],
        "xlsx": [
            workbook({"Mixed": _sheet(mixed), "Other": [["a"], [1]]}, hidden=["Other"]),
            workbook({"Empty": [], "Iris": _sheet(frames[0])}),
            workbook({"Days": [["when", "x"], *([day, 0.5] for day in typed["day"].tolist())]}),
        ],
        "parquet": [_parquet(frame, kind) for frame in (typed, frames[1]) for kind in ("a", "b")],
        "npz": [
            _npz(X=frames[1].select_dtypes("number").to_numpy(), y=np.arange(_ROWS) % 3),
            _npz(X=COUNTS, labels=np.array(list("abcdefabcdef")), row_ids=np.arange(12)),
        ],
        "h5ad": [
            annotated(COUNTS.astype(float), depth=COUNTS.sum(axis=1)),
            *(by_anndata(name) for name in ("dense", "layers", "raw")),
        ],
    }


def _parquet(frame: pd.DataFrame, kind: str) -> bytes:
    buffer = io.BytesIO()
    packed = "snappy" if kind == "a" else "none"
    frame.to_parquet(buffer, compression=packed, row_group_size=_ROWS if kind == "a" else 7)
    return buffer.getvalue()
