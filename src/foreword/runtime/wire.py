"""The transport under the providers' libraries: no request leaves that does not hold our prompt, byte for byte."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2

from foreword.runtime.diagnosing import Overheard
from foreword.runtime.own import NotOurs, Sending, own

_SENDING: ContextVar[Sequence[Sending]] = ContextVar("foreword_sending", default=())
FRAMING = ("content-length", "transfer-encoding")


@contextmanager
def sending(what: Sending) -> Iterator[None]:
    """Say what the requests inside this block hold; each task has its own."""
    held = [what]
    token = _SENDING.set(held)
    try:
        yield
    finally:
        held.clear()  # a connection outlives the request, and its context with it: nothing that was said may
        _SENDING.reset(token)


class OwnedTransport(httpx2.AsyncBaseTransport):
    """Puts our prompt into each request and hands it on."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request as we made it."""
        what = next(iter(_SENDING.get()), None)
        if what is None:
            raise NotOurs("a model was called without a prompt of ours; the request was not sent")
        content = what.write(own(json.loads(await request.aread()), what))
        left_out = (*FRAMING, "accept-encoding") if what.hear else FRAMING  # what is overheard has to come as it is
        headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in left_out]
        response = await self._inner.handle_async_request(
            httpx2.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)
        )
        if what.hear and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = Overheard(response.stream, what.hear)
        return response

    async def aclose(self) -> None:
        """Close what is below."""
        await self._inner.aclose()
