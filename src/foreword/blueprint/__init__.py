"""Blueprints: which slots a prompt has, in which order and under which rules, as data."""

from foreword.blueprint.load import load
from foreword.blueprint.plan import Plan, Planned, Run
from foreword.blueprint.select import select
from foreword.blueprint.slot import Blueprint, Slot

__all__ = ["Blueprint", "Plan", "Planned", "Run", "Slot", "load", "select"]
