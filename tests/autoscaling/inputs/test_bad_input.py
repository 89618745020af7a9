"""Whatever is wrong with the input is said in one line that names file, object, field and what is allowed."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.inputs import InputError, load_cluster

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""


def pod(spec: str = "containers: [{name: main}]", name: str = "web") -> str:
    return f"{NODE}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def container(text: str) -> str:
    return pod(f"containers: [{{name: main, {text}}}]")


def deployment(spec: str, labels: str = "app: web", pod_spec: str = "containers: [{name: main}]") -> str:
    selector = "selector: {matchLabels: {app: web}}"
    template = f"template: {{metadata: {{labels: {{{labels}}}}}, spec: {{{pod_spec}}}}}"
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}"
    return f"{NODE}---\n{head}\nspec: {{{spec}{selector}, {template}}}\n"


def error_of(path: Path | str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_cluster([str(path)], **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


YAML_CASES = {
    "malformed quantity": (
        container('resources: {requests: {cpu: "4x"}}'),
        (
            'in.yaml: document 2: Pod default/web: spec.containers[0].resources.requests.cpu: "4x": '
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ),
    ),
    "malformed quantity of an extended resource": (
        container('resources: {limits: {nvidia.com/gpu: "one"}}'),
        'spec.containers[0].resources.limits[nvidia.com/gpu]: "one": quantities must match',
    ),
    "negative quantity": (
        container('resources: {requests: {memory: "-1Gi"}}'),
        'spec.containers[0].resources.requests.memory: "-1Gi": must be greater than or equal to 0',
    ),
    "quantity that is a boolean": (
        container("resources: {requests: {cpu: yes}}"),
        "requests.cpu: must be a quantity such as 500m, 2 or 4Gi, got true",
    ),
    "not a number": (container("resources: {requests: {cpu: .nan}}"), "requests.cpu: nan: quantities must match"),
    "quantity of a node": (
        NODE.replace("8Gi", "8GiB"),
        'in.yaml: document 1: Node n1: status.allocatable.memory: "8GiB": ',
    ),
    "request above the limit": (
        container('resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}'),
        'requests.cpu: "2": must be less than or equal to the limit "1"',
    ),
    "duplicate node": (
        f"{NODE}---{NODE}",
        "in.yaml: document 2: Node n1: metadata.name: occurs twice, first in in.yaml: document 1: names must be unique",
    ),
    "duplicate pod": (
        pod() + "---" + pod().partition("---")[2],
        "document 3: Pod default/web: metadata.name: occurs twice",
    ),
    "two different services of one name": (
        NODE
        + "".join(
            f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{selector: {{a: {x}}}}}\n" for x in "uv"
        ),
        "document 3: Service default/s: metadata.name: occurs twice",
    ),
    "pod without containers": (
        pod("restartPolicy: Never"),
        "Pod default/web: spec.containers: must have at least one container",
    ),
    "containers that are null": (pod("containers: null"), "spec.containers: must have at least one container"),
    "container that is null": (pod("containers: [null]"), "spec.containers[0]: must be a mapping, got null"),
    "template without containers": (
        deployment("", pod_spec="restartPolicy: Always"),
        "Deployment default/web: spec.template.spec.containers: must have at least one container",
    ),
    "no name": (NODE.replace("name: n1", ""), "document 1: Node (no name): metadata.name: must be set"),
    "no kind": (NODE + "---\nreplicas: 3\n", "in.yaml: document 2: object (no name): kind: must be set"),
    "kind that is a number": (NODE + "---\nkind: 3\n", "document 2: kind: must be a string, got 3: quote it"),
    "wrong type": (
        deployment("replicas: three, "),
        'Deployment default/web: spec.replicas: must be an integer, got "three"',
    ),
    "a list where a mapping belongs": (
        pod("containers: [{name: main, resources: []}]"),
        "spec.containers[0].resources: must be a mapping, got a list",
    ),
    "expression without operator": (
        pod(
            "containers: [{name: main}], topologySpreadConstraints: "
            "[{maxSkew: 1, topologyKey: z, labelSelector: {matchExpressions: [{key: a}]}}]"
        ),
        "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: must be set",
    ),
    "label that YAML reads as a boolean": (
        NODE.replace("{name: n1}", "{name: n1, labels: {spot: yes}}"),
        (
            "Node n1: metadata.labels.spot: must be a string, got true "
            "(YAML reads y, n, yes, no, on and off as true or false: quote it)"
        ),
    ),
    "label that is a number": (
        NODE.replace("{name: n1}", "{name: n1, labels: {a.io/rack: 7}}"),
        "metadata.labels[a.io/rack]: must be a string, got 7: quote it",
    ),
    "label value with a space": (
        NODE.replace("{name: n1}", '{name: n1, labels: {a: "b c"}}'),
        'metadata.labels.a: "b c": a valid label must be',
    ),
    "key that YAML reads as a boolean": (
        NODE.replace("{name: n1}", "{name: n1, labels: {on: a}}"),
        "the key on must be a string, YAML reads true: quote it",
    ),
    "duplicate key": (
        NODE + "---\nkind: Pod\nmetadata: {name: a}\nkind: Node\n",
        'in.yaml: not valid (line 9, column 1): the key "kind" occurs twice',
    ),
    "syntax": (NODE + "---\nkind: Pod\n  metadata: 3\n", "in.yaml: not valid YAML (line 8, column 11): mapping values"),
    "tab": ("kind:\n\tPod\n", "not valid YAML (line 2, column 1): "),
    "control character": ("kind: \x07Pod\n", "in.yaml: not valid YAML: "),
    "text": ("hello\n", 'in.yaml: document 1: must be a Kubernetes object, got "hello"'),
    "program in a tag": (
        "!!python/object/apply:os.system [ls]\n",
        "the tag tag:yaml.org,2002:python/object/apply:os.system",
    ),
    "cyclic anchor": (
        NODE + "---\nkind: Pod\nmetadata: &m\n  labels: *m\n",
        "the alias *m contains itself: cyclic anchors",
    ),
    "alias without anchor": ("kind: *k\n", "the alias *k has no anchor"),
    "nested too deeply": (
        "[" * 200 + "]" * 200,
        "(line 1, column 101): nested too deeply: at most 100 levels are allowed",
    ),
    "nesting that libyaml refuses": ("[" * 100_000, "in.yaml: not valid"),
    "unknown effect of a taint": (
        NODE + "spec: {taints: [{key: a, effect: NoScheduling}]}\n",
        'spec.taints[0].effect: "NoScheduling": must be one of NoSchedule, PreferNoSchedule, NoExecute',
    ),
    "unknown operator": (
        pod("containers: [{name: main}], tolerations: [{key: a, operator: Is}]"),
        'spec.tolerations[0].operator: "Is": must be one of Equal, Exists',
    ),
    "skew of zero": (
        pod(
            "containers: [{name: main}], "
            "topologySpreadConstraints: [{topologyKey: z, whenUnsatisfiable: DoNotSchedule}]"
        ),
        "spec.topologySpreadConstraints[0].maxSkew: 0: must be greater than zero",
    ),
    "weight out of range": (
        pod(
            "containers: [{name: main}], affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
            "[{weight: 101, podAffinityTerm: {topologyKey: z}}]}}"
        ),
        "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 101: must be in the range 1-100",
    ),
    "node selector that does not parse": (
        pod(
            "containers: [{name: main}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Like, values: [b]}]}]}}}"
        ),
        'spec.affinity.nodeAffinity: nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Like"',
    ),
    "unknown priority class": (
        pod("containers: [{name: main}], priorityClassName: urgent"),
        (
            'Pod default/web: spec.priorityClassName: "urgent": no such PriorityClass; '
            "the input has system-cluster-critical, system-node-critical"
        ),
    ),
    "unknown priority class of a template": (
        deployment("", pod_spec="containers: [{name: main}], priorityClassName: urgent"),
        'Deployment default/web: spec.template.spec.priorityClassName: "urgent": no such PriorityClass',
    ),
    "priority that contradicts": (
        pod("containers: [{name: main}], priority: 5"),
        "spec.priority: the integer value of priority (5) must not be provided",
    ),
    "negative replicas": (deployment("replicas: -1, "), "spec.replicas: -1: must be between 0 and 2,000,000"),
    "a billion replicas": (deployment("replicas: 1000000000, "), "spec.replicas: 1000000000: must be between 0 and"),
    "replicas beyond 64 bits": (deployment(f"replicas: {'9' * 5000}, "), "spec.replicas: must be an integer, got "),
    "selector that does not select": (
        deployment("", labels="app: other"),
        "Deployment default/web: spec.template.metadata.labels: must match spec.selector",
    ),
    "priority beyond 32 bits": (
        NODE + "---\nkind: PriorityClass\nmetadata: {name: a}\nvalue: 3000000000\n",
        "PriorityClass a: value: 3000000000: must fit into 32 bits",
    ),
    "image size beyond 64 bits": (
        NODE.replace("{allocatable", f"{{images: [{{sizeBytes: {2**63}}}], allocatable"),
        f"status.images[0].sizeBytes: {2**63}: must fit into 64 bits",
    ),
    "no nodes": (pod().partition("---")[2], "in.yaml: no nodes: the input must have at least one Node"),
    "empty file": ("", "in.yaml: no nodes"),
    "comments only": ("# nothing\n---\n# here\n", "in.yaml: no nodes"),
    "node without allocatable": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n",
        "Node n1: status.allocatable: must be set (status.capacity is used where it is absent)",
    ),
    "items that are no list": ("kind: List\nitems: {a: b}\n", "items: must be a list"),
    "name with line breaks": (
        NODE + '---\nkind: Pod\nmetadata: {name: "a\\nb"}\n',
        "Pod default/a\\nb: spec.containers",
    ),
}


@pytest.mark.parametrize(("text", "expected"), YAML_CASES.values(), ids=YAML_CASES)
def test_a_mistake_in_yaml_is_named_in_one_line(text: str, expected: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A reader must be able to go to the place without searching; a traceback would not say where."""
    monkeypatch.chdir(tmp_path)
    Path("in.yaml").write_text(text, encoding="utf-8")
    assert expected in error_of("in.yaml")


BINARY_CASES = {
    "binary": ("in.yaml", b"\x7fELF\x02\x01\x01\0\0\0", "in.yaml: is a binary file"),
    "latin-1": ("in.yaml", b"kind: Pod\nmetadata: {name: caf\xe9}\n", "in.yaml: not UTF-8 text (byte 0xe9 in line 2)"),
    "utf-16": ("in.yaml", "kind: Pod\n".encode("utf-16"), "in.yaml: is a binary file"),
    "corrupt gzip": (
        "in.json.gz",
        gzip.compress(b'{"kind": "List"}')[:-9] + b"123456789",
        "in.json.gz: is not valid gzip",
    ),
    "cut gzip": ("in.json.gz", gzip.compress(os.urandom(9999))[:500], "in.json.gz: is not valid gzip"),
    "syntax of JSON": ("in.json", b'{"kind": "List",\n "items": [}', "in.json: not valid JSON (line 2, column 12): "),
    "cut JSON": ("in.json", b'{"kind": "List", "items": [{"kind": "Pod"', "in.json: not valid JSON: "),
    "JSON not in UTF-8": (
        "in.json",
        b'{"kind": "Pod",\n"metadata": {"name": "\xe9"}}',
        "not UTF-8 text (byte 0xe9 in line 2)",
    ),
    "JSON nested too deeply": ("in.json", b"[" * 100_000, "in.json: "),
    "JSON object nested too deeply": (
        "in.json",
        b'{"kind":"Pod","spec":' + b'{"a":' * 9999,
        "in.json: nested too deeply",
    ),
    "a number as JSON array": ("in.json", b"[3]", "in.json: item 1: must be a mapping, got 3"),
    "an item of a dump": (
        "in.json",
        b'{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": "no"}}]}',
        'in.json: item 1: Node n: spec.unschedulable: must be true or false, got "no"',
    ),
}


@pytest.mark.parametrize(("name", "data", "expected"), BINARY_CASES.values(), ids=BINARY_CASES)
def test_a_file_that_cannot_be_read_is_named(
    name: str, data: bytes, expected: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """The same for files that are no text, or cut off."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data)
    assert expected in error_of(name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The commonest mistake of all."""
    assert error_of(tmp_path / "absent.yaml").endswith("absent.yaml: no such file or folder")


def test_a_name_with_a_nul_is_a_missing_file() -> None:
    """Python raises ValueError for it, not OSError."""
    assert "no such file or folder" in error_of("a\0b")


def test_a_folder_without_manifests_is_named(tmp_path: Path) -> None:
    """Hidden files and other suffixes do not count."""
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / ".hidden.yaml").write_text(NODE, encoding="utf-8")
    assert error_of(tmp_path) == f"{tmp_path}: the folder holds no .yaml, .yml, .json file, plain or gzipped"


def test_no_argument_at_all_is_an_error() -> None:
    """An empty list must not read as an empty cluster."""
    with pytest.raises(InputError, match="no input: name a file"):
        load_cluster([])


def test_standard_input_cannot_be_read_twice() -> None:
    """The second time it would be empty."""
    with pytest.raises(InputError, match="only be read once"):
        load_cluster(["-", "-"], stdin=io.BytesIO(NODE.encode()))


def test_an_alias_bomb_is_refused_before_it_explodes(tmp_path: Path) -> None:
    """Nine levels of nine aliases are 9^9 values: no memory holds them once they are decoded one by one."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    path = tmp_path / "bomb.yaml"
    path.write_text("kind: Pod\n" + "\n".join(levels), encoding="utf-8")
    assert "aliases multiply the document: at most 1,000,000 values may come from aliases" in error_of(path)


def test_too_many_documents_are_refused(tmp_path: Path) -> None:
    """A file of separators would otherwise be 12 million documents in 50 MB."""
    path = tmp_path / "many.yaml"
    path.write_text("---\n" * 100_002, encoding="utf-8")
    assert error_of(path).endswith("too many documents: at most 100,000 are allowed")


@pytest.mark.parametrize(("name", "kind"), [("in.yaml", "YAML"), ("in.json", "JSON"), ("in.csv", "CSV")])
def test_a_file_over_the_limit_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    """The limit counts bytes after decompression, and the message names the option that changes it."""
    path = tmp_path / name
    path.write_text(("[" if kind == "JSON" else "a") + " " * 5000, encoding="utf-8")
    expected = f"{path}: is larger than 5 kB, the limit for {kind}; --max-input changes it"
    assert error_of(path, max_input_bytes=5000) == expected


def test_a_gzip_bomb_is_refused_by_its_size_once_unpacked(tmp_path: Path) -> None:
    """20 kB on disk, 20 MB unpacked."""
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 20_000_000))
    assert "is larger than 1 MB" in error_of(path, max_input_bytes=10**6)


def test_the_limit_itself_is_allowed(tmp_path: Path) -> None:
    """A limit of n bytes admits n bytes."""
    path = tmp_path / "in.yaml"
    path.write_text(NODE, encoding="utf-8")
    assert len(load_cluster([str(path)], max_input_bytes=len(NODE)).nodes) == 1


def test_a_duplicate_over_two_files_names_both(tmp_path: Path) -> None:
    """Both places are needed to decide which one to drop."""
    first, second = tmp_path / "a.yaml", tmp_path / "b.json"
    first.write_text(NODE, encoding="utf-8")
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": 1}}}
    second.write_text(json.dumps({"kind": "List", "items": [node]}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_cluster([str(first), str(second)])
    assert str(caught.value).startswith(f"{second}: item 1: Node n1: ")
    assert f"first in {first}: document 1" in str(caught.value)
    assert caught.value.field == "metadata.name"
