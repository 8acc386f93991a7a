"""Training the verifier: statements made of a dataset's own texts, one true and one corrupted, told apart.

Passages of documents and of summaries are parsed and corrupted; reference sentences that the document covers word by
word count as true in other words; a statement about another passage counts as unsupported. The pairs stay in RAM: some
ten thousand are enough.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from awesum import files
from awesum.analysis.sentences import sentence_spans
from awesum.datasets import Example, examples
from awesum.errors import AwesumError
from awesum.metrics.english import parser
from awesum.progress import Bar
from awesum.summary import count
from awesum.training.corruption import Corruptor, Statement
from awesum.verify.claims import agreement, nearest
from awesum.verify.cross_encoder import CrossEncoder, TrainedScorer
from awesum.verify.verifier import Calibration, Verifier, load_file, save_file, untrained

PASSAGE = 1100
"""Characters of a passage that is parsed at once."""
COVERED = 0.84
"""The share of a reference sentence's words that its nearest source sentences have, from which it counts as true."""
ELSEWHERE = 0.2
"""The share of statements that also get one about another passage as their false one."""
LONGEST_SOURCE, LONGEST_STATEMENT = 200, 90
"""Tokens; longer ones are left out of training."""
FROZEN = 2
"""The first layers of the encoder, which stay as they are."""
BATCH_TOKENS = 2600
"""Tokens per update, padding included."""
WARM_UP = 150
"""Updates until the learning rate is reached."""


@dataclass(frozen=True)
class VerifierSettings:
    """How a verifier is trained."""

    data: tuple[str, ...]
    """Datasets: folders, or public names. Their train split is used."""
    output: str
    statements: int = 30_000
    """Pairs of statements to make."""
    epochs: float = 1.0
    learning_rate: float = 1.5e-4
    validation: int = 1200
    """Pairs that are kept from training and measured on."""
    seed: int = 0


@dataclass(frozen=True)
class Scores:
    """How well a verifier tells true statements from false ones."""

    pairs: int
    accuracy: float
    """The share of pairs whose true statement scores higher."""
    by_kind: dict[str, float]
    """The same for each kind of corruption."""


def make_statements(settings: VerifierSettings, report: Any = print) -> list[Statement]:
    """Pairs of statements about the training documents of some datasets, evenly from each."""
    chance = random.Random(settings.seed)
    made: list[Statement] = []
    for name in settings.data:
        corruptor = Corruptor(settings.seed)
        each = max(1, settings.statements // len(settings.data))
        found = [*islice(_of_dataset(name, corruptor, chance), each)]
        if not found:
            raise AwesumError(f"{name} gives no statements: its train split needs documents in English sentences")
        report(f"{count(len(found), 'statement')} of {name}")
        made += found
    made += [*_elsewhere(made, chance)]
    chance.shuffle(made)
    return made


def _of_dataset(name: str, corruptor: Corruptor, chance: random.Random) -> Iterator[Statement]:
    """Statements about passages of documents and summaries, and those that summaries make about documents."""
    nlp = parser()
    while True:  # another passage of each document in every round
        rounds = 0
        for example in examples(name, "train"):
            for text in (example.document, example.summary):
                passage = nlp(_passage(text, chance))
                rest = [*passage.sents][:-1]
                while rest:
                    size = chance.choice((1, 1, 2, 2, 3, 4))
                    window, rest = rest[:size], rest[size:]
                    for statement in corruptor.statements(window):
                        rounds += 1
                        yield statement
            for sources, reference in islice(_covered(example), 4):
                parsed = nlp(" ".join([*sources, reference]))
                ends = len(" ".join(sources))
                read = [sentence for sentence in parsed.sents if sentence.end_char <= ends + 1]
                told = [sentence for sentence in parsed.sents if sentence.start_char >= ends]
                if read and len(told) == 1:
                    yield from corruptor.statements(read, summary=told)
        if not rounds:
            return


def _passage(text: str, chance: random.Random) -> str:
    text = " ".join(text.split())
    if len(text) <= PASSAGE:
        return text
    start = chance.randrange(len(text) - PASSAGE)
    passage = text[start : start + PASSAGE]
    return passage.partition(". ")[2] or passage


def _covered(example: Example) -> Iterator[tuple[list[str], str]]:
    """The sentences of a summary that the document says as well, in other words, each with the sentences that do."""
    sources = [" ".join(example.document[start:end].split()) for start, end in sentence_spans(example.document)]
    for start, end in sentence_spans(example.summary):
        reference = " ".join(example.summary[start:end].split())
        near = [sources[index] for index in sorted(nearest(sources, reference, 2))]
        agreed = agreement(near, reference)
        if agreed.words >= COVERED and agreed.exact == 1 and reference.rstrip(".") not in " ".join(near):
            yield near, reference


def _elsewhere(made: Sequence[Statement], chance: random.Random) -> Iterator[Statement]:
    """Statements with one about a neighbouring passage as their false one: true in itself, but not here."""
    for at, statement in enumerate(made):
        if chance.random() < ELSEWHERE:
            others = [each for each in made[max(at - 5, 0) : at + 6] if each.sources != statement.sources]
            if others:
                other = chance.choice(others).true
                if other.rstrip(".") not in " ".join(statement.sources):
                    yield Statement(statement.sources, statement.true, other, "elsewhere")


@dataclass(frozen=True)
class _Pair:
    """A true and a false statement as tokens, and which tokens of the false one are wrong."""

    source: list[int]
    true: list[int]
    false: list[int]
    wrong: list[int]

    @property
    def length(self) -> int:
        return len(self.source) + max(len(self.true), len(self.false)) + 3


class Training:
    """Trains a cross-encoder on pairs of statements."""

    def __init__(self, model: CrossEncoder, settings: VerifierSettings) -> None:
        self.model, self.settings = model, settings
        self.random = random.Random(settings.seed)
        model.eval()  # one pass over many statements: dropout would only cost time
        model.encoder.requires_grad_(False)
        for layer in model.encoder.encoder.layer[FROZEN:]:
            layer.requires_grad_(True)

    def tokens(self, statements: Sequence[Statement]) -> list[_Pair]:
        """The statements as tokens, without those that are too long."""
        found = []
        for statement in statements:
            source, true, false = self.model.tokenizer(
                [" ".join(statement.sources), statement.true, statement.false], add_special_tokens=False
            )["input_ids"]
            if len(source) <= LONGEST_SOURCE and max(len(true), len(false)) <= LONGEST_STATEMENT:
                found.append(_Pair(source, true, false, wrong_tokens(true, false)))
        return found

    def run(self, statements: Sequence[Statement], quiet: bool = False) -> None:
        """Train once over the statements, or as often as the settings say."""
        pairs = self.tokens(statements)
        steps = max(1, int(len(self._batches(pairs)) * self.settings.epochs))
        head: dict[str, Any] = {"params": [*self.model.head.parameters()], "lr": 7 * self.settings.learning_rate}
        trained = [weight for weight in self.model.encoder.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW([{"params": trained}, head], lr=self.settings.learning_rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / WARM_UP, 1) * max(0.02, 1 - step / steps)
        )
        bar, done = Bar(quiet), 0
        torch.set_flush_denormal(True)
        while done < steps:
            for batch in self._batches(pairs)[: steps - done]:
                self.loss(batch).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                done += 1
                bar.show("training", done, steps)
        bar.close()

    def loss(self, batch: Sequence[_Pair]) -> torch.Tensor:
        """Three in one: is each statement true, which of two is, and which tokens are wrong."""
        first, last = self.model.tokenizer.cls_token_id, self.model.tokenizer.sep_token_id
        rows = []
        for pair in batch:
            beside = [first, *pair.source, last]
            rows += [([*beside, *said, last], len(beside)) for said in (pair.true, pair.false)]
        tokens = self.model.pairs(rows)
        support, errors = self.model(tokens)
        wrong = torch.zeros_like(errors)
        for row, pair in enumerate(batch):
            begin = rows[2 * row + 1][1]
            wrong[2 * row + 1, begin : begin + len(pair.wrong)] = torch.tensor(pair.wrong, dtype=wrong.dtype)
        inside = (tokens.types == 1) & (tokens.mask == 1)
        is_true = torch.tensor([1.0, 0.0] * len(batch))
        return (
            binary_cross_entropy_with_logits(support, is_true)
            + softplus(support[1::2] - support[0::2]).mean()
            + binary_cross_entropy_with_logits(errors[inside], wrong[inside], pos_weight=torch.tensor(2.0))
        )

    def _batches(self, pairs: Sequence[_Pair]) -> list[list[_Pair]]:
        """Pairs of similar length together, in random order."""
        batches: list[list[_Pair]] = [[]]
        for pair in sorted(pairs, key=lambda pair: pair.length + 8 * self.random.random()):
            if batches[-1] and 2 * (len(batches[-1]) + 1) * pair.length > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(pair)
        self.random.shuffle(batches)
        return batches


def wrong_tokens(true: Sequence[int], false: Sequence[int]) -> list[int]:
    """1 for each token of the false statement that the true one has not, or that stands where something is missing."""
    wrong = [0] * len(false)
    for kind, _, _, start, end in SequenceMatcher(a=true, b=false, autojunk=False).get_opcodes():
        if kind in ("replace", "insert"):
            wrong[start:end] = [1] * (end - start)
        elif kind == "delete":
            for at in (start - 1, start):
                if 0 <= at < len(false):
                    wrong[at] = 1
    return wrong


def evaluate(verifier: Verifier, statements: Sequence[Statement]) -> Scores:
    """How often the true statement scores higher."""
    right: dict[str, list[bool]] = defaultdict(list)
    for statement in statements:
        true, false = verifier.judge(statement.sources, [statement.true, statement.false])
        right[statement.kind].append(true.support > false.support)
    everything = [each for found in right.values() for each in found]
    by_kind = {kind: sum(found) / len(found) for kind, found in sorted(right.items())}
    return Scores(len(everything), sum(everything) / max(len(everything), 1), by_kind)


def calibrate(model: CrossEncoder, statements: Sequence[Statement], steps: int = 300) -> Calibration:
    """Weights for the model's judgement and the exact checks that make their sum a probability."""
    rows, labels = [], []
    logits = model.logits([(" ".join(each.sources), said) for each in statements for said in (each.true, each.false)])
    for at, statement in enumerate(statements):
        for said, is_true, logit in ((statement.true, 1.0, logits[2 * at]), (statement.false, 0.0, logits[2 * at + 1])):
            agreed = agreement([*statement.sources], said)
            rows.append([logit, *(1 - value for value in agreed.values())])
            labels.append(is_true)
    inputs, targets = torch.tensor(rows), torch.tensor(labels)
    weights = torch.zeros(inputs.shape[1], requires_grad=True)
    bias = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=steps)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        # Agreement never speaks against a statement.
        signed = torch.cat([softplus(weights[:1]), -softplus(weights[1:])])
        loss = binary_cross_entropy_with_logits(inputs @ signed + bias, targets) + 1e-3 * weights.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        signed = torch.cat([softplus(weights[:1]), -softplus(weights[1:])]).tolist()
    return Calibration(signed[0], tuple(signed[1:]), bias.item())


def train(settings: VerifierSettings, quiet: bool = False) -> Scores:
    """Make statements, train, calibrate, save; how well the result does on statements it has not seen."""
    output = Path(settings.output)
    try:
        files.check_writable(output)
    except OSError as error:
        raise AwesumError(f"cannot write {output} ({error.strerror}): give another --output") from error
    report = (lambda line: None) if quiet else print
    statements = make_statements(settings, report)
    held_out = min(settings.validation, len(statements) // 5)
    while held_out > 2 and len(_unseen(statements, held_out)) < len(statements) / 2:
        held_out //= 2  # few passages, which many statements are about
    rest = _unseen(statements, held_out)
    if held_out < 2 or not rest:
        raise AwesumError(f"{count(len(statements), 'statement')} are too few to learn from: give more --data")
    torch.manual_seed(settings.seed)
    model = untrained()
    Training(model, settings).run(rest, quiet)
    half = held_out // 2
    save_file(output, model, Calibration())
    saved = load_file(output)  # what is calibrated and measured is what was saved, in half precision
    assert isinstance(saved.scorer, TrainedScorer)
    save_file(output, model, calibrate(saved.scorer.model, statements[:half]))
    return evaluate(load_file(output), statements[half:held_out])


def _unseen(statements: Sequence[Statement], held_out: int) -> list[Statement]:
    """The statements about none of the sentences that the first ones are about."""
    seen = {source for each in statements[:held_out] for source in each.sources}
    return [each for each in statements[held_out:] if not seen & {*each.sources}]
