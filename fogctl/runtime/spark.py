"""How Spark is started and tuned on weak, far-apart nodes: commands and settings, as values. Pure."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.runtime import class_archive, executor_start

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_FIRST_PORT = 7100
_LAG_OF_WEB_PORT = 1000
_LAG_OF_DRIVER_PORT = 400
_LAG_OF_CONTROL_PORT = 1400

# Small, quick-starting JVMs; the second compiler costs a Pi more than it earns in short tasks.
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:+ExitOnOutOfMemoryError"
MASTER_HEAP_MB = 96
CHECKPOINTS_BY_RENAME = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Commits a batch by a rename; the default forks a shell for each."""

# What Spark's own launcher adds (org.apache.spark.launcher.JavaModuleOptions).
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True)
class Pool:
    """The Spark cluster of one stage: Master and driver on the control node, one executor a replica.

    Executors are started on their nodes by us and register with the driver themselves. Spark's own way, a
    Worker on each node that starts them, needs a second JVM there: 190 MB and a third of the CPU of a start.
    """

    app: str
    stage: str
    control: str
    """The node of the Master and the driver."""
    number: int
    """Place of the stage among all that run on the testbed; gives it ports of its own."""

    @property
    def port(self) -> int:
        """Where the driver finds the Master."""
        return _FIRST_PORT + self.number

    @property
    def driver_port(self) -> int:
        """Where executors find the driver."""
        return self.port + _LAG_OF_DRIVER_PORT

    @property
    def control_port(self) -> int:
        """Where the stage runner answers, if not on a socket file."""
        return self.port + _LAG_OF_CONTROL_PORT

    @property
    def web_port(self) -> int:
        """Where the Master says what it has, as JSON."""
        return self.port + _LAG_OF_WEB_PORT

    @property
    def url(self) -> str:
        """The Master's address."""
        return f"spark://{self.control}:{self.port}"

    def service(self, part: str) -> str:
        """The name of one of the pool's services: `master`, `driver`, `executor.NODE`."""
        return f"{self.app}.{self.stage}.{part}"


def home() -> Path:
    """Where Spark is: inside the pyspark package."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FogError("pyspark is not installed", hint="pip install pyspark", exit_code=FAILED)
    return Path(spec.origin).parent


@dataclass(frozen=True, slots=True)
class Runtime:
    """What every JVM of a pool is started with."""

    java: Path
    connector: tuple[Path, ...]
    """Jars of the Kafka connector. On the class path, so that no executor fetches them from the driver."""
    archive: Path | None = None
    """A class-data archive that they share; None: each loads its classes by itself."""

    @property
    def class_path(self) -> str:
        """As Spark's own launcher writes it: a class-data archive serves one class path only."""
        jars = home() / "jars"
        logging = sorted(jars.glob("slf4j-api-*.jar"))[:1]
        return ":".join(map(str, (*self.connector, home() / "conf", *logging, jars / "*")))

    @property
    def extra_class_path(self) -> str:
        """What comes before Spark's own jars."""
        return ":".join(map(str, self.connector))

    @property
    def options(self) -> str:
        """Options of every JVM."""
        return SMALL_JVM if self.archive is None else f"{SMALL_JVM} {class_archive.options(self.archive)}"


def master_argv(pool: Pool, runtime: Runtime, memory: Path) -> tuple[str, ...]:
    """The Master's command. One that is started again finds its driver in its memory folder.

    Spark's own script would start another JVM to find it out.
    """
    return (
        *(str(runtime.java), "-cp", runtime.class_path, f"-Xmx{MASTER_HEAP_MB}m", *MODULE_OPTIONS),
        *runtime.options.split(),
        *("-Dspark.deploy.recoveryMode=FILESYSTEM", f"-Dspark.deploy.recoveryDirectory={memory}"),
        # By default an app whose executors died ten times is given up for good.
        "-Dspark.deploy.maxExecutorRetries=-1",
        # Nobody submits apps to it, and its port would be the same for every pool.
        *("-Dspark.master.rest.enabled=false", MASTER_CLASS),
        *("--host", pool.control, "--port", str(pool.port), "--webui-port", str(pool.web_port)),
    )


def executor_argv(
    pool: Pool, runtime: Runtime, node: str, *, place: int, cores: int, memory_mb: int, counter: Path
) -> tuple[str, ...]:
    """An executor's command: it waits for its driver, and has another number at each start."""
    return (
        *(sys.executable, "-I", "-S", executor_start.__file__),
        *(pool.control, str(pool.driver_port), str(counter), str(place)),
        *(str(runtime.java), "-cp", runtime.class_path, f"-Xmx{memory_mb}m", *MODULE_OPTIONS),
        *(*runtime.options.split(), f"-Dspark.driver.port={pool.driver_port}", EXECUTOR_CLASS),
        *("--driver-url", f"spark://CoarseGrainedScheduler@{pool.control}:{pool.driver_port}"),
        *("--hostname", node, "--bind-address", node, "--cores", str(cores)),
        *("--app-id", f"{pool.app}.{pool.stage}", "--resourceProfileId", "0"),
    )


def executor_environment(node: str, java_home: Path, folder: Path) -> tuple[tuple[str, str], ...]:
    """Environment of an executor, which keeps its blocks in that folder."""
    return (*daemon_environment(node, java_home), ("SPARK_EXECUTOR_DIRS", str(folder)))


def daemon_environment(node: str, java_home: Path) -> tuple[tuple[str, str], ...]:
    """Environment of a pool's processes on a node."""
    return (
        ("JAVA_HOME", str(java_home)),
        ("SPARK_HOME", str(home())),
        ("SPARK_LOCAL_IP", node),
        ("SPARK_LOCAL_HOSTNAME", node),
        ("SPARK_SCALA_VERSION", "2.13"),
    )


def settings(pool: Pool, *, executor_memory_mb: int, executor_cores: int, runtime: Runtime) -> dict[str, str]:
    """Settings of a stage's driver and executors."""
    return {
        **tuning(pool, executor_memory_mb=executor_memory_mb, executor_cores=executor_cores),
        "spark.master": pool.url,
        "spark.driver.extraClassPath": runtime.extra_class_path,
        "spark.executor.extraClassPath": runtime.extra_class_path,
        "spark.driver.host": pool.control,
        "spark.driver.bindAddress": pool.control,
        "spark.driver.extraJavaOptions": runtime.options,
        "spark.executor.extraJavaOptions": runtime.options,
    }


def tuning(pool: Pool, *, executor_memory_mb: int, executor_cores: int) -> dict[str, str]:
    """What a stage's driver and executors have in common, however they are started."""
    return {
        "spark.app.name": f"{pool.app}.{pool.stage}",
        "spark.driver.port": str(pool.driver_port),
        # Executors look for the driver at that port and no other.
        "spark.port.maxRetries": "0",
        "spark.driver.memory": "512m",
        "spark.executor.memory": f"{executor_memory_mb}m",
        "spark.executor.cores": str(executor_cores),
        # Spark sets 300 MB of every heap aside and refuses heaps below 450 MB; a Pi cannot afford that.
        "spark.testing.reservedMemory": str(32 << 20),
        "spark.memory.fraction": "0.4",
        # An executor does not start unless so much fits into its direct memory, as large as its heap.
        "spark.network.maxRemoteBlockSizeFetchToMem": "16m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "false",
        # A link that is cut is noticed within ten seconds (the default takes 83).
        "spark.network.timeout": "8s",
        "spark.network.timeoutInterval": "2s",
        "spark.executor.heartbeatInterval": "2s",
        # An executor that was cut off ends then and is started anew; by default it lingers for two minutes.
        "spark.executor.heartbeat.maxFailures": "5",
        "spark.rpc.askTimeout": "8s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": "8000",
        "spark.task.maxFailures": "8",
        "spark.excludeOnFailure.enabled": "false",
        # With one far replica, waiting for a local slot costs more than it saves.
        "spark.locality.wait": "0",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # How often an idle query asks the broker for news; every 10 ms, the default, cost a quarter core.
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS_BY_RENAME,
        "spark.log.level": "WARN",
        "spark.executor.syncLogLevel.enabled": "true",
    }
