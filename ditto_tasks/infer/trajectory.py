"""TRAJECTORY: runs a strategy within its budgets, and keeps account of steps and usage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ditto_tasks.errors import InferError
from ditto_tasks.infer.asking import Asker
from ditto_tasks.infer.base import Problem, Strategy
from ditto_tasks.infer.deliberation import accept_deliberation, check_selectable, select
from ditto_tasks.infer.models import (
    Candidate,
    Constraints,
    DeliberateInput,
    DeliberationMode,
    Trajectory,
    TrajectoryInput,
    TrajectoryStep,
)
from ditto_tasks.infer.prompts import context_messages, deliberate_messages
from ditto_tasks.infer.sampling import add_usage, merge_generation, total_tokens
from ditto_tasks.infer.values import GenerationConfig, Message, ModelConfig, Sample, Usage
from ditto_tasks.models import to_wire

COMPLETED = "completed"


class BudgetSpentError(InferError):
    """A budget of the trajectory is used up; the code is the stop reason."""


def resolve(given: Constraints | None, defaults: Constraints) -> Constraints:
    """Return the caller's constraints over the worker's; 16 steps unless either says otherwise."""
    merged = {
        **defaults.model_dump(exclude_none=True),
        **(given.model_dump(exclude_none=True) if given else {}),
    }
    return Constraints(**{"max_steps": 16, **merged})


def find_strategy(strategies: Mapping[str, Strategy], name: str) -> Strategy:
    """Return a registered strategy; raises UNKNOWN_STRATEGY."""
    if name not in strategies:
        raise InferError("UNKNOWN_STRATEGY", "no such trajectory strategy is registered")
    return strategies[name]


def run_trajectory(given: TrajectoryInput, strategy: Strategy, asker: Asker) -> Trajectory:
    """Follow the strategy to its end or to the end of a budget."""
    constraints = resolve(given.constraints, asker.defaults.constraints)
    run = TrajectoryRun(
        asker=asker.within(constraints.timeout_ms),
        outer=asker,
        constraints=constraints,
        model=given.model,
        generation=merge_generation(given.generation, asker.defaults.generation),
    )
    try:
        result = strategy(_problem(given, asker), run)
    except BudgetSpentError as spent:
        return run.trajectory(run.last, "partial", spent.code)
    if result is None:
        return run.trajectory(None, "failed", "no_result")
    return run.trajectory(result, "completed", COMPLETED)


def _problem(given: TrajectoryInput, asker: Asker) -> Problem:
    name = given.strategy.name
    return Problem(
        messages=(*context_messages(given.context, given.memory), *given.messages),
        objective=given.objective,
        options={**asker.defaults.strategies.get(name, {}), **(given.strategy.options or {})},
    )


@dataclass(kw_only=True)
class TrajectoryRun:
    """The tools of a strategy; every sample, judging included, is counted and recorded here."""

    asker: Asker
    outer: Asker
    constraints: Constraints
    model: ModelConfig | None
    generation: GenerationConfig
    last: Message | None = None
    steps: list[TrajectoryStep] = field(default_factory=list)
    samples: int = 0
    spent_tokens: int = 0
    usages: list[Usage | None] = field(default_factory=list)

    def sample(self, messages: Sequence[Message], *, label: str | None = None) -> Sample:
        """Ask for one answer."""
        sample = self._ask(tuple(messages), self.generation)
        self.last = sample.message
        self._record("sample", label=label, message=sample.message, sample=sample)
        return sample

    def deliberate(
        self, candidates: Sequence[Message], *, mode: DeliberationMode = "select", count: int = 1
    ) -> list[Message]:
        """Let the model judge: the best ``count`` messages, or in other modes the one made of all."""
        named = tuple(Candidate(id=str(n), result=message) for n, message in enumerate(candidates, 1))
        given = DeliberateInput(candidates=named)
        check_selectable(given, count)
        limit = GenerationConfig(max_tokens=self.asker.defaults.deliberate_max_tokens)
        sample = self._ask(deliberate_messages(given, mode, count), merge_generation(limit, self.generation))
        judged = accept_deliberation(given, mode, count, sample)
        self.last = judged.result
        self._record("deliberate", label=mode, message=judged.result, sample=sample)
        if judged.selected_ids is None:
            return [judged.result]
        return [chosen.result for chosen in select(named, judged.selected_ids, count)]

    def step(self, note: str) -> None:
        """Record a note of the strategy's own."""
        self._record("note", label=note)

    def trajectory(self, result: Message | None, status: str, reason: str) -> Trajectory:
        """Return what was done so far."""
        usage = self.usages[0] if self.usages else None
        for more in self.usages[1:]:
            usage = add_usage(usage, more)
        fields = {"result": result, "steps": tuple(self.steps), "status": status, "stop_reason": reason}
        return Trajectory.model_validate({**fields, "usage": usage})

    def _ask(self, messages: tuple[Message, ...], generation: GenerationConfig) -> Sample:
        capped, is_cap = self._capped(generation)
        try:
            sample = self.asker.ask(messages, model=self.model, generation=capped)
        except InferError as error:
            if error.code == "TIMEOUT":
                self.outer.check()  # the call's own deadline is a timeout, the trajectory's is a budget
                raise BudgetSpentError("timeout", "the trajectory's time is spent") from error
            raise
        self._count(sample)
        if is_cap and sample.finish_reason == "length":
            self.last = sample.message
            self._record("sample", label="cut", message=sample.message, sample=sample)
            raise BudgetSpentError("max_total_tokens", "the trajectory's tokens are spent")
        return sample

    def _capped(self, generation: GenerationConfig) -> tuple[GenerationConfig, bool]:
        """Return the generation within what is left of the budgets, and whether that is what bounds it."""
        if self.samples >= (self.constraints.max_steps or 0):
            raise BudgetSpentError("max_steps", "the trajectory's steps are spent")
        budget = self.constraints.max_total_tokens
        if budget is None:
            return generation, False
        left = budget - self.spent_tokens
        if left <= 0:
            raise BudgetSpentError("max_total_tokens", "the trajectory's tokens are spent")
        if generation.max_tokens is not None and generation.max_tokens <= left:
            return generation, False
        return generation.model_copy(update={"max_tokens": left}), True

    def _count(self, sample: Sample) -> None:
        self.samples += 1
        self.usages.append(sample.usage)
        if self.constraints.max_total_tokens is None:
            return
        tokens = total_tokens(sample.usage)
        if tokens is None:
            raise InferError(
                "USAGE_UNAVAILABLE", "maxTotalTokens needs usage, which an answer did not report"
            )
        self.spent_tokens += tokens

    def _record(
        self, kind: str, *, label: str | None, message: Message | None = None, sample: Sample | None = None
    ) -> None:
        fields = {"index": len(self.steps), "kind": kind, "label": label, "message": message}
        if sample is not None:
            fields |= {"finish_reason": sample.finish_reason, "usage": sample.usage}
        step = TrajectoryStep.model_validate(
            {key: value for key, value in fields.items() if value is not None}
        )
        self.steps.append(step)
        if self.asker.call.emit is not None:
            self.asker.call.emit({"type": "step", "step": to_wire(step)})
