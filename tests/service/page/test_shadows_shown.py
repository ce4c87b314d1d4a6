"""The page of a stream shows what its shadows would have done."""

from typing import Any

import keyhole
from tests.service.process import Service


def test_shadows_stand_in_a_table_and_a_stream_without_them_has_none(
    service: Service, page: Any
) -> None:
    with keyhole.Client(service.url) as client:
        client.create_stream("shaded", alpha=0.1, shadows=[{"name": "wider", "alpha": 0.05}])
        client.create_stream("bare", alpha=0.1)
        for name in ("shaded", "bare"):
            client.learn(client.predict(name, {"cat": 0.7, "lynx": 0.2}), label="cat")
    page.goto("/#/streams/shaded")
    table = page.get_by_role("region", name="Shadows")
    table.wait_for()
    cells = table.get_by_role("row").nth(1).get_by_role("cell").all_inner_texts()
    assert cells[:6] == ["wider", "informed-tracker", "5\u00a0%", "1", "0.0\u00a0%", "0"]
    page.goto("/#/streams/bare")
    page.locator("h1:has-text('bare')").wait_for()
    page.get_by_role("heading", name="Last rounds").wait_for()
    table.wait_for(state="hidden")
