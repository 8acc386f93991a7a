from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.errors import AwesumError
from awesum.footprint import Footprint, format_size, parse_size, peak_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2_000_000_000),
        ("2gb", 2_000_000_000),
        ("2G", 2_000_000_000),
        ("800MB", 800_000_000),
        (" 1.5 GiB ", 1_610_612_736),
        ("512KiB", 524_288),
        ("1000", 1000),
        ("10B", 10),
        ("1T", 10**12),
    ],
)
def test_size_is_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "2XB", "two GB", "-1GB", "1,5GB", "2GB2"])
def test_invalid_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(AwesumError, match="2GB") as error:
        parse_size(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("size", "text"), [(1_130_000_000, "1.1 GB"), (640_000_000, "640 MB"), (999_000_000, "1.0 GB"), (0, "0 MB")]
)
def test_size_is_formatted_with_two_or_three_digits(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(1_000_000, 10**13))
def test_formatted_size_can_be_parsed_again(size: int) -> None:
    assert abs(parse_size(format_size(size)) - size) <= max(0.06e9 if size >= 0.9e9 else 0.6e6, 0)


def test_peak_memory_is_at_least_what_is_held_and_never_falls() -> None:
    before = peak_memory()
    held = bytearray(60_000_000)
    during = peak_memory()
    assert during > len(held)
    del held
    assert peak_memory() >= during >= before > 10_000_000


FOOTPRINT = Footprint(fixed=700_000_000, per_prompt=50_000_000)


def test_without_a_limit_the_maximum_number_of_prompts_fits() -> None:
    assert FOOTPRINT.prompts(None, 12) == 12


@given(st.integers(750_000_000, 3_000_000_000), st.integers(1, 20))
def test_prompts_that_fit_stay_within_the_limit_and_one_more_would_not(limit: int, most: int) -> None:
    prompts = FOOTPRINT.prompts(limit, most)
    assert 1 <= prompts <= most
    assert FOOTPRINT.fixed + prompts * FOOTPRINT.per_prompt <= limit
    assert prompts == most or FOOTPRINT.fixed + (prompts + 1) * FOOTPRINT.per_prompt > limit


@pytest.mark.parametrize("limit", [0, 10_000_000, 749_999_999])
def test_limit_too_small_for_one_prompt_is_refused_naming_the_minimum(limit: int) -> None:
    with pytest.raises(AwesumError, match="750 MB") as error:
        FOOTPRINT.prompts(limit, 12)
    assert "\n" not in str(error.value)


def test_prompts_that_need_no_memory_all_fit() -> None:
    assert Footprint(fixed=700_000_000, per_prompt=0).prompts(800_000_000, 12) == 12
