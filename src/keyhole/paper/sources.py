"""What the experiments run on: shipped measurements, generated outputs, or a file of the user's."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from keyhole.paper.settings import AIRFOIL, IMAGENET
from keyhole.streams import Stream, imagenet
from keyhole.streams.airfoil import airfoil
from keyhole.streams.imagenet_like import imagenet_like


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

    def stream(self, rounds: int, *, seed: int, shift: bool) -> Stream:
        """Return one run's rounds."""
        if self.data == AIRFOIL:
            return airfoil(rounds, seed=seed, shift=shift)
        return imagenet.imagenet(self.outputs(), rounds, seed=seed, shift=shift)

    def outputs(self) -> imagenet.Outputs:
        """Return the classifier's outputs, read or generated once in each process."""
        return _loaded(self.path) if self.path else imagenet_like()

    @property
    def accuracy(self) -> tuple[float, float]:
        """How often the true label is the most plausible, and among the five most plausible."""
        outputs = self.outputs()
        return round(outputs.accuracy(1), 6), round(outputs.accuracy(5), 6)


@cache
def _loaded(path: str) -> imagenet.Outputs:
    return imagenet.load(Path(path))


MEASURED = Source(AIRFOIL, "airfoil", "1,503 measurements")
GENERATED = Source(IMAGENET, "imagenet-like", "generated")


def from_file(path: Path, *, model: str | None = None) -> Source:
    """Return the source of a file of classifier outputs, which is read and checked."""
    path = path.resolve()  # A cluster may work in another folder.
    images = _loaded(str(path)).images
    called = model or path.stem
    name = "imagenet-" + "".join(c if c.isalnum() else "-" for c in called.lower())
    return Source(
        IMAGENET, name, f"{called}, {images:,} images", path=str(path), digest=imagenet.digest(path)
    )
