"""A torchvision classifier's outputs on the ImageNet validation images, written to a file."""

from pathlib import Path
from typing import Any

import numpy as np

from keyhole.errors import InvalidError, MissingExtraError
from keyhole.live_line import live_line

CLASSES = 1_000
_BATCH = 128


def write(images: Path, out: Path, *, model: str = "resnet18") -> None:
    """Write the file that ``keyhole paper --imagenet`` reads: logits in single precision, and labels.

    Parameters
    ----------
    images
        A folder with one folder per class, named by WordNet id; sorted, they are the classes in
        the order of torchvision's weights.
    out
        The file, not compressed, so that it can be mapped.
    model
        The name of a torchvision classifier; its default weights and their own preprocessing are used.
    """
    try:
        import torch
        from torchvision.datasets import ImageFolder
        from torchvision.models import get_model, get_model_weights
    except ImportError:
        raise MissingExtraError(
            "a classifier's outputs need torchvision; pip install torch torchvision"
        ) from None
    weights = get_model_weights(model).DEFAULT
    pictures = ImageFolder(images, transform=weights.transforms())
    if len(pictures.classes) != CLASSES:
        raise InvalidError(
            f"{images} holds {len(pictures.classes)} folders; there must be {CLASSES}, one a class, "
            "named by WordNet id"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    classifier = get_model(model, weights=weights).eval().to(device)
    loader = torch.utils.data.DataLoader(pictures, batch_size=_BATCH, num_workers=4)
    logits, labels = _outputs(torch, classifier, loader, device)
    np.savez(out, logits=logits, labels=labels, model=np.array(model))


def _outputs(torch: Any, classifier: Any, loader: Any, device: str) -> tuple[Any, Any]:
    logits, labels = [], []
    with torch.inference_mode(), live_line("classifying", len(loader)) as advance:
        for batch, truth in loader:
            logits.append(classifier(batch.to(device)).float().cpu().numpy())
            labels.append(truth.numpy())
            advance()
    return np.concatenate(logits), np.concatenate(labels)
