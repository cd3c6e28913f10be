"""
The net effect of a commit's operations.

Folding happens once, in shared code, so that a backend sees at most one change to each thing it
stores. The memory store applies operations one by one instead, so comparing with it tests this
module too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import InvalidOp
from holdfast.store.ops import (
    Append,
    DropRecords,
    MoveCall,
    Op,
    OpenCall,
    PutRecord,
    Redact,
    Rest,
    SetHeader,
    Tag,
    Untag,
    Wake,
)


class Net(msgspec.Struct):
    """
    What is left of a commit's operations, in the order in which it is applied.

    ``same_as`` has, for each append, the index of an earlier one in the commit with the same id,
    or None. ``rest`` clears the mark before ``wake`` sets it. ``plain`` says that there is nothing
    but events without ids, which no check can refuse.
    """

    appends: list[Append] = msgspec.field(default_factory=list)
    same_as: list[int | None] = msgspec.field(default_factory=list)
    header: SetHeader | None = None
    opens: dict[str, OpenCall] = msgspec.field(default_factory=dict)
    moves: dict[str, MoveCall] = msgspec.field(default_factory=dict)
    drops: list[DropRecords] = msgspec.field(default_factory=list)
    puts: dict[tuple[str, str], PutRecord] = msgspec.field(default_factory=dict)
    untags: list[Untag] = msgspec.field(default_factory=list)
    tags: dict[Tag, None] = msgspec.field(default_factory=dict)
    rest: Rest | None = None
    wake: Wake | None = None
    redacted: list[int] = msgspec.field(default_factory=list)

    plain: bool = False


def fold(ops: Sequence[Op]) -> Net:
    """
    Fold operations to their net effect.

    Raises:
        InvalidOp: A call or a record is changed twice, or operations contradict each other.
    """
    net = Net()
    ids: dict[str, int] = {}
    for op in ops:
        match op:
            case Append():
                same = None
                if op.id is not None and (first := ids.setdefault(op.id, len(net.appends))) != len(
                    net.appends
                ):
                    same = first
                net.appends.append(op)
                net.same_as.append(same)
            case SetHeader():
                net.header = op if net.header is None else _merge(net.header, op)
            case OpenCall():
                _check_call_once(net, op.call_id)
                net.opens[op.call_id] = op
            case MoveCall():
                _check_call_once(net, op.call_id)
                net.moves[op.call_id] = op
            case PutRecord():
                _put(net, op)
            case DropRecords():
                _drop(net, op)
            case Untag():
                for tag in [t for t in net.tags if _unties(op, t)]:
                    del net.tags[tag]
                net.untags.append(op)
            case Tag():
                net.tags[op] = None
            case Rest():
                release = op.release or (net.rest is not None and net.rest.release)
                net.rest, net.wake = Rest(release=release), None
            case Wake():
                net.wake = op if net.wake is None or op.after < net.wake.after else net.wake
            case Redact():
                net.redacted.append(op.seq)
            case _:
                raise InvalidOp(f"{type(op).__name__} is not an operation of a commit")
    net.plain = len(net.appends) == len(ops) and not ids
    return net


def _merge(before: SetHeader, op: SetHeader) -> SetHeader:
    given = {field: value for field in op.__struct_fields__ if (value := getattr(op, field)) is not None}
    if before.when is not None and op.when not in (None, before.when):
        raise InvalidOp("two changes of the header in one commit ask for different versions of it")
    return msgspec.structs.replace(before, **given)


def _check_call_once(net: Net, call_id: str) -> None:
    if call_id in net.opens or call_id in net.moves:
        raise InvalidOp(
            f"call {call_id!r} is changed twice in one commit; open it in, or move it to, its last status"
        )


def _put(net: Net, op: PutRecord) -> None:
    if (op.collection, op.key) in net.puts:
        raise InvalidOp(f"record {op.collection}/{op.key} is written twice in one commit")
    if op.when is not None and any(drop.matches(op.collection, op.key) for drop in net.drops):
        raise InvalidOp(f"record {op.collection}/{op.key} is dropped and then put with `when` in one commit")
    net.puts[op.collection, op.key] = op


def _drop(net: Net, op: DropRecords) -> None:
    if hit := next((put for put in net.puts if op.matches(*put)), None):
        raise InvalidOp(f"record {hit[0]}/{hit[1]} is written and then dropped in one commit; drop first")
    net.drops.append(op)


def _unties(op: Untag, tag: Tag) -> bool:
    return (tag.name, tag.value) == (op.name, op.value) and op.ref in (None, tag.ref)
