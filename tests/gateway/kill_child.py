"""A gateway in a process of its own, to be killed: accepts numbered messages, and says what it accepted."""

import asyncio
import json
import os
import sys
import tempfile
import time

from house import open_house, say

from foreword.gateway.message import Incoming
from foreword.runtime.toolbox import Further
from foreword.tools import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Trust

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

TOOLS = ("note", "press")


class Diary:
    """A tool that leaves a line for each time it runs."""

    def __init__(self, path, name):
        self.path, self.name = path, name

    async def call(self, _assembly, _name, arguments):
        """Leave a line, in one write that a kill cannot divide."""
        line = json.dumps({"tool": self.name, "n": arguments["n"], "time": time.time()})
        handle = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)
        await asyncio.sleep(0.002)
        return Answer(text=f"noted {arguments['n']}", tokens=3)


class Address:
    """Where the stand-in of the parent listens."""

    def __init__(self, url):
        self.url = url


async def run(folder, url, diary, first, last):
    """Accept the messages of a range, eight sessions in turn, then stay until everything is answered."""
    tools = [
        Tool(name=name, parameters=NUMBER, trust=Trust.PUBLIC, changes=name == "press", confirm=False) for name in TOOLS
    ]
    further = tuple(Further(tools=Toolset([tool]), runs=Diary(diary, tool.name)) for tool in tools)
    async with open_house(folder, Address(url), further=further) as gateway:
        for number in range(first, last):
            accepted = await gateway.accept(
                Incoming(text=f"number {number}", user="alice", channel=f"line{number % 8}", key=f"m{number}")
            )
            tell({"n": number, "turn": accepted.turn})
        await asyncio.Event().wait()


def tell(said):
    """Tell the parent, in one write that a kill cannot divide."""
    os.write(sys.stdout.fileno(), f"{json.dumps(said)}\n".encode())


async def warm_up(url):
    """Run one turn elsewhere, so that everything is imported and made ready."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_house(folder, Address(url)) as gateway:
            await say(gateway, "number 1000000")


def breed(folder, url, diary):
    """Fork a gateway for each range that is asked for, so that none of them has to import anything."""
    asyncio.run(warm_up(url))
    for line in sys.stdin:
        first, last = map(int, line.split())
        child = os.fork()
        if child == 0:
            asyncio.run(run(folder, url, diary, first, last))
        tell({"child": child})
        os.waitpid(child, 0)
        tell({"ended": child})


if __name__ == "__main__":
    breed(*sys.argv[1:4])
