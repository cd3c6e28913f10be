"""Pure folds over the log: what models, people and programs are shown of a conversation."""

from holdfast.views.display import Marks, Page, Row, Rows, bound, page, rows
from holdfast.views.log import Logged, logged
from holdfast.views.state import AgentState, StateField, StateFold, state
from holdfast.views.transcript import Transcript, Turn, repair, transcript
from holdfast.views.usage import Price, Spent, UsageFold, usage

__all__ = [
    "AgentState",
    "Logged",
    "Marks",
    "Page",
    "Price",
    "Row",
    "Rows",
    "Spent",
    "StateField",
    "StateFold",
    "Transcript",
    "Turn",
    "UsageFold",
    "bound",
    "logged",
    "page",
    "repair",
    "rows",
    "state",
    "transcript",
    "usage",
]
