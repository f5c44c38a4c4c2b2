"""Prefixes: single flight, the byte bound, chunks between steps, on the fake stepper."""

from concurrent.futures import CancelledError

import pytest

from model.core import InvalidVoice, PrefillUnavailable, PromptTooLong, SessionSpec
from model.prefix import PrefixCache
from tests.fakes.stepper import FakePrefix
from tests.unit.model.engine.harness import A, B, Caller, Rig

pytestmark = pytest.mark.unit


# contract: B7
def test_eight_racing_opens_of_one_pair_make_one_read_and_one_prefill() -> None:
    rig = Rig(8)
    rig.reader.held = True
    callers = [rig.caller(B) for _ in range(8)]
    rig.ticks(3)
    rig.reader.run_all()
    rig.ticks(6)
    stats = rig.engine.stats()
    assert all(caller.bound[0].prefill_positions == 200 for caller in callers)
    assert (stats.prefills, stats.voice_reads, stats.prefix_hits) == (1, 1, 0)
    assert rig.reads == ["b.pt"] and rig.stepper.log.count("chunk") == 4


# contract: I3
def test_a_second_call_with_the_same_pair_starts_by_a_copy() -> None:
    rig = Rig(2)
    rig.seated(B)
    rig.stepper.log.clear()
    rig.caller(B)
    rig.ticks(1)
    assert rig.stepper.log == ["admit 1"]
    assert rig.engine.stats().prefix_hits == 1


# contract: I3
def test_with_a_warm_prefix_the_first_output_comes_in_the_step_of_the_first_input() -> None:
    rig = Rig(2)
    rig.seated(B)
    steps = rig.engine.stats().steps
    caller = rig.caller(B)
    caller.submit()
    rig.ticks(1)
    assert [r.seq for r in caller.results] == [1]
    assert rig.engine.stats().steps == steps + 1


# contract: I3
def test_chunk_boundaries_depend_on_the_prompt_alone() -> None:
    alone, crowded = Rig(8), Rig(8)
    alone.seated(B)
    callers = crowded.seated(*[A] * 7)
    crowded.caller(B)
    for _ in range(10):
        crowded.round(*callers)
    assert alone.engine.stats().prefill_chunks == 4
    assert crowded.engine.stats().prefill_chunks == 1 + 4


# contract: I2
def test_while_one_call_prefills_seven_running_calls_lose_no_frame() -> None:
    rig = Rig(8)
    callers = rig.seated(*[A] * 7)
    late = rig.caller(B)
    rig.stepper.log.clear()
    for _ in range(20):
        for caller in callers:
            caller.submit()
        ticks_until_stepped = 0
        while rig.engine.stats().waiting_frames:
            rig.ticks(1)
            ticks_until_stepped += 1
        assert ticks_until_stepped <= 2, "delayed by at most one chunk"
        rig.frame_time()
    assert late.bound and all(len(caller.results) == 20 for caller in callers)
    assert "chunk chunk" not in " ".join(rig.stepper.log)


# contract: I2
def test_a_backlog_that_always_has_a_step_due_cannot_starve_a_prefill() -> None:
    rig = Rig(2)
    (busy,) = rig.seated(A)
    late = rig.caller(B)
    for _ in range(25):
        busy.submit()
    rig.ticks(9)
    assert late.bound and len(busy.results) >= 4


# contract: B6
def test_a_prompt_of_more_than_half_the_context_is_refused_with_both_counts() -> None:
    rig = Rig(1)
    rig.lengths["a.pt"] = 201
    caller = rig.caller(A)
    rig.ticks(3)
    (failure,) = caller.failures
    assert failure.code == PromptTooLong.code
    assert "201" in failure.message and "200" in failure.message
    assert rig.engine.stats().used == 1
    caller.close()
    rig.ticks(1)
    assert rig.engine.stats().used == 0


# contract: B6
def test_an_unreadable_voice_fails_every_waiting_call_and_is_tried_anew_by_the_next() -> None:
    rig = Rig(3)
    length = rig.lengths.pop("a.pt")
    failing = [rig.caller(A), rig.caller(A)]
    prepared = rig.engine.prepare(A)
    rig.ticks(3)
    assert [c.failures[0].code for c in failing] == [PrefillUnavailable.code] * 2
    assert isinstance(prepared.exception(timeout=0), PrefillUnavailable)
    rig.lengths["a.pt"] = length
    caller = rig.caller(A)
    rig.ticks(3)
    assert caller.bound and rig.reads == ["a.pt", "a.pt"]


# contract: B1
def test_an_unknown_voice_is_refused_at_once() -> None:
    rig = Rig(1)
    caller = rig.caller(None)
    with pytest.raises(InvalidVoice):
        rig.engine.bind(caller.handle, SessionSpec("../a.pt", ""))
    with pytest.raises(InvalidVoice):
        rig.engine.prepare(SessionSpec("nobody.pt", "")).result(timeout=0)


# contract: B3
def test_prepare_makes_the_first_frame_wait_for_nothing() -> None:
    rig = Rig(1)
    prepared = rig.engine.prepare(B)
    rig.ticks(6)
    assert prepared.result(timeout=0) == 200
    caller = rig.caller(B)
    caller.submit()
    rig.ticks(1)
    assert len(caller.results) == 1
    again = rig.engine.prepare(B)
    rig.ticks(1)
    assert again.result(timeout=0) == 200 and rig.engine.stats().prefills == 1


# contract: B3
def test_a_cancelled_prepare_is_dropped_where_it_has_not_begun() -> None:
    rig = Rig(1)
    rig.reader.held = True
    prepared = rig.engine.prepare(B)
    rig.ticks(1)
    assert prepared.cancel()
    rig.reader.run_all()
    rig.ticks(3)
    assert rig.reads == [] and rig.engine.stats().prefill_chunks == 0
    with pytest.raises(CancelledError):
        prepared.result(timeout=0)


# contract: B3
def test_a_call_that_joins_a_cancelled_prepare_still_gets_its_prefix() -> None:
    rig = Rig(1)
    rig.reader.held = True
    prepared = rig.engine.prepare(B)
    rig.ticks(1)
    prepared.cancel()
    caller = rig.caller(B)
    rig.ticks(1)
    rig.reader.held = False
    rig.reader.run_all()
    rig.ticks(7)
    assert caller.bound and rig.engine.stats().prefills == 1


# contract: B3
def test_a_prepare_that_joins_while_the_reader_drops_a_cancelled_one_is_read_after_all() -> None:
    rig = Rig(1)
    rig.reader.held = True
    dropped, late = rig.engine.prepare(B), []
    rig.ticks(1)
    dropped.cancel()
    (job,) = rig.engine._prefills._jobs.values()
    reading, cancel = job.reading, job.reading.cancel

    def join_and_cancel() -> bool:
        late.append(rig.engine.prepare(B))
        rig.ticks(1)
        return cancel()

    reading.cancel = join_and_cancel  # type: ignore[method-assign]
    rig.reader.held = False
    rig.reader.run_all()
    rig.ticks(7)
    assert late[0].result(timeout=0) == 200 and rig.reads == ["b.pt"]


# contract: I3
def test_the_cache_is_bounded_in_bytes_and_forgets_the_least_recently_used() -> None:
    cache: PrefixCache[FakePrefix] = PrefixCache(100)
    for name in ("one", "two"):
        cache.put((name, ""), FakePrefix(5, 40, 0))
    assert cache.get(("one", "")) is not None
    cache.put(("three", ""), FakePrefix(5, 40, 0))
    assert cache.get(("two", "")) is None and cache.nbytes == 80
    cache.put(("huge", ""), FakePrefix(5, 101, 0))
    assert cache.get(("huge", "")) is None and cache.nbytes == 80


# contract: I3
def test_a_prefix_too_large_to_keep_still_serves_all_who_wait_for_it() -> None:
    rig = Rig(2, prefix_bytes=10)
    callers = [rig.caller(B), rig.caller(B)]
    rig.ticks(8)
    assert all(caller.bound for caller in callers)
    assert rig.engine.stats().prefix_bytes == 0 and rig.engine.stats().prefills == 1


# contract: B7
def test_two_personas_of_one_voice_are_two_prefixes() -> None:
    rig = Rig(2)
    first = rig.caller(A)
    second = Caller(rig.engine).open(SessionSpec("a.pt", "another"))
    rig.ticks(4)
    for caller in (first, second):
        caller.submit()
    rig.ticks(1)
    assert first.heard() != second.heard() and rig.engine.stats().prefills == 2
