"""Tests of the world that mode `run` of the conformance command plays, where it shows in what the scheduler says."""

from __future__ import annotations

from stowplan_scheduler.conformance.run import run


def test_patch_of_a_status_turns_an_empty_list_into_an_absent_one() -> None:
    """The pod's preference does not parse. The patch with the first error leaves out the empty list, as Go's JSON does.

    Recorded from the real scheduler: tried at once, then after a back-off of 1 s, which ends with its whole second.
    """
    nodes = [
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
        for name in ("n1", "n2")
    ]
    preference = {"weight": 3, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}], "affinity": affinity}}
    result = run({"id": "x", "config": None, "objects": {"nodes": nodes, "pods": [pod]}, "steps": [], "until": 5})
    where = 'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values: Invalid value: '
    why = ": for 'in', 'notin' operators, values set can't be empty"
    assert [(event["t"], event["message"]) for event in result["events"]] == [
        (0.0005, f"{where}[]{why}"),
        (2.0005, f"{where}null{why}"),
    ]
