"""Sentences that stand alone and sentences that do not, all made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awesum.analysis.standalone import needs_previous, points_elsewhere

CONTINUES = """\
However, the ferry was late again.
Therefore the council closed the pier.
In addition, two cranes were sold.
“But nobody asked the harbour master,” she wrote.
- And the lighthouse was painted red.
For example, the orchard lost its bees.
As a result, the ward had to close.
By contrast, the library stayed open.
Second, the pilots asked for a larger boat.
Finally, the auditors closed the ledger.
They sold the old quay in spring.
He repaired the booster twice.
Its engine had been rebuilt by then.
Their parachutes opened too late.
It rained on the day of the launch.
This raised the price of cider.
These grants were paid in May.
Those berths are now empty.
That decision cost the port a year.
Such delays are expensive.
The latter was never built.
Most of these were sold abroad.
One of them sank within a week.
In these cases, the fee is waived.
Under this scheme, growers pay nothing.
Because of such storms, the pier was rebuilt.
On the other hand, frost kills the pests.
Another was found near the station.
"""
STANDS = """\
The ferry was late again.
Harbour fees rose by a tenth in 2019.
This report describes the state of the orchard.
This year, the library lent a million books.
It is likely that the quay will be rebuilt.
It was hard to find a surgeon who would go.
Those who arrive early pay less.
Second-hand boats are taxed at a lower rate.
Second quarter sales fell at every port.
Next year the clinic will move to the hill.
Instead of a bridge, the town will build a tunnel.
Hisham Said opened the new archive.
Theydon Bois has a station.
Thistles grow between the apple trees.
Itemised bills are sent in March.
Andrew Gray keeps the lighthouse.
Socks were sold at the fair.
Orchards need water in June.
At this point in the season, apples are scarce.
The auditors found that pensions were paid twice.
We recommend that clinics keep the records for ten years.
The council believes that ferries should run at night.
The court held that fishermen own the quay.
IT systems at the clinic are twenty years old.
国会は予算案を可決した。
"""
POINTS = """\
Table 3 has the fees of each port.
The fees are listed in Table 3.
As figure 2 illustrates, the tide is early.
See the notes of the harbour master.
The costs (see appendix B) were high.
The dates are shown below.
The rules are discussed in more detail later.
The method was described above.
The ports are as follows: Aden, Bari and Cork.
The following table compares the orchards.
The chart below compares the orchards.
The steps are explained in the following sections.
Details are in Appendix IV.
The vote is explained in footnote 12.
"""
POINTS_NOWHERE = """\
The surgeon put the bowl on a table.
Figures for May are better than those for April.
The tide was below the quay.
The region exhibits a strong demand for cider.
The minister tables a budget every spring.
Nobody could figure a way out of the harbour.
She was seen at the station.
The boxes were stored above the shop.
The mapping of the coast took ten years.
Critics see a pattern in the delays.
"""


@pytest.mark.parametrize("text", CONTINUES.splitlines())
def test_sentence_that_continues_another_needs_it(text: str) -> None:
    assert needs_previous(text)


@pytest.mark.parametrize("text", STANDS.splitlines())
def test_sentence_that_stands_alone_needs_no_other(text: str) -> None:
    assert not needs_previous(text)


@pytest.mark.parametrize("text", POINTS.splitlines())
def test_sentence_that_points_to_another_place(text: str) -> None:
    assert points_elsewhere(text)


@pytest.mark.parametrize("text", [*POINTS_NOWHERE.splitlines(), *STANDS.splitlines()])
def test_sentence_that_points_to_no_other_place(text: str) -> None:
    assert not points_elsewhere(text)


@pytest.mark.parametrize("text", CONTINUES.splitlines()[:8])
def test_case_quotes_and_white_space_before_a_sentence_do_not_matter(text: str) -> None:
    assert needs_previous(f"\n  “{text}")
    assert needs_previous(text.lower())
    assert needs_previous(f"{text} \n\n")


def test_pointer_may_be_wrapped() -> None:
    assert points_elsewhere("The rates of each ward are shown\n  below.")


def test_word_is_only_recognized_as_a_whole() -> None:
    for connective, longer in (("So", "Sorrel"), ("Yet", "Yeti"), ("Its", "Itsy"), ("He", "Heat")):
        assert needs_previous(f"{connective} was it.")
        assert not needs_previous(f"{longer} was it.")


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    assert needs_previous(text) in (True, False)
    assert points_elsewhere(text) in (True, False)


@pytest.mark.parametrize("text", ["a " * 20_000, "in the case of " * 5_000, "(" * 20_000, "it is " + "a " * 20_000])
def test_very_long_sentence_is_judged(text: str) -> None:
    """A regular expression that tries every way to read it would not end."""
    assert not needs_previous(text + ".") or text.startswith("it")
    assert not points_elsewhere(text)


@pytest.mark.parametrize(
    "text",
    [
        'I will leave him to you, Ann," Magnan said.',
        "We always do,” he said.",
        'Nothing like it in the whole harbour."',
    ],
)
def test_end_of_a_quotation_needs_its_beginning(text: str) -> None:
    assert needs_previous(text)


@pytest.mark.parametrize(
    "text",
    [
        'The Fed keeps a goal of "maximum employment, stable prices" in its statute.',
        '"No time like the present," said the pilot.',
        "”No time like the present”, said the pilot.",
        'A pipe of 5" was laid.',
        "„Wir gewinnen“, sagte Anna Keller.",
    ],
)
def test_whole_quotation_stands_alone(text: str) -> None:
    assert not needs_previous(text)
