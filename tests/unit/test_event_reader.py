"""Where a reader of event streams stands, without a server."""

import pytest

from ditto_tasks.client.event_reader import EventReader

A, B = "ditto:d:events:a", "ditto:d:events:b"


def stream(key, *ids):
    return (key.encode(), [(each.encode(), {b"type": b"step", b"data": b'"x"'}) for each in ids])


def asked(reader):
    return dict(reader.asking(ended=False))


def test_one_stream_is_read_from_its_place_on():
    """The first question is from the start or from the given place, the next from the last event."""
    reader = EventReader("d", ["a"])
    assert asked(reader) == {A: "0"}
    assert [event.id for event in reader.heard([stream(A, "1-0", "1-1")])] == ["1-0", "1-1"]
    assert asked(reader) == {A: "1-1"}
    assert asked(EventReader("d", ["a"], "7-0")) == {A: "7-0"}


def test_several_streams_are_one_in_the_order_of_time():
    """Events come by their time, whatever their stream, and each id holds the places in all streams."""
    reader = EventReader("d", ["a", "b"])
    reader.asking(ended=False)
    heard = reader.heard([stream(A, "1-0", "10-0"), stream(B, "2-0", "9-3")])
    assert [event.id for event in heard] == ["1-0_0", "1-0_2-0", "1-0_9-3", "10-0_9-3"]
    assert asked(reader) == {A: "10-0", B: "9-3"}


@pytest.mark.parametrize("place", range(4))
def test_another_reader_goes_on_after_any_event(place):
    """A reader that starts after an event asks for exactly what the first one had not yet heard."""
    first = EventReader("d", ["a", "b"])
    first.asking(ended=False)
    heard = first.heard([stream(A, "1-0", "10-0"), stream(B, "2-0", "9-3")])
    again = EventReader("d", ["a", "b"], heard[place].id)
    in_order = ((A, "1-0"), (B, "2-0"), (B, "9-3"), (A, "10-0"))
    assert asked(again) == {A: "0", B: "0"} | dict(in_order[: place + 1])


def test_a_reader_is_finished_when_the_tasks_had_ended_and_nothing_more_came():
    """An end that came during a read is no reason to stop, nor is silence before it."""
    reader = EventReader("d", ["a"])
    for ended, entries, finished in (
        (False, None, False),
        (False, [stream(A, "1-0")], False),
        (True, [stream(A, "2-0")], False),
        (True, None, True),
    ):
        reader.asking(ended=ended)
        reader.heard(entries)
        assert reader.finished is finished
