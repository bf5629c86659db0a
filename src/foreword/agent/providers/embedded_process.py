"""The engine's process: reads its settings from standard input, serves on the loopback, and ends with its input.

It runs as a script and imports nothing from this package, so that it starts fast. The parent holds the input pipe open;
the pipe closes however the parent ends.
"""

import json
import os
import sys
import threading
from typing import Any

PING_INTERVAL_S = 5  # seconds without output after which the engine sends a ping
BATCH_TOKENS = 128  # tokens evaluated at once; a cancelled request is noticed between batches


def main() -> None:
    """Serve until the input ends."""
    # The engine's output goes to the log; a duplicate of standard output carries the one line for the parent.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=exit_with_parent, daemon=True).start()
    try:
        server = serve_model(settings)
        reply = {"url": server.listening_address}
    except Exception as error:  # noqa: BLE001 - report any error to the parent
        reply = {"error": str(error) or type(error).__name__}
    answer.write(json.dumps(reply) + "\n")
    answer.flush()
    if "error" not in reply:
        threading.Event().wait()


def exit_with_parent() -> None:
    """Exit when the parent has ended; there is nothing to save."""
    while sys.stdin.read(4096):
        pass
    os._exit(0)


def serve_model(settings: dict[str, Any]) -> Any:
    """Load the weights and serve them."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["window"] * settings["slots"]
    params.n_parallel = settings["slots"]
    params.kv_unified = False  # each slot has its own part of the KV cache
    params.cache_ram_mib = settings["spill_mb"]  # RAM for the caches of sessions that lost their slot
    params.ctx_shift = False  # refuse requests that do not fit instead of dropping tokens
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_batch = BATCH_TOKENS
    params.n_gpu_layers = 0
    params.warmup = False
    params.ui = False
    params.cors_origins = ""
    params.verbosity = 0
    params.log_json = False
    params.sse_ping_interval = PING_INTERVAL_S
    params.endpoint_slots = True
    params.timeout_read = params.timeout_write = 600
    if settings.get("template"):
        params.chat_template = settings["template"]
    for name in ("temp", "top_p", "penalty_repeat"):
        if settings.get(name) is not None:
            setattr(params.sampling, name, settings[name])
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
