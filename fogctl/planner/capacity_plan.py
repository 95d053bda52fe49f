"""A whole capacity plan as plain data: what the terminal, the JSON and the page all show. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fogmodels.capacity import FAMILIES, CapacityModel, fit_capacity

from fogctl.config.boards import Board
from fogctl.errors import FogError
from fogctl.planner.kept import Kept
from fogctl.planner.purchase import purchase, tasks_per_board

FAR = 5.0
"""From so many times the slots that were measured on, the plan says that it reaches far."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is wanted of a plan."""

    rates: tuple[float, ...]
    boards: tuple[Board, ...]
    memory_mb: tuple[float, ...]
    slot_speed: float = 1.0
    headroom: float = 0.10
    confidence: float = 0.90
    max_slots: int = 5000


def model_of(kept: Kept) -> CapacityModel:
    """The capacity model of what was measured; FogError if that is too little."""
    try:
        return fit_capacity([each.observation for each in kept.measured])
    except ValueError as error:
        raise FogError(
            f"{kept.app}: {str(error).removesuffix('.')}",
            hint="measure more budgets: fogctl plan explore goes on where it stopped",
        ) from None


def plan(kept: Kept, model: CapacityModel, asked: Question) -> dict[str, Any]:
    """Every rate with every size of memory on every board, and what the figures rest on."""
    most = max(each.task_slots for each in kept.measured)
    rows = []
    for rate in asked.rates:
        for memory_mb in asked.memory_mb:
            for board in asked.boards:
                bought = purchase(
                    model,
                    memory_mb,
                    kept.profile(memory_mb),
                    kept.stages,
                    rate,
                    board,
                    slot_speed=asked.slot_speed,
                    headroom=asked.headroom,
                    confidence=asked.confidence,
                    max_slots=asked.max_slots,
                )
                rows.append(asdict(bought) | {"beyond": None if not bought.slots else bought.slots / most})
    return {
        "app": kept.app,
        "slot": kept.slot,
        "slot_speed": asked.slot_speed,
        "headroom": asked.headroom,
        "confidence": asked.confidence,
        "max_slots": asked.max_slots,
        "family": model.family,
        "loo_errors": {name: model.errors[name] for name in FAMILIES},
        "verdict": model.verdict,
        "finished": kept.finished,
        "rows": rows,
        "boards": [_board(board, asked.memory_mb) for board in asked.boards],
        "measured": [asdict(each) for each in kept.measured],
        "notes": notes(kept, asked, rows),
    }


def notes(kept: Kept, asked: Question, rows: Sequence[dict[str, Any]]) -> list[str]:
    """What a buyer must know before believing the table, a sentence each."""
    said = [
        f"A slot as measured was {kept.slot}; it is taken for {asked.slot_speed:g} "
        f"core{'' if asked.slot_speed == 1 else 's'} of a Raspberry Pi 4 (--slot-speed)."
    ]
    far = max((row["beyond"] for row in rows if row["beyond"] is not None), default=0.0)
    most = max(each.task_slots for each in kept.measured)
    if far >= FAR:
        said.append(
            f"The answers reach up to {far:.1f} times beyond the {most} slots that were measured: "
            "there the interval counts, not the figure."
        )
    if not kept.finished:
        said.append(
            f"The exploration is not finished: {len(kept.measured)} budgets are measured, and more may "
            "change the answer."
        )
    if not kept.stages:
        said.append("Tasks of each stage are not known: only throughputs were given.")
    said.append(
        "Boards are counted by cores and memory alone: broker, control node, network and spares come on top."
    )
    for board in asked.boards:
        for size in asked.memory_mb:
            if (room := tasks_per_board(board, size)) < board.cores:
                said.append(
                    f"{board.name} has memory for {room} task{'' if room == 1 else 's'} of {size:g} MB "
                    f"on its {board.cores} cores."
                )
        power = next((each for each in board.sources if each.figure == "power"), None)
        kind = "of unknown source" if power is None else f"{power.kind} ({power.note})"
        said.append(
            f"{board.name}: {board.idle_watts:g} W idle, {board.load_watts:g} W with all cores busy, {kind}."
        )
    return said


def _board(board: Board, memory_mb: Sequence[float]) -> dict[str, Any]:
    power = next((each for each in board.sources if each.figure == "power"), None)
    return {
        "name": board.name,
        "title": board.title,
        "idle_watts": board.idle_watts,
        "load_watts": board.load_watts,
        "watts_are": None if power is None else power.kind,
        "tasks_per_board": {f"{size:g}": tasks_per_board(board, size) for size in memory_mb},
    }


def shown(row: dict[str, Any], max_slots: int) -> dict[str, str]:
    """A row of a plan in words, by the names of its columns: the same in the terminal and on the page."""
    beyond = f"> {max_slots}"

    def amount(of: int | None) -> str:
        return beyond if of is None else f"{of}"

    def span(low: int | None, high: int | None, unreached: str) -> str:
        return " to ".join(unreached if bound is None else f"{bound}" for bound in (low, high))

    return {
        "rate": f"{row['rate']:,.10g}",
        "memory_mb": f"{row['memory_mb']:g}",
        "slots": amount(row["slots"]),
        "interval": span(row["low"], row["high"], beyond),
        "beyond": "" if row["beyond"] is None else f"{row['beyond']:.1f}",
        "tasks": ", ".join(f"{name} {count}" for name, count in row["tasks"].items()) or "not known",
        "board": row["board"],
        "boards": "not reached" if row["boards"] is None else f"{row['boards']}",
        "boards_interval": span(row["boards_low"], row["boards_high"], "?"),
        "watts": "" if row["watts"] is None else f"{row['watts']:.1f}",
    }


HEADS = {
    "rate": "rate /s",
    "memory_mb": "memory MB",
    "slots": "slots",
    "interval": "low to high",
    "beyond": "× measured",
    "tasks": "tasks of each stage",
    "board": "board",
    "boards": "boards",
    "boards_interval": "low to high",
    "watts": "watts",
}
"""What the columns of a plan are called."""
