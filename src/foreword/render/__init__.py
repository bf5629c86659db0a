"""Rendering: the only stage where sections become text."""

from foreword.render.layout import Layout
from foreword.render.prompt import Block, Prompt, Span, render

__all__ = ["Block", "Layout", "Prompt", "Span", "render"]
