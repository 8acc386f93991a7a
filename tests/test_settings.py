from __future__ import annotations

import pytest

from awesum.errors import AwesumError
from awesum.settings import Settings


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"length": "0"}, "length"),
        ({"length": "9999%"}, "100%"),
        ({"style": "poem"}, "abstract or extract"),
        ({"max_memory": "much"}, "2GB"),
        ({"query": "  "}, "query"),
    ],
)
def test_wrong_setting_is_refused_at_once_and_in_one_line(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(AwesumError, match=said) as error:
        Settings(**wrong)
    assert "\n" not in str(error.value)


def test_length_and_style_are_the_system_s_unless_they_are_given() -> None:
    assert (Settings().length, Settings().style, Settings().strict) == (None, None, False)
    assert Settings().query is None
    assert Settings().max_memory is None


def test_settings_cannot_be_changed_under_a_run() -> None:
    with pytest.raises(AttributeError):
        Settings().length = "5%"  # type: ignore[misc]
