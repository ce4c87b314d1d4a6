"""Class probabilities like those of an ImageNet classifier, generated, so that no file is needed.

An image has one likely class, nine rivals and thirty-four distant relatives among a thousand; its
true label is drawn from the probabilities themselves, so that the classifier is calibrated. The
constants were fitted to the accuracy of ResNet-18 and to the paper's Tables 1 and 5 at T = 50,000.
"""

from functools import cache

import numpy as np

from keyhole.scenarios.imagenet import ClassifierOutputs

IMAGES = 5_000
_SEED = 0
_CLASSES, _RELATIVES, _RIVALS = 1_000, 44, 10


@cache
def imagenet_like() -> ClassifierOutputs:
    """Return the pool of 5,000 images, always the same."""
    rng = np.random.default_rng(_SEED)
    logits = rng.normal(0.0, 3.37, size=(IMAGES, _CLASSES))
    logits[:, :_RELATIVES] += np.maximum(0.0, rng.normal(3.11, 1.16, size=(IMAGES, 1)))
    logits[:, :_RIVALS] += np.maximum(0.0, rng.normal(3.61, 1.87, size=(IMAGES, _RIVALS)))
    logits[:, 0] += rng.normal(6.90, 6.85, size=IMAGES)
    # The largest logit plus Gumbel noise is a draw from the softmax.
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    return ClassifierOutputs.of_logits(logits.astype(np.float32), labels)
