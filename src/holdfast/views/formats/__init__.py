"""
Transcripts in the message formats of providers and frameworks, and back.

All of them are plain dicts; no SDK is needed, and the SDKs' own objects are read as well.
"""

from holdfast.views.formats.anthropic import from_anthropic, to_anthropic
from holdfast.views.formats.common import stored
from holdfast.views.formats.langchain import from_langchain, to_langchain
from holdfast.views.formats.openai import from_openai, to_openai
from holdfast.views.formats.responses import from_responses, to_responses

__all__ = [
    "from_anthropic",
    "from_langchain",
    "from_openai",
    "from_responses",
    "stored",
    "to_anthropic",
    "to_langchain",
    "to_openai",
    "to_responses",
]
