"""Retries: a request that is sent again is the same turn.

A client names its message with the header Idempotency-Key, or it is one of the SDKs that count their retries in a
header and send the same body again. Keys and retries belong to the token of the request and to the session it names.
"""

import json
from hashlib import sha256
from typing import Any

from fastapi import Request

from foreword.gateway.api.desk import Desk
from foreword.gateway.api.faults import SESSION
from foreword.gateway.message import ClientRequest

RETRY_COUNT = "x-stainless-retry-count"  # of the SDKs of OpenAI and Anthropic; 0 for the first try
DELIVERY = ("stream", "stream_options")  # options of delivery; they do not change the turn


def make_key(desk: Desk, key: str | None) -> str:
    """Make the key of a message out of the client's, for its token alone."""
    return f"{desk.token}/{key}" if key else ""


async def read_client_request(request: Request, desk: Desk, **more: Any) -> ClientRequest:
    """Read what a request says beyond its message."""
    count = request.headers.get(RETRY_COUNT, "")
    return ClientRequest(
        id=desk.request_id,
        token=desk.token,
        digest=hash_request(json.loads(await request.body()), request.headers.get(SESSION, "")),
        retry=count.isdecimal() and int(count[:9]) > 0,
        **more,
    )


def hash_request(body: dict[str, Any], session: str) -> str:
    """Hash a body without its delivery options, with the session of the header; the order of keys does not matter."""
    asked = [session, {name: value for name, value in body.items() if name not in DELIVERY}]
    return sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
