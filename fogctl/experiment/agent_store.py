"""Where the agent of a part keeps its state, and what it begins with."""

from __future__ import annotations

from fogctl.agent.state import AgentState
from fogctl.agent.store import FileStore, MemoryStore, Store
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.testbed.model import Kind


def of_part(experiment: Experiment, folder: RunFolder, part: Part, begin: AgentState | None) -> Store:
    """Where the part's agent keeps its state: it knows what calibration taught and no more."""
    if experiment.testbed.kind is Kind.sim:
        return MemoryStore(begin)
    file = folder.path / "parts" / f"{part.key}.agent.json"
    file.unlink(missing_ok=True)
    store = FileStore(file)
    return store if begin is None else StartingWith(begin, store)


class StartingWith:
    """A store that has a state from the start. Satisfies `fogctl.agent.store.Store`."""

    def __init__(self, begin: AgentState, inner: Store) -> None:
        self._begin, self._inner = begin, inner

    def load(self) -> AgentState:
        """What was saved last, or what it began with."""
        return self._inner.load() or self._begin

    def save(self, state: AgentState) -> None:
        """Keep the state."""
        self._inner.save(state)
