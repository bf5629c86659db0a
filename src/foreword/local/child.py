"""The engine's process: reads what to load from its input, serves on the loopback, and ends when its input ends.

It is started as a file and imports nothing of ours, so that it is up as soon as the weights are. Its input is a pipe
that the parent holds open: however the parent ends, the pipe ends too.
"""

import json
import os
import sys
import threading
from typing import Any

PING = 5  # seconds of silence after which the engine shows that it is alive
BATCH = 128  # tokens that are read at once; a stopped turn is noticed in between


def main() -> None:
    """Serve until the input ends."""
    # What the engine prints goes to the log; the one line for the parent has a file of its own.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=wait_for_end, daemon=True).start()
    try:
        server = serve(asked)
        told = {"url": server.listening_address}
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        told = {"error": str(error) or type(error).__name__}
    answer.write(json.dumps(told) + "\n")
    answer.flush()
    if "error" not in told:
        threading.Event().wait()


def wait_for_end() -> None:
    """End at once when the parent has gone; there is nothing to save."""
    while sys.stdin.read(4096):
        pass
    os._exit(0)


def serve(asked: dict[str, Any]) -> Any:
    """Load the weights and serve them."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked["path"]
    params.model_alias = {asked["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [asked["key"]]
    params.n_ctx = asked["window"] * asked["slots"]
    params.n_parallel = asked["slots"]
    params.kv_unified = False  # every session has its own room
    params.cache_ram_mib = asked["aside"]  # and what it had there is set aside in memory when another one needs it
    params.ctx_shift = False  # what does not fit is refused, and not forgotten in silence
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    params.n_batch = BATCH
    params.n_gpu_layers = 0
    params.warmup = False
    params.ui = False
    params.cors_origins = ""
    params.verbosity = 0
    params.log_json = False
    params.sse_ping_interval = PING
    params.endpoint_slots = True
    params.timeout_read = params.timeout_write = 600
    if asked.get("template"):
        params.chat_template = asked["template"]
    for name in ("temp", "top_p", "penalty_repeat"):
        if asked.get(name) is not None:
            setattr(params.sampling, name, asked[name])
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
