"""What the experiments run on: shipped measurements, generated outputs, or a file of the user's."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from keyhole.scenarios import Scenario, imagenet
from keyhole.scenarios.airfoil import airfoil
from keyhole.scenarios.imagenet_like import imagenet_like
from keyhole.studies.paper.settings import AIRFOIL, IMAGENET, Setting


@dataclass(frozen=True)
class Source:
    """Where a data set's rounds come from.

    ``path`` and ``digest`` tell a file of classifier outputs; both are empty where none is needed.
    """

    data: str
    name: str
    title: str
    path: str = ""
    digest: str = ""

    def scenario(self, setting: Setting, *, seed: int) -> Scenario:
        """Return the rounds of one run of a setting."""
        if self.data == AIRFOIL:
            return airfoil(setting.horizon, seed=seed, shift=setting.shift)
        segment = imagenet.SEGMENT if setting.literal else None
        return imagenet.imagenet(
            self.outputs(), setting.horizon, seed=seed, shift=setting.shift, segment=segment
        )

    def outputs(self) -> imagenet.ClassifierOutputs:
        """Return the classifier's outputs, read or generated once in each process."""
        return _load(self.path) if self.path else imagenet_like()

    @property
    def accuracy(self) -> tuple[float, float]:
        """How often the true label is the most plausible, and among the five most plausible."""
        outputs = self.outputs()
        return round(outputs.accuracy(1), 6), round(outputs.accuracy(5), 6)


@dataclass(frozen=True)
class Pair:
    """A setting, and what it runs on."""

    source: Source
    setting: Setting


@cache
def _load(path: str) -> imagenet.ClassifierOutputs:
    return imagenet.load(Path(path))


MEASURED = Source(AIRFOIL, "airfoil", "1,503 measurements")
GENERATED = Source(IMAGENET, "imagenet-like", "generated")


def from_file(path: Path, *, model: str | None = None) -> Source:
    """Return the source of a file of classifier outputs, which is read and checked."""
    path = path.resolve()  # A cluster may work in another folder.
    images = _load(str(path)).images
    called = model or path.stem
    name = "imagenet-" + "".join(c if c.isalnum() else "-" for c in called.lower())
    return Source(
        IMAGENET, name, f"{called}, {images:,} images", path=str(path), digest=imagenet.digest(path)
    )
