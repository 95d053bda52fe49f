"""`fogctl mqtt`: devices that speak MQTT; Mosquitto and the bridge to Kafka started, watched, stopped."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed import DryRunOption, WhichOption, which
from fogctl.errors import FAILED, FogError

if TYPE_CHECKING:
    from fogctl.mqtt.device import Published
    from fogctl.mqtt.operate import Mqtt

app = typer.Typer(help="Devices that speak MQTT, and the bridge that carries every reading to Kafka.")


@app.command()
def up(
    dry_run: DryRunOption = False, testbed: WhichOption = None, output: OutputOption = Format.table
) -> None:
    """Start Mosquitto and the bridge on the broker node, and Kafka if it does not run.

    \b
    Example:
      sudo fogctl mqtt up
    """
    mqtt = _mqtt(testbed)
    steps = mqtt.plan()
    if dry_run:
        emit(output, steps, *(steps or ["both run already: nothing to change"]))
        return
    began = time.monotonic()
    mqtt.up(_say)
    took = time.monotonic() - began
    emit(
        output,
        {"changes": steps, "seconds": round(took, 3), **_where(mqtt)},
        f"devices connect to {mqtt.address}:1883 and publish to fog/APP/STREAM/DEVICE; {took:.1f} s",
    )


@app.command()
def down(
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Also remove passwords and messages that Kafka does not have yet."),
    ] = False,
    testbed: WhichOption = None,
) -> None:
    """Stop the bridge and Mosquitto; messages that wait are kept for the next start.

    \b
    Examples:
      sudo fogctl mqtt down
      sudo fogctl mqtt down --forget
    """
    _mqtt(testbed).down(forget=forget)
    typer.echo("MQTT is down" + ("" if forget else "; passwords and waiting messages are kept"))


@app.command()
def status(testbed: WhichOption = None, output: OutputOption = Format.table) -> None:
    """Show what runs and what the bridge has carried. Exit 1 if one of the two does not run.

    \b
    Example:
      sudo fogctl mqtt status
    """
    data = _mqtt(testbed).status()
    bridge, counts = data["bridge"], data["bridge"].get("counts", {})
    rows = [
        ("Mosquitto", _runs(data["mosquitto"]["pid"], f"{data['address']} on {data['node']}")),
        ("bridge", _runs(bridge["pid"], data["node"])),
        ("bridge to Mosquitto", bridge.get("mosquitto")),
        ("bridge to Kafka", bridge.get("kafka")),
        ("in the bridge's hand", bridge.get("in_hand")),
        *((name, number) for name, number in counts.items()),
        ("in Mosquitto's store", f"{data['stored_bytes']:,} bytes"),
        ("devices known", len(data["devices"])),
    ]
    emit(output, data, table("mqtt", ("what", "value"), rows))
    if data["mosquitto"]["pid"] is None or bridge["pid"] is None:
        raise typer.Exit(FAILED)


@app.command()
def credentials(
    device: Annotated[str, typer.Argument(help="A device's name; it gets a password if it has none.")],
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Give a device of your own what it needs to connect: address, user, where its password is.

    \b
    Example:
      sudo fogctl mqtt credentials roof-1
    """
    mqtt = _mqtt(testbed)
    mqtt.add_devices([device])
    data = {
        "address": f"{mqtt.address}:1883",
        "user": device,
        "password_file": str(mqtt.credentials.file),
        "topics": f"fog/APP/STREAM/{device}",
    }
    emit(
        output,
        data,
        f"{device} connects to {data['address']} and publishes to {data['topics']}; its password is in "
        f"{data['password_file']}",
    )


@app.command()
def publish(
    app: Annotated[str, typer.Option(help="The deployed app to send to.")],
    stream: Annotated[str | None, typer.Option(help="Its input stream, if it has several.")] = None,
    devices: Annotated[int, typer.Option(help="How many devices: device-1, device-2, …", min=1)] = 5,
    rate: Annotated[str, typer.Option(help="Records a second of all together: 20/s; or max.")] = "20/s",
    count: Annotated[int, typer.Option(help="How many records in all.", min=1)] = 1000,
    node: Annotated[
        str | None, typer.Option("--from", help="The node they are on.  [default: first edge]")
    ] = None,
    values: Annotated[
        Path | None, typer.Option(help="A file with a record a line, instead of made readings.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write each record that is delivered to this file, as JSON lines.")
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(
            help="Keep each record until the bridge confirms that Kafka has it, not only Mosquitto."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="The same seed makes the same values.")] = 1,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Have devices on a node publish numbered readings at QoS 1 and see each through. Exit 1 if one is not.

    \b
    Examples:
      sudo fogctl mqtt publish --app sensors --devices 5 --rate 20/s --count 1000 --from pi1
      sudo fogctl mqtt publish --app sensors --rate max --count 20000 --no-confirm
    """
    from fogctl.mqtt.credentials import device_names
    from fogctl.mqtt.device import Job
    from fogctl.runtime import app as apps
    from fogctl.runtime.deployment import edge_nodes
    from fogctl.runtime.operate import Apps

    mqtt = _mqtt(testbed)
    deployed = Apps.on(mqtt.running)
    loaded = apps.load(deployed.get(app).app_file)
    chosen = _stream(loaded.sources, stream)
    where = mqtt.running.node(node or edge_nodes(mqtt.running.testbed)[0]).name
    if values is not None and not (values.is_file() and values.stat().st_size):
        raise FogError("is no file with records", file=values)
    journal = deployed.sent_numbers(app)
    per_s = _rate(rate)
    mqtt.require_up()
    first = journal.reserve(count)
    journal.taken(first, first + count)
    job = Job(
        address=mqtt.address,
        credentials=str(mqtt.credentials.file),
        app=loaded.name,
        stream=chosen,
        devices=tuple(device_names(devices)),
        count=count,
        rate_per_s=per_s,
        first_number=first,
        confirm=confirm,
        seed=seed,
        values=str(values.absolute()) if values else None,
        record=str(record.absolute()) if record else None,
    )
    columns = (TextColumn("publishing"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task("", total=count)
        done = mqtt.publish(where, job, lambda _, finished: bar.update(task, completed=finished))
    journal.returned(first + done.sent, first + count)
    if done.done == done.sent:
        journal.acknowledged(first, first + done.sent)
    _tell(output, done, chosen, loaded.name, first)


def _tell(output: Format, done: Published, stream: str, app_name: str, first: int) -> None:
    emit(
        output,
        {**dataclasses.asdict(done), "first_number": first, "topic": f"{app_name}.{stream}"},
        f"{done.done:,} of {done.sent:,} records delivered to {app_name}.{stream} in "
        f"{done.duration_s:.1f} s; {done.connections} connections, {done.resent} sent again",
    )
    if done.refused:
        raise FogError(f"Mosquitto refused {done.refused}", exit_code=FAILED)
    if done.done < done.sent:
        raise FogError(
            f"{done.sent - done.done} of {done.sent} records were not confirmed",
            hint="fogctl mqtt status shows which side is away",
            exit_code=FAILED,
        )


def _mqtt(testbed: str | None) -> Mqtt:
    from fogctl.mqtt.operate import Mqtt
    from fogctl.testbed.running import Running
    from fogctl.testbed.virtual import require_root

    running = Running.load(which(testbed).name)
    require_root()
    return Mqtt.on(running)


def _where(mqtt: Mqtt) -> dict[str, Any]:
    return {"node": mqtt.node, "address": f"{mqtt.address}:1883"}


def _runs(pid: int | None, where: str) -> str:
    return f"process {pid}, {where}" if pid is not None else "does not run"


def _rate(text: str) -> float:
    """Records a second: `20/s`, `20` or `max`."""
    if text == "max":
        return math.inf
    try:
        rate = float(text.removesuffix("/s"))
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise FogError(
            f'"{text}" is no rate', key="--rate", hint="records a second, for example 20/s; or max"
        )
    return rate


def _stream(known: tuple[str, ...], asked: str | None) -> str:
    if asked is None and len(known) == 1:
        return known[0]
    if asked in known:
        return str(asked)
    raise FogError(
        f"the app has no input stream {asked}" if asked else "the app has several input streams",
        key="--stream",
        hint=f"one of: {', '.join(known)}",
    )


def _say(line: str) -> None:
    stderr().print(line, markup=False, highlight=False)
