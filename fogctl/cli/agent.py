"""`fogctl agent`: a policy that scales a running app, within guard rails, and tells why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.agent_console import shown_log, stopped_by_signals
from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed import WhichOption, which
from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from fogctl.agent.settings import AgentSettings
    from fogctl.runtime.ground import Ground

app = typer.Typer(help="A policy that scales a running app, and tells why.", no_args_is_help=True)

AppOption = Annotated[str, typer.Option("--app", "-a", help="A deployed app.")]


@app.command()
def run(
    name: AppOption,
    policy: Annotated[str, typer.Option("--policy", "-p", help="Who decides: fogctl agent policies.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only advise; change nothing.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings and guard rails: docs/agent.md.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the policy: seed=3; repeatable.")
    ] = None,
    every: Annotated[str | None, typer.Option("--every", help="How often to look: 10s.")] = None,
    lasting: Annotated[str | None, typer.Option("--for", help="Stop after this long: 10min.")] = None,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="See through Prometheus: fogctl metrics up --prometheus.")
    ] = False,
    background: Annotated[
        bool, typer.Option("--background", help="As a service of the testbed, started again if it dies.")
    ] = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Let a policy scale an app. Ends with Ctrl-C, after --for, or with: fogctl agent stop.

    What it learned is kept: started again, it goes on from there and does nothing twice. With -o json every
    event is a line.

    \b
    Examples:
      sudo fogctl agent run --app taxi --policy gesscale-spark
      sudo fogctl agent run --app taxi --policy hybrid --dry-run --for 2min
      sudo fogctl agent run --app taxi --policy thr-nlaware --set scale_out_above=0.8 --background
    """
    from fogctl.agent.policy import make

    settings = _settings(config, every)
    chosen = make(policy, {**settings.options, **_options(options or [])})
    seconds = _seconds("--for", lasting)
    ground = _ground(testbed)
    if background:
        more = ["--dry-run"] if dry_run else []
        more += ["--prometheus"] if prometheus else []
        _start(ground, name, policy, config, options or [], every, lasting, more, output)
        return
    from fogctl.agent import service
    from fogctl.agent.live import LiveTarget
    from fogctl.agent.loop import Agent
    from fogctl.agent.store import FileStore
    from fogctl.metrics.readers import reader_of
    from fogctl.testbed import lock

    window_s = settings.guard.window
    reader = reader_of(ground, window_s, through_prometheus=prometheus)
    with (
        stopped_by_signals() as stopping,
        lock.held(service.lock_folder(ground.folder, name), f"app {name}", command=f"the agent {policy}"),
    ):
        target = LiveTarget(ground, window_s=window_s, say=_say, stopping=stopping, reader=reader)
        store = FileStore(service.folder(ground.folder, name) / "state.json")
        agent = Agent(
            target, name, chosen, settings, store, shown_log(ground.folder, output, dry_run), dry_run=dry_run
        )
        until = None if seconds is None else target.now_s() + seconds
        agent.run(until, stopping)
    if seconds is not None and not stopping():
        service.services_of(ground).forget(name)


@app.command()
def status(testbed: WhichOption = None, output: OutputOption = Format.table) -> None:
    """Show the agents of a testbed. Exit 1 if one that should run does not.

    \b
    Example:
      sudo fogctl agent status
    """
    from fogctl.agent import service
    from fogctl.runtime import events
    from fogctl.testbed import lock

    ground = _ground(testbed)
    services = service.services_of(ground)
    last: dict[str, dict[str, Any]] = {}
    for event in events.read(ground.folder):
        if "app" in event and event["what"] in ("agent started", "decision"):
            last.setdefault(event["app"], {})[event["what"]] = event
    rows = []
    for name, said in last.items():
        at_work = lock.holder(service.lock_folder(ground.folder, name)) is not None
        wanted = services.wanted(name)
        decision = said.get("decision", {})
        rows.append(
            {
                "app": name,
                "policy": said.get("agent started", {}).get("policy"),
                "state": "running" if at_work else "starting or dead" if wanted else "stopped",
                "service": wanted,
                "decisions": decision.get("decision", 0),
                "at_s": decision.get("at_s"),
                "reason": decision.get("reason"),
            }
        )
    cells = [(r["app"], r["policy"], r["state"], r["decisions"], r["reason"]) for r in rows]
    emit(output, rows, table(None, ("app", "policy", "state", "decisions", "last decision"), cells))
    if any(row["state"] == "starting or dead" for row in rows):
        raise typer.Exit(FAILED)


@app.command()
def stop(
    name: Annotated[str, typer.Argument(help="An app whose agent runs in the background.")],
    testbed: WhichOption = None,
) -> None:
    """Stop an agent that runs in the background; a change under way is finished first.

    \b
    Example:
      sudo fogctl agent stop taxi
    """
    from fogctl.agent import service
    from fogctl.testbed import lock

    ground = _ground(testbed)
    services = service.services_of(ground)
    if not services.wanted(name):
        who = lock.holder(service.lock_folder(ground.folder, name))
        hint = f"{who} runs in a terminal: end it there with Ctrl-C" if who else "fogctl agent status"
        raise FogError(f"no agent of {name} runs in the background", hint=hint, exit_code=FAILED)
    services.stop(name)
    typer.echo(f"the agent of {name} has stopped")


@app.command("events")
def show_events(
    name: Annotated[str | None, typer.Argument(help="Only of this app.", show_default=False)] = None,
    lines: Annotated[int, typer.Option("-n", help="How many from the end.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="Decisions to change nothing too.")] = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Show what was decided, why, what was predicted and what came of it.

    \b
    Examples:
      fogctl agent events taxi
      fogctl agent events taxi --all -n 5 -o json
    """
    from fogctl.cli import agent_view
    from fogctl.runtime import events

    found = [
        event
        for event in events.read(which(testbed).folder)
        if (name is None or event.get("app") in (None, name))
        and (everything or event.get("outcome") not in agent_view.QUIET or event.get("guards"))
    ][-lines:]
    if output is Format.json:
        emit(output, found)
        return
    for event in found:
        typer.echo(agent_view.line(event))


@app.command()
def policies(output: OutputOption = Format.table) -> None:
    """List the policies, shipped and installed, with their settings.

    \b
    Example:
      fogctl agent policies
    """
    from fogctl.agent import policy

    found = {name: (policy.summary(name), policy.settings(name)) for name in policy.names()}
    rows = [{"policy": name, "what": what, "settings": given} for name, (what, given) in found.items()]
    cells = [
        (name, what, ", ".join(f"{key}={value}" for key, value in given.items()))
        for name, (what, given) in found.items()
    ]
    emit(output, rows, table(None, ("policy", "what it does", "settings"), cells))


def _settings(config: Path | None, every: str | None) -> AgentSettings:
    from fogctl.agent.settings import AgentSettings, load

    settings = load(config) if config is not None else AgentSettings()
    seconds = _seconds("--every", every)
    return settings if seconds is None else settings.model_copy(update={"every": seconds})


def _options(given: list[str]) -> dict[str, Any]:
    """`key=value` as YAML reads the value."""
    import yaml

    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise FogError(f"{text} is not KEY=VALUE", key="--set", hint="--set scale_out_above=0.8")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            found[key] = value
    return found


def _seconds(option: str, text: str | None) -> float | None:
    from fogctl.config.units import INSTANT

    if text is None:
        return None
    try:
        seconds = INSTANT.parse(text)
    except ValueError as error:
        raise FogError(str(error), key=option) from None
    if seconds <= 0:
        raise FogError("must be longer than 0 s", key=option)
    return seconds


def _ground(testbed: str | None) -> Ground:
    from fogctl.runtime.grounds import ground_of

    ground = ground_of(which(testbed).name)
    ground.attend()
    return ground


def _start(
    ground: Ground,
    name: str,
    policy: str,
    config: Path | None,
    options: list[str],
    every: str | None,
    lasting: str | None,
    more: list[str],
    output: Format,
) -> None:
    """The same command as a service, in the foreground there."""
    from fogctl.agent import service
    from fogctl.runtime.operate import Apps
    from fogctl.testbed import lock

    Apps(ground).get(name)
    services = service.services_of(ground)
    holder = lock.holder(service.lock_folder(ground.folder, name))
    if holder is not None and not services.wanted(name):
        raise FogError(f"app {name} has an agent: {holder}", hint="end it first", exit_code=FAILED)
    arguments = ["agent", "run", "--app", name, "--policy", policy, "--testbed", ground.testbed.name]
    arguments += ["--config", str(config.absolute())] if config is not None else []
    arguments += [part for option in options for part in ("--set", option)]
    arguments += ["--every", every] if every else []
    arguments += ["--for", lasting] if lasting else []
    arguments += more
    pid = services.start(name, arguments)
    said = f"the agent of {name} runs in the background; fogctl agent events {name} shows what it does"
    emit(
        output,
        {"app": name, "policy": policy, "pid": pid, "log": str(services.log(name))},
        said,
    )


def _say(line: str) -> None:
    stderr().print(line, markup=False, highlight=False)
