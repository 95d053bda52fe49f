"""Becomes a stage's executor inside its pod: what Spark tells by environment variables as a JVM's command.

Nothing of fogctl or of any package is imported: on a weak node every module costs.
"""

import os
import re
import sys
from collections.abc import Mapping

CLASS = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def argv(environment: Mapping[str, str]) -> list[str]:
    """The executor's command."""
    numbered = [
        (int(found[1]), value) for key, value in environment.items() if (found := _OPTION.fullmatch(key))
    ]
    home = environment["SPARK_HOME"]
    classes = [environment.get("SPARK_CLASSPATH", ""), f"{home}/conf", f"{home}/jars/*"]
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *(value for _, value in sorted(numbered)),
        f"-Xmx{environment['SPARK_EXECUTOR_MEMORY']}",
        *("-cp", ":".join(part for part in classes if part)),
        CLASS,
        *("--driver-url", environment["SPARK_DRIVER_URL"]),
        *("--executor-id", environment["SPARK_EXECUTOR_ID"]),
        *("--cores", environment["SPARK_EXECUTOR_CORES"]),
        *("--app-id", environment["SPARK_APPLICATION_ID"]),
        *("--hostname", environment["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", environment["SPARK_RESOURCE_PROFILE_ID"]),
        *("--podName", environment["SPARK_EXECUTOR_POD_NAME"]),
    ]


def main() -> None:
    """Become the JVM: it gets the signals that decommission it."""
    os.environ["SPARK_LOCAL_IP"] = os.environ["SPARK_EXECUTOR_POD_IP"]
    try:
        command = argv(os.environ)
    except KeyError as lacking:
        sys.exit(f"not started by Spark: {lacking.args[0]} is not set")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
