from importlib.util import find_spec
from pathlib import Path

import pytest

from keyhole.cli import main


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is installed")
def test_without_torchvision_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npz"
    assert main(["imagenet-file", str(tmp_path), "--out", str(out)]) == 2
    assert "pip install torch torchvision" in capsys.readouterr().err
    assert not out.exists()
