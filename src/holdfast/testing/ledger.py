"""
What a store has of the commits that it acknowledged.

The commits are plans (``crash_child.Plan``) that mark all of their parts. The log says what calls,
records, tags and header must be, so that a commit of which only some parts arrived can't hide.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping

import msgspec

from holdfast.errors import NotFound
from holdfast.ids import ConversationKey
from holdfast.model.records import CallStatus, Commit, Event
from holdfast.store import Store
from holdfast.testing.crash_child import COLLECTION, TAG, Part, Plan

ALL = 1_000_000
_SEARCHED = 2


class Answer(msgspec.Struct, frozen=True):
    """A commit that was acknowledged, and what the store said."""

    plan: Plan
    commit: Commit


class Findings(msgspec.Struct):
    """
    What was found in a store.

    ``whole`` has the seqs of each commit whose events are all there. The others are markers with a
    sentence about them, and must be empty: ``lost`` was acknowledged and is not there, ``half`` is
    there in parts, ``twice`` more than once, ``wrong`` with other content, ``gaps`` in the numbers.
    """

    whole: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    lost: dict[str, str] = msgspec.field(default_factory=dict)
    half: dict[str, str] = msgspec.field(default_factory=dict)
    twice: dict[str, str] = msgspec.field(default_factory=dict)
    wrong: dict[str, str] = msgspec.field(default_factory=dict)
    gaps: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """A sentence for each thing that should not be."""
        kinds = (self.lost, self.half, self.twice, self.wrong, self.gaps)
        return [sentence for kind in kinds for sentence in kind.values()]

    def add(self, other: Findings) -> None:
        """Take over what was found elsewhere, or later."""
        for kind in self.__struct_fields__:
            getattr(self, kind).update(getattr(other, kind))


async def examine(
    store: Store, owner: str, conversations: Iterable[str], answers: Mapping[str, Answer]
) -> Findings:
    """Compare the conversations with themselves and with what was acknowledged."""
    findings = Findings()
    for id in conversations:
        await _examine(store, ConversationKey(owner, id), findings)
    for marker, answer in answers.items():
        seqs = findings.whole.get(marker)
        if seqs is None:
            findings.lost[marker] = f"{marker} was acknowledged and is not in {answer.plan.conversation}"
        elif seqs != answer.commit.seqs:
            findings.wrong[marker] = f"{marker} was acknowledged as {answer.commit.seqs} and is at {seqs}"
    await _search(store, owner, findings)
    return findings


class _Rows(msgspec.Struct):
    """What a conversation has beside its log, each with the marker of the commit that wrote it."""

    title: str = ""
    calls: dict[str, tuple[CallStatus, str]] = msgspec.field(default_factory=dict)
    records: dict[str, str] = msgspec.field(default_factory=dict)
    tags: set[str] = msgspec.field(default_factory=set)

    def apply(self, plan: Plan) -> None:
        self.title = plan.marker
        self.records[plan.slot] = plan.marker
        self.tags.add(plan.marker)
        if plan.opens is not None:
            self.calls[plan.opens] = "pending", plan.marker
        if plan.moves is not None:
            self.calls[plan.moves.call_id] = plan.moves.to, plan.marker


async def _examine(store: Store, key: ConversationKey, findings: Findings) -> None:
    try:
        header = await store.header(key)
    except NotFound:
        return
    events = await store.events(key)
    if [event.seq for event in events] != [*range(1, len(events) + 1)] or header.last_seq != len(events):
        findings.gaps[str(key)] = f"{key} has {len(events)} events and ends at {header.last_seq}"
    expected = _replayed(events, findings)
    actual = _Rows(
        title=header.title,
        calls={call.call_id: (call.status, call.data.decode()) for call in await store.calls(key)},
        records={record.key: record.data.decode() for record in await store.records(key, COLLECTION)},
        tags={found.ref for found in await store.find(key.owner, TAG, key.id, limit=ALL)},
    )
    if actual.title != expected.title:
        _differ(findings, f"{key}'s title", actual.title, expected.title)
    for call_id in actual.calls.keys() | expected.calls.keys():
        found, wanted = actual.calls.get(call_id), expected.calls.get(call_id)
        if found != wanted:
            _differ(findings, f"{key}'s call {call_id}", found and found[1], wanted and wanted[1])
    for slot in actual.records.keys() | expected.records.keys():
        if actual.records.get(slot) != expected.records.get(slot):
            _differ(findings, f"{key}'s record {slot}", actual.records.get(slot), expected.records.get(slot))
    for marker in actual.tags ^ expected.tags:
        _differ(findings, f"{key}'s tag", marker if marker in actual.tags else None, marker)


def _replayed(events: Collection[Event], findings: Findings) -> _Rows:
    """What the log says that the rows must be."""
    rows = _Rows()
    parts = [(event, msgspec.json.decode(event.data, type=Part)) for event in events]
    for marker, group in itertools.groupby(parts, key=lambda pair: pair[1].marker):
        together = list(group)
        plan = together[0][1].plan
        seqs = tuple(event.seq for event, _ in together)
        if marker in findings.whole:
            findings.twice[marker] = f"{marker} is in the log at {findings.whole[marker]} and at {seqs}"
        elif len(together) != plan.events:
            findings.half[marker] = f"{marker} has {len(together)} of {plan.events} events"
        else:
            findings.whole[marker] = seqs
            if [event.data for event, _ in together] != [plan.event(part) for part in range(plan.events)]:
                findings.wrong[marker] = f"{marker} at {seqs} is not what was written"
        rows.apply(plan)
    return rows


def _differ(findings: Findings, what: str, found: str | None, wanted: str | None) -> None:
    marker = wanted or found or what
    findings.half[marker] = f"{what} is of {found or 'nobody'}; by the log it must be of {wanted or 'nobody'}"


async def _search(store: Store, owner: str, findings: Findings) -> None:
    await store.settle()
    for marker in [*findings.whole][-_SEARCHED:]:
        seqs = sorted(hit.seq for hit in await store.search(owner, marker, limit=ALL))
        if seqs != sorted(findings.whole[marker]):
            findings.half[marker] = f"search finds {marker} at {seqs}; it is at {findings.whole[marker]}"
