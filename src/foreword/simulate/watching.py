"""Watching a design: what it writes is kept, so that every call can be accounted for afterwards."""

from collections.abc import Sequence

from foreword.caching import Block
from foreword.simulate.accounting import Asked
from foreword.simulate.design import Design
from foreword.simulate.ours import Kept, Service
from foreword.simulate.session import Call


class Watched:
    """Writes as another design does, and keeps what was written."""

    def __init__(self, design: Design, service: Service) -> None:
        self._design = design
        self._service = service
        self.asked: list[Asked] = []

    def write(self, call: Call) -> Sequence[Block]:
        """Write a request, and keep it."""
        blocks, service = self._design.write(call), self._service
        standing = self._design.standing if isinstance(self._design, Kept) else None
        self.asked.append(
            Asked(
                at=call.at,
                model=service.model.name,
                blocks=tuple(blocks),
                facts=service.cache,
                prices=service.prices,
                count=service.meter.count,
                base=standing.base if standing else None,
            )
        )
        return blocks
