"""The objects of a stage on a cluster, as values: where executors may run, what drivers are made from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.errors import FogError
from fogctl.kube import names
from fogctl.kube.app_objects import DRIVER_ROLE, EXECUTOR_ROLE, StageRef
from fogctl.kube.driver import MOST_BYTES, DriverPlan, config_map, forget_job, stateful_set
from fogctl.kube.driver_main import completed
from fogctl.kube.executor_main import argv
from fogctl.kube.executors import settings, template
from fogctl.runtime.app_file import NAME_PATTERN
from fogctl.runtime.spark import Pool

REF = StageRef("lab", "taxi", "nearest")
POOL = Pool("taxi", "nearest", "cloud", 3)
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
LABEL_NAME = LABEL_VALUE
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def plan(**changed: Any) -> DriverPlan:
    made: dict[str, Any] = {
        "ref": REF,
        "image": "localhost/fogctl-stage:1",
        "control": "cloud",
        "control_port": POOL.control_port,
        "metrics_port": 9303,
        "state": "taxi-1a2b/nearest",
        "shared": False,
        "spec": {"app": "taxi", "settings": {}},
        "code_name": "app.py",
        "code": "def nearest(rides, options):\n    return rides\n",
    }
    return DriverPlan(**{**made, **changed})


@given(st.from_regex(NAME_PATTERN, fullmatch=True), st.from_regex(NAME_PATTERN, fullmatch=True))
def test_whatever_an_app_is_called_its_objects_have_valid_names(app: str, stage: str) -> None:
    app, stage = app.rstrip("\n"), stage.rstrip("\n")
    ref = StageRef("lab", app, stage)
    assert DNS_LABEL.fullmatch(f"{ref.name}-0-0123456789")  # what a StatefulSet's revision is called
    assert LABEL_NAME.fullmatch(ref.run_label.removeprefix(f"{names.DOMAIN}/"))
    assert all(LABEL_VALUE.fullmatch(value) for value in ref.role_labels(EXECUTOR_ROLE).values())


def test_stages_whose_names_run_together_are_told_apart() -> None:
    first, second = StageRef("lab", "a-b", "c"), StageRef("lab", "a", "b-c")
    assert first.name != second.name
    assert first.run_label != second.run_label


def test_executors_run_only_on_labelled_nodes_and_never_two_of_a_stage_on_one() -> None:
    affinity = template(REF)["spec"]["affinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = affinity["nodeAffinity"][required]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": REF.run_label, "operator": "Exists"}]
    (apart,) = affinity["podAntiAffinity"][required]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    own = template(REF)["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= own.items()


@pytest.mark.parametrize(
    "pod",
    [template(REF)["spec"], stateful_set(plan())["spec"]["template"]["spec"]],
    ids=["executor", "driver"],
)
def test_pods_have_nobodys_rights_and_write_to_volumes_only(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert pod["hostNetwork"] is True


def test_executors_have_the_stages_folder_only_where_storage_is_shared() -> None:
    def mounts(shared: bool) -> dict[str, Any]:
        pod = json.loads(config_map(plan(shared=shared))["data"]["executor.json"])["spec"]
        return {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}

    assert mounts(shared=True)["/fog/state"]["subPath"] == "taxi-1a2b/nearest"
    assert "/fog/state" not in mounts(shared=False)


def test_executors_get_no_token_of_the_cluster() -> None:
    assert template(REF)["spec"]["automountServiceAccountToken"] is False


def test_a_new_executor_has_no_cpu_limit_and_hardly_asks_for_any() -> None:
    made = settings(POOL, REF, "image", memory_bytes=256 << 20, slots=2)
    assert "spark.kubernetes.executor.limit.cores" not in made
    assert made["spark.kubernetes.executor.request.cores"] == "10m"
    assert made["spark.blockManager.port"] == "0"
    assert made["spark.executor.memory"] == "256m"


def test_the_driver_runs_on_the_control_node_with_its_own_part_of_the_volume() -> None:
    made = stateful_set(plan())
    pod = made["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["cloud"]}]
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["/fog/state"]["subPath"] == "taxi-1a2b/nearest"
    assert pod["containers"][0]["ports"][0] == {"name": "control", "containerPort": POOL.control_port}
    assert made["spec"]["selector"]["matchLabels"] == REF.role_labels(DRIVER_ROLE)


def test_another_code_or_setting_makes_another_driver_and_nothing_else_does() -> None:
    def digest(**changed: Any) -> str:
        return str(stateful_set(plan(**changed))["metadata"]["annotations"][names.DIGEST])

    assert digest() == digest()
    assert len({digest(), digest(code="x = 1\n"), digest(spec={"app": "taxi"}), digest(image="b:2")}) == 4


def test_a_configuration_that_no_cluster_takes_is_refused_with_its_size() -> None:
    with pytest.raises(FogError, match=r"nearest of taxi would need \d+ KiB of configuration") as refused:
        config_map(plan(code="#" * (MOST_BYTES + 1)))
    assert "app.py" in str(refused.value)


def test_the_config_map_holds_what_driver_and_executors_read() -> None:
    data = config_map(plan())["data"]
    assert json.loads(data["executor.json"]) == template(REF)
    assert data["app.py"].startswith("def nearest")
    assert "PWR" in data["decommission.sh"]


def test_forgetting_removes_one_apps_folder_only() -> None:
    job = forget_job("lab", "image", "cloud", "taxi", "taxi-1a2b3c4d")
    assert job["metadata"]["name"] == "fog-forget-1a2b3c4d"
    (command,) = [each["command"] for each in job["spec"]["template"]["spec"]["containers"]]
    assert "'/fog/state/taxi-1a2b3c4d'" in command[-1]


def test_a_pod_completes_what_only_it_knows() -> None:
    given_data = {"settings": {"a": "b"}, "watch": {"address": "", "port": 1}}
    made = completed(given_data, "10.77.0.1", "fog-x-0", "https://10.96.0.1:443", "/a.jar:/b.jar")
    assert made["settings"]["spark.master"] == "k8s://https://10.96.0.1:443"
    assert made["settings"]["spark.driver.host"] == "10.77.0.1"
    assert made["settings"]["spark.executor.extraClassPath"] == "/a.jar:/b.jar"
    assert made["settings"]["a"] == "b"
    assert made["watch"] == {"address": "10.77.0.1", "port": 1}


def test_an_executors_command_comes_from_what_spark_tells() -> None:
    told = {
        "JAVA_HOME": "/java",
        "SPARK_HOME": "/spark",
        "SPARK_CLASSPATH": "/jars/a.jar",
        "SPARK_JAVA_OPT_10": "-Dlast",
        "SPARK_JAVA_OPT_2": "-Dfirst",
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.77.0.1:7503",
        "SPARK_EXECUTOR_ID": "4",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_APPLICATION_ID": "spark-x",
        "SPARK_EXECUTOR_POD_IP": "10.77.0.3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "taxi-nearest-exec-4",
    }
    made = argv(told)
    assert made[:4] == ["/java/bin/java", "-Dfirst", "-Dlast", "-Xmx256m"]
    assert made[made.index("-cp") + 1] == "/jars/a.jar:/spark/conf:/spark/jars/*"
    assert made[made.index("--hostname") + 1] == "10.77.0.3"


def test_code_that_runs_in_pods_imports_nothing_of_the_api_client() -> None:
    """The image has no `kubernetes` package, and a start on a board has no time for it."""
    folder = Path(names.__file__).parent
    for module in ("driver_main", "executor_main", "allocation", "in_cluster", "app_objects", "limit_patch"):
        text = (folder / f"{module}.py").read_text()
        imported = set(re.findall(r"^(?:from|import) (\S+)", text, re.MULTILINE))
        assert not imported & {"kubernetes", "fogctl.kube.access", "fogctl.kube.objects"}, module
