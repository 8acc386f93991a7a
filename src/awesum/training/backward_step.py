"""The optimizer's step inside the backward pass: each weight's as soon as its gradient is there, which then goes.

The gradients are never all there, which saves as many bytes as the trained weights take. Only for a system that goes
back once a step: another backward pass would add to gradients that are gone, and go through weights that have changed.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from awesum.errors import AwesumError
from awesum.training.settings import TrainingSettings
from awesum.training.trainable import Trainable


def check_step_in_backward(trainable: Trainable, settings: TrainingSettings) -> None:
    """Refuse it for what goes back several times a step, and where processes exchange gradients."""
    if not settings.step_in_backward:
        return
    if not trainable.goes_back_once:
        raise AwesumError(
            f"--step-in-backward is for a system with one backward pass a step, and {settings.system} has several: "
            "leave it out"
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise AwesumError(
            "--step-in-backward leaves no gradients for several processes to exchange: leave it out, or use one process"
        )


def step_in_backward(optimizer: torch.optim.Optimizer) -> None:
    """Take the step of each weight in the backward pass. The optimizer's own step then finds nothing to do.

    The optimizer stays whole, with its states, groups and learning rates, so that schedules and checkpoints are those
    of an ordinary run: its step passes over weights without a gradient, and there is only one with.
    """
    step: Any = type(optimizer).step  # the schedule counts the calls of the optimizer's own

    def take(weight: torch.Tensor) -> None:
        step(optimizer)
        weight.grad = None

    for group in optimizer.param_groups:
        for weight in group["params"]:
            if weight.requires_grad:
                weight.register_post_accumulate_grad_hook(take)
