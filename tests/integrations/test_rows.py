import math
from typing import Any

import pandas as pd
import pytest

from keyhole import Predictor, Probabilities
from keyhole.integrations.rows import name_key, play_group, read_index, read_known, read_output
from keyhole.keyed import make_fold


@pytest.mark.parametrize(("label", "place"), [("3", 3), (3, 3), (3.0, 3)])
def test_a_label_that_is_a_place_is_read_as_one(label: Any, place: int) -> None:
    assert read_index(label) == place
    assert type(read_index(label)) is int


@pytest.mark.parametrize("label", ["cat", "3.5", 3.5, float("inf"), None, ""])
def test_a_label_that_is_no_place_is_left_as_it_is(label: Any) -> None:
    assert read_index(label) is label


def test_a_key_of_one_column_is_its_text_and_of_several_a_json_list() -> None:
    assert name_key([7]) == "7"
    assert name_key(["7", 8]) == '["7", "8"]'


@pytest.mark.parametrize("output", [[0.7, 0.3], [], 3.0, None])
def test_an_output_that_is_no_list_of_pairs_stays_as_it_is(output: Any) -> None:
    assert read_output(output) is output


def test_pairs_are_a_map_and_what_is_null_is_not_known() -> None:
    assert read_output([("cat", 0.7)]) == {"cat": 0.7}
    assert read_known(["features", "groups"], [[("hour", 3.0)], None]) == {"features": {"hour": 3.0}}


@pytest.mark.parametrize("null", [None, math.nan])
def test_the_rounds_of_a_table_are_those_of_a_predictor_that_is_not_always_answered(null: Any) -> None:
    fold = make_fold(alpha=0.1, score=Probabilities(), features=["hour"], seed=3)
    truths = [0, 1, null, 1] * 10
    table = pd.DataFrame(
        {"at": range(40), "output": [[0.6, 0.4]] * 40, "label": truths, "features": [[1.0]] * 40}
    )
    columns = ["key", "at", "threshold", "labels", "lower", "upper", "miss", "size"]
    played = play_group(fold, ["a"], table.iloc[::-1], columns=columns, indexed=True)
    beside: Predictor[Any] = Predictor(
        alpha=0.1, features=["hour"], score=Probabilities(), seed=fold.seed_of("a")
    )
    for row, truth in zip(played.itertuples(), truths, strict=True):
        shown = beside.predict([0.6, 0.4], features=[1.0])
        assert row.threshold == shown.threshold
        if truth in (0, 1):
            beside.learn(shown, label=truth)
            assert row.miss == float(truth not in shown)
        else:
            beside.skip(shown)
            assert row.miss is None or math.isnan(row.miss)


def test_labels_that_are_names_are_not_read_as_places() -> None:
    fold = make_fold(alpha=0.1, score=Probabilities(labels=["1", "0"]), seed=3)
    table = pd.DataFrame({"at": [1, 2], "output": [[0.9, 0.1]] * 2, "label": ["1", "0"]})
    columns = ["key", "at", "threshold", "labels", "lower", "upper", "miss", "size"]
    played = play_group(fold, ["a"], table, columns=columns, indexed=False)
    assert played["labels"][0] == ["1"]
    assert played["miss"].tolist()[0] == 0.0
