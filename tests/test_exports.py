"""The names that users may rely on. Adding one here is a decision; removing one breaks somebody."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

EXPORTS = {
    "holdfast": {"__version__", "connect"},
    "holdfast.audit": {"Audit", "AuditPolicy"},
    "holdfast.calls": {"Answer", "Calls", "annotated", "card_notes", "expire"},
    "holdfast.conversations": {
        *("ARCHIVED", "Conversation", "ConversationInfo", "Conversations", "Format", "Listing"),
        *("PurgeProgress", "Purged", "Snapshot"),
    },
    "holdfast.conversations.functions": {"HostConversation", "Item", "open_host"},
    "holdfast.copying": {"Copied", "Problem", "Progress", "conversations", "copy"},
    "holdfast.copying.foreign": {"Format", "load_foreign"},
    "holdfast.copying.jsonl": {"FileProblem", "Imported", "export", "load"},
    "holdfast.hub": {"Hub", "connect"},
    "holdfast.observing": {"Observer"},
    "holdfast.persistence": {
        *("AgentPersistence", "AgentStates", "DisplayMessagePersistence", "DisplayMessages", "HookContext"),
        *("Lifecycle", "PersistContext", "ResolvesToolResults", "SavesSyntheticMessages"),
        *("SyntheticMessage", "ToolInfo", "ToolStatus", "quietly"),
    },
    "holdfast.scopes": {"ActorOf", "OwnerOf", "Scopes"},
    "holdfast.store": {
        *(
            "ABSENT",
            "Append",
            "ConversationKey",
            "DropRecords",
            "Limits",
            "MoveCall",
            "Op",
            "OpenCall",
            "PutRecord",
        ),
        *("Redact", "Rest", "SetHeader", "Store", "Tag", "Untag", "Wake", "connect"),
    },
    "holdfast.sweeper": {"Sweeper"},
    "holdfast.sync": {"Waiting", "connect"},
    "holdfast.testing": {
        *("AgentPersistenceConformance", "ConversationConformance", "DisplayMessagePersistenceConformance"),
        *("FakeClock", "PersistenceConformance", "StoreConformance", "StoreKit", "StoreMaker"),
    },
    "holdfast.views": {
        *("AgentState", "Logged", "Marks", "Page", "Price", "Row", "Rows", "Spent", "StateField"),
        *("StateFold", "Transcript", "Turn", "UsageFold", "bound", "logged", "page", "repair"),
        *("rows", "state", "transcript", "usage"),
    },
    "holdfast.views.display": {
        *("CallContent", "Content", "DataContent", "ErrorContent", "FileContent", "ImageContent"),
        *("Marks", "NotificationContent", "Page", "ResultContent", "Row", "Rows"),
        *("TextContent", "ThinkingContent", "TodosContent", "bound", "page", "row_content", "rows"),
    },
    "holdfast.views.formats": {
        *("from_anthropic", "from_langchain", "from_openai", "from_responses", "stored"),
        *("to_anthropic", "to_langchain", "to_openai", "to_responses"),
    },
    "holdfast.views.state": {
        *("AgentState", "StateField", "StateFold", "state"),
    },
    "holdfast.views.transcript": {
        *("Transcript", "Turn", "repair", "transcript"),
    },
    "holdfast.views.usage": {
        *("Price", "Spent", "UsageFold", "usage"),
    },
}


@pytest.mark.parametrize("module", EXPORTS)
def test_a_module_exports_what_it_should_and_no_more(module: str) -> None:
    imported = importlib.import_module(module)

    assert set(imported.__all__) == EXPORTS[module]
    assert sorted(imported.__all__) == list(imported.__all__)
    assert all(hasattr(imported, name) for name in imported.__all__)


def test_importing_holdfast_imports_nothing_else_until_it_is_asked_for() -> None:
    code = "import sys, holdfast; print('msgspec' in sys.modules); holdfast.connect; print('msgspec' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.split() == ["False", "True"]


def test_importing_holdfast_imports_nothing_that_is_optional() -> None:
    code = "import holdfast.hub, holdfast.store.sqlite, sys; print(*{m.split('.')[0] for m in sys.modules})"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"typer", "rich", "pytest", "anyio", "hypothesis", "apsw", "pydantic"} & set(loaded)
