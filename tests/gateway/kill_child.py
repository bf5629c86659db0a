"""A gateway in a separate process, to be killed: accepts numbered messages and prints each."""

import asyncio
import json
import os
import sys
import tempfile
import time

from house import open_house, say

import foreword
from foreword.gateway.messages import RoutedMessage


def make_tool(name, path):
    """Make a tool that appends a line for each run, in one atomic write."""

    @foreword.tool(name=name, trust="public", changes=name == "press", confirm=False)
    async def write_line(n: int) -> str:
        line = json.dumps({"tool": name, "n": n, "time": time.time()})
        handle = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)
        await asyncio.sleep(0.002)
        return f"noted {n}"

    return write_line


class Address:
    """The address of the parent's fake provider."""

    def __init__(self, url):
        self.url = url


async def run(folder, url, diary, first, last):
    """Accept a range of messages in eight sessions, then run until killed."""
    tools = tuple(make_tool(name, diary) for name in ("note", "press"))
    async with open_house(folder, Address(url), tools=tools) as gateway:
        for number in range(first, last):
            accepted = await gateway.accept(
                RoutedMessage(text=f"number {number}", user="alice", channel=f"line{number % 8}", key=f"m{number}")
            )
            describe({"n": number, "turn": accepted.turn})
        await asyncio.Event().wait()


def describe(said):
    """Send a line to the parent in one atomic write."""
    os.write(sys.stdout.fileno(), f"{json.dumps(said)}\n".encode())


async def warm_up(url):
    """Run one turn elsewhere, so that all modules are imported."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_house(folder, Address(url)) as gateway:
            await say(gateway, "number 1000000")


def breed(folder, url, diary):
    """Fork a gateway for each requested range, so that none needs to import modules."""
    asyncio.run(warm_up(url))
    for line in sys.stdin:
        first, last = map(int, line.split())
        child = os.fork()
        if child == 0:
            asyncio.run(run(folder, url, diary, first, last))
        describe({"child": child})
        os.waitpid(child, 0)
        describe({"ended": child})


if __name__ == "__main__":
    breed(*sys.argv[1:4])
