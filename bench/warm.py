"""Warm builds: a new clock and a new message each time, and one edited file."""

import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import foreword
from bench.figure import Figure, Times, clock
from bench.sample import make_sample, make_tools
from foreword.workspace import Workspace

START = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
WARM = 5_000
EDITS = 50


def run() -> Iterator[Figure]:
    """Measure warm builds, compared with a Jinja2 render of the same text and, if installed, nanobot's builder."""
    with tempfile.TemporaryDirectory() as name:
        folder = make_sample(Path(name))
        workspace = foreword.open(str(folder))
        tools = make_tools()

        def build(number: int, step: timedelta = SECOND) -> str:
            turn = foreword.Turn(
                agent="reid",
                user="alice",
                situation="dm",
                message=f"What about matter {number}?",
                tools=tools,
                model="anthropic:claude-sonnet-5",
                mode=foreword.Mode.FULL,
                now=START + number * step,
            )
            return workspace.assemble(turn).prompt.text

        clock(build, 500)
        warm = clock(build, WARM)
        jinja = time_jinja(build(0))
        beside = (
            f"Jinja2 render of the same text: p50 {jinja.p50:,.0f} µs, p99 {jinja.p99:,.0f} µs{time_nanobot(folder)}"
        )
        yield Figure(name="warm build, p50", value=warm.p50, unit="µs", aim=120, baseline=beside)
        yield Figure(name="warm build, p99", value=warm.p99, unit="µs", aim=250)
        worst = clock(lambda number: build(number, MINUTE), WARM)
        yield Figure(name="the same, each in another minute, p50", value=worst.p50, unit="µs")
        yield time_edit(workspace, folder, build)


def time_edit(workspace: Workspace, folder: Path, build) -> Figure:
    """Measure the first build after an edit of AGENTS.md, including the check of the disk."""
    file = folder / "AGENTS.md"
    text = file.read_text(encoding="utf-8")

    def edit(number: int) -> float:
        file.write_text(f"{text}\nRule {number}.\n", encoding="utf-8")
        begin = time.perf_counter_ns()
        workspace.refresh(now=True)
        build(number)
        return (time.perf_counter_ns() - begin) / 1_000_000

    times = sorted(edit(number) for number in range(EDITS))
    return Figure(name="build after one edited file, p50", value=times[EDITS // 2], unit="ms", aim=1)


def time_jinja(text: str) -> Times:
    """Render the same sections from a compiled Jinja2 template, without trust, budget or counts."""
    import jinja2

    sections = text.split("\n## ")
    loop = "{% for section in sections %}{% if section %}## {{ section }}\n\n{% endif %}{% endfor %}"
    template = jinja2.Environment(autoescape=False).from_string(loop + "It is {{ now }}. {{ message }}")
    return clock(lambda n: template.render(sections=sections, now=START + timedelta(minutes=n), message=str(n)), 2_000)


def time_nanobot(folder: Path) -> str:
    """Measure nanobot's prompt builder on the same files, if it is installed."""
    try:
        from nanobot.agent.context import ContextBuilder
    except ImportError:
        return "; nanobot-ai: not installed"
    builder = ContextBuilder(folder)
    times = clock(lambda _: builder.build_system_prompt(), 30)
    return f"; nanobot-ai: p50 {times.p50:,.0f} µs"
