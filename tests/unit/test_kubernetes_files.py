"""The description of a cluster on Kubernetes, and the image of its nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes.yaml"
IMAGE = ROOT / "deploy" / "Dockerfile"


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    documents = yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    return {document["kind"]: document for document in documents}


def test_the_version_of_ray_is_that_of_the_image(resources: dict[str, Any]) -> None:
    pinned = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert resources["RayCluster"]["spec"]["rayVersion"] == pinned[1]


def test_the_store_is_on_the_volume_that_the_image_names(resources: dict[str, Any]) -> None:
    home = re.search(r"LATENTBOARD_HOME=(\S+)", IMAGE.read_text(encoding="utf-8"))
    head = resources["RayCluster"]["spec"]["headGroupSpec"]["template"]["spec"]
    (container,) = head["containers"]
    (mounted,) = container["volumeMounts"]
    (volume,) = head["volumes"]
    assert home is not None
    assert mounted == {"name": volume["name"], "mountPath": home[1]}
    claim = volume["persistentVolumeClaim"]["claimName"]
    assert claim == resources["PersistentVolumeClaim"]["metadata"]["name"]


def test_all_nodes_have_one_image_and_a_token(resources: dict[str, Any]) -> None:
    spec = resources["RayCluster"]["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    images = {group["template"]["spec"]["containers"][0]["image"] for group in groups}
    assert images == {"latentboard"}
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}


def test_the_image_copies_what_is_there() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", IMAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert {"pyproject.toml", "lvmcore", "app"} <= set(names)
    assert all((ROOT / name).exists() for name in names)
