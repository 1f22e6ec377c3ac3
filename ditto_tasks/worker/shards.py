"""The shards of one worker process: what each is doing, whatever becomes of leases and connections.

Three kinds of threads meet here: the lease thread gives and takes shards, the consumer loop hears of
messages, and the pool's threads end tasks. Each shard has a lock; who holds it may call the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from celery.utils.log import get_logger

from ditto_tasks.worker.scripts import InFlight, Nothing, Settle, ShardScripts, Taken

logger = get_logger(__name__)

TIMEOUT_CODE: Final = "TIMEOUT"  # as the task itself says when it comes to its end after all


@dataclass(slots=True, eq=False)
class Delivery:
    """A message in work in this process, until its task has ended and the server knows how."""

    shard: int
    epoch: int
    taken: Taken
    started_s: float | None  # monotonic; None while it waits for a thread
    refuse: str | None  # the code with which the task has to end, unless its outcome is known already
    holds_suspect_slot: bool = False
    ending: Settle | None = None
    marks: tuple[str, ...] = ()  # of its cancellation; asked for at its start if it waits for a thread
    on_free: Callable[[], object] | None = None  # none of them existed then
    task_id: str | None = None  # once its message is read
    start_noted: bool = False  # the server knows of the start, so that its owner's death counts

    @property
    def in_flight(self) -> InFlight:
        return InFlight(self.shard, self.epoch, self.taken.seq, self.marks, self.on_free)


@dataclass(slots=True, eq=False)
class Shard:
    """What this process knows of a shard. `delivery` is the busy flag: it outlives lease and connection."""

    number: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    epoch: int | None = None  # None: not held
    draining: bool = False
    delivery: Delivery | None = None
    refuse: tuple[bytes, str] | None = None  # a message and its code, for when it is taken (again)


class Outlet(Protocol):
    """Where messages go while the worker consumes. Called from any thread."""

    def has_free_thread(self) -> bool:
        """Whether a message would start at once."""

    def next_to_start(self) -> Delivery | None:
        """The waiting delivery that the calling thread of the pool picks up when it is done here."""

    def deliver(self, delivery: Delivery) -> None:
        """Start the task. `Shards.settle` is called when it has ended, maybe before this returns."""

    def bury(self, delivery: Delivery) -> None:
        """Tell the message's caller, move it to the dead letters and settle it."""

    def watch(self, shard: int) -> None:
        """Call `Shards.advance` once when the shard's queue has a message. Idempotent."""

    def unwatch(self, shard: int) -> None:
        """Undo `watch`."""


class Shards:
    """All shards of this worker; the `ShardHolder` of the lease loop."""

    def __init__(self, scripts: ShardScripts, *, count: int, mutation_timeout_s: float) -> None:
        self._scripts = scripts
        self._timeout_s = mutation_timeout_s
        self._shards = [Shard(number) for number in range(count)]
        self._outlet: Outlet | None = None
        self._paused = False
        self._suspect_slot = threading.Lock()  # held while a suspect is in work
        self._thread = threading.local()

    # for the consumer and the pool

    def attach(self, outlet: Outlet) -> None:
        """Messages go to `outlet` from now on. Tasks that still run keep their shards busy."""
        self._outlet = outlet
        self.nudge()

    def detach(self) -> None:
        """Take no message until the next `attach`; what runs is settled all the same."""
        self._outlet = None

    def advance(self, number: int) -> None:
        """Take the shard's head if the shard is idle and may have more."""
        shard = self._shards[number]
        with shard.lock:
            if shard.delivery is None and self._may_take(shard):
                _guarded(self._take, shard)

    def settle(self, delivery: Delivery, how: Settle) -> None:
        """A task has ended. If the server can't be told now, `nudge` tells it later."""
        shard = self._shards[delivery.shard]
        with shard.lock:
            if shard.delivery is delivery:  # else it overstayed and was fenced off
                delivery.ending = how
                _guarded(self._settle, shard)

    def mark_started(self, delivery: Delivery) -> None:
        """A thread has picked the message up: its owner's death counts against it from now on."""
        shard = self._shards[delivery.shard]
        with shard.lock:
            if shard.delivery is delivery:
                delivery.started_s = time.monotonic()
                _guarded(self._note_start, delivery)

    # for the lease thread

    def held(self) -> Mapping[int, int]:
        return {shard.number: shard.epoch for shard in self._shards if shard.epoch is not None}

    def gain(self, shard: int, epoch: int) -> None:
        state = self._shards[shard]
        with state.lock:
            state.epoch, state.draining = epoch, False
            self._wait(state)

    def lose(self, shard: int) -> None:
        state = self._shards[shard]
        with state.lock:
            self._forget(state)

    def drain(self, shard: int) -> None:
        state = self._shards[shard]
        with state.lock:
            state.draining = True
            self._release_if_idle(state)

    def nudge(self, *, give_up: bool = False) -> None:
        """Move on what nothing else would: after a reconnect, a pause or an error.

        `give_up`: end with the first shard of which the server can't be told.
        """
        for shard in self._shards:
            with shard.lock:
                if not self._move_on(shard) and give_up:
                    return

    def end_overdue(self) -> None:
        """Free the shards whose mutation takes too long: it is fenced off and its message refused."""
        latest_s = time.monotonic() - self._timeout_s
        for shard in self._shards:
            with shard.lock:
                delivery = shard.delivery
                if delivery and not delivery.ending and delivery.started_s and delivery.started_s < latest_s:
                    self._end_overdue(shard, delivery)

    def drain_all(self) -> None:
        """Release every shard, each when its task has ended. Waits for none; idempotent.

        Here and in `release_all` a server that can't be told of one shard is told of no other one: each
        would take as long as a reply may, and leases lapse by themselves.
        """
        told = True
        for shard in self._shards:
            with shard.lock:
                shard.draining = True
                told = self._release_if_idle(shard, tell=told)

    def release_all(self) -> None:
        """Release at once; tasks that still run are fenced off by the next owner."""
        told = True
        for shard in self._shards:
            with shard.lock:
                told = self._release(shard, tell=told)

    # for an outage of the state store

    def pause(self) -> None:
        """Take no message until `resume`."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.nudge()

    def idle(self) -> list[int]:
        """The shards that are held and have nothing in work."""
        return [shard.number for shard in self._shards if shard.epoch is not None and shard.delivery is None]

    def refuse_head(self, number: int, message: bytes, code: str) -> None:
        """Take the head even while paused; if it is `message`, it has to end with `code`."""
        shard = self._shards[number]
        with shard.lock:
            if shard.delivery is None and shard.epoch is not None and not shard.draining:
                shard.refuse = (message, code)
                _guarded(self._take, shard)

    def running(self) -> Iterator[Delivery]:
        """What is in work."""
        return (shard.delivery for shard in self._shards if shard.delivery is not None)

    # under the shard's lock

    def _move_on(self, shard: Shard) -> bool:
        """Whether the server could be told what it had to be, if anything."""
        delivery = shard.delivery
        if delivery is None:
            self._wait(shard)
        elif delivery.ending is not None:
            return _guarded(self._settle, shard)
        elif delivery.started_s is not None and not delivery.start_noted:
            delivery.marks = ()  # its task asks for itself by now
            return _guarded(self._note_start, delivery)
        return True

    def _may_take(self, shard: Shard) -> bool:
        return (
            shard.epoch is not None and not shard.draining and not self._paused and self._outlet is not None
        )

    def _take(self, shard: Shard) -> None:
        starts = self._starts()
        self._proceed(shard, self._scripts.next(shard.number, shard.epoch or 0, starts=starts), starts=starts)

    def _settle(self, shard: Shard) -> None:
        """Tell the server how the task ended, and take the next message on the way."""
        delivery = shard.delivery
        if delivery is None or delivery.ending is None:
            return
        answer: Taken | Nothing = Nothing.EMPTY
        starts, following = self._starts(), None
        # Under another epoch the next owner, or our own next lease, has the message back at the head.
        if shard.epoch == delivery.epoch:
            take = delivery.ending == "ack" and self._may_take(shard) and not self._delivering()
            settle = (delivery.taken.seq, delivery.ending)
            following = self._next_to_start()
            answer = self._scripts.next(
                shard.number,
                shard.epoch,
                settle=settle,
                take=take,
                starts=starts,
                also_started=following.in_flight if following else None,
            )
        if following is not None:
            following.start_noted = True
        self._end(shard)
        self._proceed(shard, answer, starts=starts)

    def _proceed(self, shard: Shard, answer: Taken | Nothing, *, starts: bool) -> None:
        match answer:
            case Taken():
                self._deliver(shard, answer, starts=starts)
            case Nothing.SUSPECT:
                self._take_suspect(shard)
            case Nothing.FENCED:
                self._forget(shard)
            case Nothing.EMPTY:
                self._wait(shard)

    def _take_suspect(self, shard: Shard) -> None:
        """Take a head that killed workers before, unless another such message is in work here."""
        if not self._suspect_slot.acquire(blocking=False):
            return
        answer: Taken | Nothing = Nothing.EMPTY
        try:
            answer = self._scripts.next(shard.number, shard.epoch or 0, suspects=True)
        finally:
            if not isinstance(answer, Taken):
                self._suspect_slot.release()
        if isinstance(answer, Taken):
            self._deliver(shard, answer, starts=True, holds_suspect_slot=True)

    def _deliver(self, shard: Shard, taken: Taken, *, starts: bool, holds_suspect_slot: bool = False) -> None:
        refuse = shard.refuse[1] if shard.refuse and shard.refuse[0] == taken.message else None
        shard.refuse = None
        started_s = time.monotonic() if starts else None
        delivery = Delivery(shard.number, shard.epoch or 0, taken, started_s, refuse, holds_suspect_slot)
        delivery.start_noted = starts
        shard.delivery = delivery
        outlet = self._outlet
        self._thread.delivering = True
        try:
            if outlet is None:
                delivery.ending = "back"
            elif taken.is_dead:
                outlet.bury(delivery)
            else:
                outlet.deliver(delivery)
        except Exception as exc:  # noqa: BLE001 -- the message is safe in flight; `nudge` puts it back
            logger.error("Shard %d could not deliver its head: %s", shard.number, type(exc).__name__)
            delivery.ending = "back"
        finally:
            self._thread.delivering = False

    def _end(self, shard: Shard) -> None:
        delivery, shard.delivery = shard.delivery, None
        if delivery is not None and delivery.holds_suspect_slot:
            self._suspect_slot.release()

    def _wait(self, shard: Shard) -> None:
        outlet = self._outlet  # once: `detach` holds no lock
        if shard.draining:
            self._release_if_idle(shard)
        elif shard.delivery is None and outlet is not None and self._may_take(shard):
            outlet.watch(shard.number)

    def _end_overdue(self, shard: Shard, delivery: Delivery) -> None:
        logger.error("Shard %d is freed of a mutation that takes over %g s", shard.number, self._timeout_s)
        if shard.epoch == delivery.epoch:
            shard.epoch = self._scripts.renew_epoch(shard.number, delivery.epoch)
        shard.refuse = (delivery.taken.message, TIMEOUT_CODE)
        self._end(shard)
        self._wait(shard)

    def _release_if_idle(self, shard: Shard, *, tell: bool = True) -> bool:
        """A message that waits for a thread goes back; should it run after all, the epoch fences it."""
        if shard.delivery is None or shard.delivery.started_s is None:
            return self._release(shard, tell=tell)
        return tell

    def _release(self, shard: Shard, *, tell: bool) -> bool:
        """Whether the server could be told, if it was to be; else the lease lapses by itself."""
        if shard.epoch is not None:
            tell = tell and _guarded(self._scripts.release, shard.number)
            if shard.delivery is not None and shard.delivery.started_s is None:
                self._end(shard)
            self._forget(shard)
        return tell

    def _forget(self, shard: Shard) -> None:
        shard.epoch, shard.draining, shard.refuse = None, False, None
        outlet = self._outlet
        if outlet is not None:
            outlet.unwatch(shard.number)

    def _starts(self) -> bool:
        outlet = self._outlet
        return outlet is not None and outlet.has_free_thread()

    def _next_to_start(self) -> Delivery | None:
        """Noted on the way: in a pool that is never idle, a call of its own would cost each task one."""
        outlet = self._outlet
        following = outlet.next_to_start() if outlet is not None else None
        if following is not None:
            following.started_s = time.monotonic()
        return following

    def _note_start(self, delivery: Delivery) -> None:
        """If that fails, `nudge` comes again."""
        self._scripts.start(delivery.in_flight)
        delivery.start_noted = True

    def _delivering(self) -> bool:
        return getattr(self._thread, "delivering", False)


def _guarded(call: Callable[..., object], *arguments: object) -> bool:
    """Whether that went well.

    Errors are the broker's; leases, epochs and sequence numbers make it safe to come again later.
    """
    try:
        call(*arguments)
    except Exception as exc:  # noqa: BLE001 -- a broker's error must not end the loop or a thread of the pool
        logger.warning("A shard operation failed and is tried again: %s", type(exc).__name__)
        return False
    return True
