"""What the wrappers of scikit-learn take over from the estimator they wrap."""

from typing import Any

from keyhole.integrations._context import read_context


def estimator_has(name: str) -> Any:
    """Return a test for ``available_if``: whether the estimator, fitted or not, has the method."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


def know(wrapper: Any, X: Any, features: Any, groups: Any) -> dict[str, Any]:  # noqa: N803
    given = {"features": features, "groups": groups}
    return read_context(X, features=wrapper.features, groups=wrapper.groups, given=given)


def copy_input_names(wrapper: Any) -> None:
    """Give the wrapper what its estimator knows of the columns it was fitted to."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(wrapper.estimator_, name):
            setattr(wrapper, name, getattr(wrapper.estimator_, name))


def tags_of_estimator(tags: Any, estimator: Any) -> Any:
    """Return the wrapper's tags with what the estimator accepts."""
    try:
        inner = estimator.__sklearn_tags__()
    except AttributeError:
        return tags
    tags.input_tags = inner.input_tags
    tags.target_tags.multi_output = False
    tags.classifier_tags = inner.classifier_tags
    tags.regressor_tags = inner.regressor_tags
    return tags
