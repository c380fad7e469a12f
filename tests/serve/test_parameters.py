"""Options of a tool as they stand in an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.sites.serve import Site


@pytest.mark.parametrize(
    "query",
    ["show_name_regexes=.*dense_1.*", "show_name_regexes=a&show_name_regexes=b"],
)
def test_a_list_that_may_be_absent_is_given_by_one_name_or_by_many(
    query: str, site: Site
) -> None:
    answer = site.get(f"data/tool/model_views?view=graph&{query}")
    assert answer.status == 200
    told = answer.json["data"]["settings"]["show_name_regexes"]
    assert told == [part.partition("=")[2] for part in query.split("&")]


def test_what_is_no_list_is_given_once(site: Site) -> None:
    answer = site.get("data/tool/framework_op_stats?op=a&op=b")
    assert (answer.status, answer.error) == (400, "bad_parameter")
