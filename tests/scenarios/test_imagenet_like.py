import numpy as np
import pytest

from keyhole.scenarios.imagenet import _by_blocks
from keyhole.scenarios.imagenet_like import IMAGES, imagenet_like


def test_pool_is_always_the_same() -> None:
    assert imagenet_like() is imagenet_like()
    again = imagenet_like.__wrapped__()
    assert (again.values == imagenet_like().values).all()
    assert (again.labels == imagenet_like().labels).all()


def test_accuracy_is_that_of_resnet_18_up_to_what_5000_images_can_tell() -> None:
    for top, resnet in ((1, 0.698), (5, 0.891)):
        error = np.sqrt(resnet * (1 - resnet) / IMAGES)
        assert imagenet_like().accuracy(top) == pytest.approx(resnet, abs=3 * error)


def test_labels_follow_the_probabilities() -> None:
    """The sum over images of P(most likely class) is how often it is right, up to its deviation."""
    pool = imagenet_like()
    assert pool.normalisers is not None
    top = np.exp(_by_blocks(pool.values, lambda block: block.max(axis=1)) - pool.normalisers)
    deviation = np.sqrt((top * (1 - top)).sum()) / IMAGES
    assert pool.accuracy(1) == pytest.approx(top.mean(), abs=4 * deviation)


def test_logits_of_unrelated_classes_spread_as_they_were_fitted() -> None:
    """Kills: the spread 3.37 -> 3.56. A deviation from 4.8 million draws errs by .0011."""
    assert imagenet_like().values[:, 44:].astype(float).std() == pytest.approx(3.37, abs=5 * 0.0011)
