from pathlib import Path

import pytest

from tests.compatibility.earlier import unpack


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What version 0.1.0 wrote; shared, so leave it as it is."""
    return unpack(tmp_path_factory.mktemp("earlier"))
