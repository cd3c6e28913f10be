"""The names that users may rely on. Adding one here is a decision; removing one breaks somebody."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

EXPORTS = {
    "holdfast": {"__version__"},
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


def test_importing_holdfast_imports_nothing_that_is_optional() -> None:
    code = "import holdfast.store, holdfast.store.sqlite, sys; print(*{m.split('.')[0] for m in sys.modules})"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"typer", "rich", "pytest", "anyio", "hypothesis", "apsw", "pydantic"} & set(loaded)
