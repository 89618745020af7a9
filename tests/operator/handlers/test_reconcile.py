"""What `reconcile` makes of profiles, of the past and of what workers say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stowplan_operator.handlers.observed import Health, WorkerReport
from stowplan_operator.worker.configuration import parse_configuration
from support.situations import BAD, BAD_FIELD, PACK, SPREAD, Cluster, profile

GOOD = "Ready=True/Ready@1 Accepted=True/Accepted@1 Programmed=True/WorkersRun@1 Degraded=False/AsExpected@1 "
GOOD += "Paused=False/RolloutRuns@1"


def told(cluster: Cluster, group: str = "default") -> dict[str, tuple[int, str]]:
    """Generation and mode by profile, as the group's file has them."""
    loaded = parse_configuration(cluster.files[group].text.encode(), group)
    return {each.profile: (each.generation, each.mode) for each in loaded.profiles}


def strategy(cluster: Cluster, scheduler_name: str, group: str = "default") -> str:
    """The scoring strategy that the group's file has for a schedulerName."""
    loaded = parse_configuration(cluster.files[group].text.encode(), group)
    found = next(each for each in loaded.scheduler.profiles if each.scheduler_name == scheduler_name)
    args: Any = next(each.args for each in found.plugin_config if each.name == "NodeResourcesFit")
    return str(args.scoring_strategy.type)


# ---- one profile -----------------------------------------------------------------------------------------------------


def test_a_new_profile_is_written_to_memory_then_to_its_group_then_to_status() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.step()
    assert cluster.writes == [("memory", ""), ("group", "default"), ("status", "dense")]
    assert told(cluster) == {"dense": (1, "Active")}
    assert strategy(cluster, "dense") == "MostAllocated"
    assert cluster.condition("dense", "Programmed")["reason"] == "WorkersStarting"


def test_a_profile_is_ready_when_its_worker_leads_and_runs_it() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    assert cluster.shown("dense") == GOOD
    status = cluster.status("dense")
    assert status["observedGeneration"] == 1
    assert status["appliedHash"] == status["lastGood"]["hash"] == cluster.memory["uid-dense"].hash
    assert status["workers"] == [{"name": "default-0", "generation": 1, "hash": status["appliedHash"], "leading": True}]


def test_what_is_as_it_should_be_is_not_written_again() -> None:
    cluster = Cluster(profile(spec=PACK), profile("wide", SPREAD))
    cluster.settle()
    before = list(cluster.writes)
    cluster.later(3600)
    cluster.step()
    assert cluster.writes == before


def test_a_transition_time_stays_until_the_status_of_its_condition_flips() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.later(60)
    cluster.edit("dense", **SPREAD)
    cluster.settle()
    assert cluster.condition("dense", "Ready")["lastTransitionTime"] == "2026-11-30T12:01:00Z"
    assert cluster.condition("dense", "Accepted")["lastTransitionTime"] == "2026-11-30T12:00:00Z"
    assert cluster.condition("dense", "Accepted")["observedGeneration"] == 2


def test_a_change_of_weights_is_one_write_of_the_group_and_names_the_new_generation() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.writes.clear()
    cluster.edit("dense", plugins={"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}})
    cluster.settle()
    assert cluster.writes.count(("group", "default")) == 1
    assert told(cluster) == {"dense": (2, "Active")}
    assert cluster.condition("dense", "Programmed")["observedGeneration"] == 2


def test_while_workers_take_up_a_change_the_profile_says_whom_it_waits_for() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.edit("dense", **SPREAD)
    cluster.step()
    assert cluster.shown("dense").startswith("Ready=False/WorkersChanging@2 Accepted=True/Accepted@2 Programmed=False")
    assert cluster.condition("dense", "Programmed")["message"] == "waiting for default-0 to take up generation 2"


# ---- refused ---------------------------------------------------------------------------------------------------------


def test_a_profile_that_was_never_good_runs_nowhere_and_names_the_field() -> None:
    cluster = Cluster(profile(spec=BAD))
    cluster.settle()
    assert cluster.files == {}
    assert cluster.config_map == {}
    accepted = cluster.condition("dense", "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
    assert accepted["message"].startswith(f"{BAD_FIELD}: 101: ")
    assert cluster.condition("dense", "Degraded")["status"] == "False"


def test_a_refused_edit_leaves_the_last_good_one_running_and_says_so() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    files = dict(cluster.files)
    cluster.edit("dense", **BAD)
    cluster.settle()
    assert cluster.files == files
    assert cluster.shown("dense") == (
        "Ready=False/Invalid@2 Accepted=False/Invalid@2 Programmed=True/WorkersRun@1 "
        "Degraded=True/OlderConfigurationRuns@2 Paused=False/RolloutRuns@2"
    )
    assert cluster.condition("dense", "Degraded")["message"].startswith(
        f"generation 1 runs, since generation 2 was refused: {BAD_FIELD}"
    )
    assert cluster.status("dense")["lastGood"]["generation"] == 1


def test_a_rollback_reaches_the_hash_of_before() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    first = cluster.status("dense")["appliedHash"]
    for spec in (SPREAD, BAD, PACK):
        cluster.edit("dense", **spec)
        cluster.settle()
    assert cluster.status("dense")["appliedHash"] == first
    assert cluster.shown("dense") == GOOD.replace("@1", "@4")


def test_a_profile_made_anew_under_its_name_has_no_past() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.objects["dense"] = profile(spec=BAD, uid="another")
    cluster.settle()
    assert cluster.files == {}
    assert cluster.condition("dense", "Programmed")["reason"] == "NothingAccepted"


def test_a_spoilt_memory_is_as_good_as_none() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.config_map = {"dense": "{", "other": "[]", "third": '{"uid": 3}'}
    cluster.settle()
    assert cluster.shown("dense") == GOOD
    assert set(cluster.config_map) == {"dense"}


def test_a_worker_that_refuses_its_file_is_reported_with_its_words() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.refusing["default"] = "profiles[0].hash: is not to its taste"
    cluster.edit("dense", **SPREAD)
    cluster.settle()
    assert "Programmed=False/WorkerRefused@2 Degraded=True/WorkerRefused@2" in cluster.shown("dense")
    assert "is not to its taste" in cluster.condition("dense", "Ready")["message"]


# ---- modes -----------------------------------------------------------------------------------------------------------


def test_a_paused_profile_is_told_to_pause_and_is_not_ready() -> None:
    cluster = Cluster(profile(spec={**PACK, "rollout": {"mode": "Paused"}}))
    cluster.settle()
    assert told(cluster) == {"dense": (1, "Paused")}
    assert cluster.shown("dense") == (
        "Ready=False/Paused@1 Accepted=True/Accepted@1 Programmed=True/WorkersRun@1 Degraded=False/AsExpected@1 "
        "Paused=True/RolloutPaused@1"
    )


def test_a_shadow_is_ready_and_says_that_it_binds_nothing() -> None:
    cluster = Cluster(profile(spec={**PACK, "rollout": {"mode": "Shadow"}}))
    cluster.settle()
    assert told(cluster) == {"dense": (1, "Shadow")}
    assert cluster.shown("dense").startswith("Ready=True/Shadow@1")


def test_a_pause_counts_even_if_the_rest_of_the_edit_is_refused() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.edit("dense", **BAD, rollout={"mode": "Paused"})
    cluster.settle()
    assert told(cluster) == {"dense": (1, "Paused")}
    assert cluster.condition("dense", "Paused")["status"] == "True"
    cluster.edit("dense", rollout={"mode": "Active"})
    cluster.settle()
    assert told(cluster) == {"dense": (1, "Active")}


# ---- several profiles ------------------------------------------------------------------------------------------------


def test_of_two_profiles_with_one_scheduler_name_the_older_wins_and_the_newer_says_so() -> None:
    older = profile("older", {"schedulerName": "dense", **PACK}, creationTimestamp="2026-11-30T10:00:00Z")
    newer = profile("newer", {"schedulerName": "dense", **SPREAD}, creationTimestamp="2026-11-30T10:00:01Z")
    cluster = Cluster(newer, older)
    cluster.settle()
    assert told(cluster) == {"older": (1, "Active")}
    accepted = cluster.condition("newer", "Accepted")
    assert accepted["reason"] == "Conflict"
    assert accepted["message"] == 'spec.schedulerName: "dense" belongs to SchedulerProfile older, which is older'
    cluster.delete("older")
    cluster.settle()
    assert told(cluster) == {"newer": (1, "Active")}
    assert cluster.shown("newer") == GOOD


def test_of_two_profiles_of_one_second_the_first_by_name_wins() -> None:
    cluster = Cluster(profile("b", {"schedulerName": "dense"}), profile("a", {"schedulerName": "dense"}))
    cluster.settle()
    assert told(cluster) == {"a": (1, "Active")}


def test_profiles_of_one_group_share_a_file_and_those_of_another_have_their_own() -> None:
    cluster = Cluster(profile("a"), profile("b"), profile("c", {"workers": {"group": "other"}}))
    cluster.settle()
    assert told(cluster) == {"a": (1, "Active"), "b": (1, "Active")}
    assert told(cluster, "other") == {"c": (1, "Active")}


def test_an_edit_that_does_not_fit_its_group_is_refused_though_the_profile_is_older() -> None:
    """What runs goes on running: nobody loses a scheduler by an edit of another profile."""
    cluster = Cluster(profile("a"), profile("b", creationTimestamp="2026-11-30T11:00:00Z"))
    cluster.settle()
    cluster.edit("a", rollout={"mode": "Shadow", "shadowOf": "b"})
    cluster.settle()
    assert told(cluster) == {"a": (1, "Active"), "b": (1, "Active")}
    accepted = cluster.condition("a", "Accepted")
    assert accepted["reason"] == "GroupConflict"
    assert accepted["message"].startswith('spec.rollout.shadowOf: "b": is run by b in the same group')


def test_changes_that_only_go_together_are_taken_together() -> None:
    cluster = Cluster(profile("a"), profile("b"))
    cluster.settle()
    more = {"workers": {"replicas": 2}}
    cluster.edit("a", **more)
    cluster.settle()
    assert cluster.condition("a", "Accepted")["reason"] == "GroupConflict"
    assert cluster.files["default"].replicas == 1
    cluster.edit("b", **more)
    cluster.settle()
    assert cluster.files["default"].replicas == 2
    assert cluster.condition("a", "Accepted")["status"] == cluster.condition("b", "Accepted")["status"] == "True"


def test_changes_are_taken_together_though_another_group_has_a_quarrel() -> None:
    cluster = Cluster(profile("a"), profile("b"), profile("c", {"workers": {"group": "other"}}))
    cluster.settle()
    cluster.objects["d"] = profile("d", {"workers": {"group": "other", "replicas": 3}})
    cluster.edit("a", workers={"replicas": 2})
    cluster.edit("b", workers={"replicas": 2})
    cluster.settle()
    assert cluster.condition("d", "Accepted")["reason"] == "GroupConflict"
    assert cluster.files["default"].replicas == 2
    assert told(cluster) == {"a": (2, "Active"), "b": (2, "Active")}


def test_of_new_profiles_that_do_not_go_together_the_oldest_runs() -> None:
    cluster = Cluster(
        profile("old", {"workers": {"replicas": 2}}, creationTimestamp="2026-11-30T09:00:00Z"),
        profile("new", {"workers": {"replicas": 3}}, creationTimestamp="2026-11-30T11:00:00Z"),
        profile("too", {"workers": {"replicas": 2}}, creationTimestamp="2026-11-30T11:30:00Z"),
    )
    cluster.settle()
    assert told(cluster) == {"old": (1, "Active"), "too": (1, "Active")}
    assert cluster.condition("new", "Accepted")["message"].startswith("spec.workers.replicas: 3: ")


def test_a_scheduler_name_is_paused_in_its_new_group_until_the_old_one_lets_go() -> None:
    older = profile("older", {"schedulerName": "dense"}, creationTimestamp="2026-11-30T09:00:00Z")
    newer = profile("newer", {"schedulerName": "dense", "workers": {"group": "other"}})
    keeps = profile("keeps")
    cluster = Cluster(older, newer, keeps)
    cluster.settle()
    cluster.delete("older")
    cluster.step()
    assert told(cluster, "default") == {"keeps": (1, "Active")}
    assert told(cluster, "other") == {"newer": (1, "Paused")}
    assert cluster.condition("newer", "Programmed")["reason"] == "HandingOver"
    cluster.workers_read()
    cluster.step()
    assert told(cluster, "other") == {"newer": (1, "Active")}
    cluster.settle()
    assert cluster.shown("newer") == GOOD


# ---- deletion --------------------------------------------------------------------------------------------------------


def test_the_last_profile_of_a_group_takes_the_group_with_it() -> None:
    cluster = Cluster(profile(spec=PACK), profile("c", {"workers": {"group": "other"}}))
    cluster.settle()
    cluster.delete("dense")
    cluster.settle()
    assert set(cluster.files) == {"other"}
    assert set(cluster.config_map) == {"c"}


def test_a_profile_that_waits_for_a_foreign_finalizer_runs_no_longer_and_gets_no_status() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.objects["dense"]["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    cluster.writes.clear()
    cluster.settle()
    assert cluster.files == {}
    assert ("status", "dense") not in cluster.writes


# ---- workers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"is_leading": False}, "NoLeader"), ({"is_synced": False}, "NotSynced")],
)
def test_a_profile_is_ready_only_with_a_leader_that_knows_the_cluster(fields: dict[str, Any], reason: str) -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.step(cluster.reports(**fields))
    assert cluster.shown("dense").startswith(f"Ready=False/{reason}@1 Accepted=True/Accepted@1 Programmed=True")


def test_a_worker_that_cannot_work_says_why_in_the_profile() -> None:
    """It answers, and lacks a right, say; another one that leads can do without it."""
    why = "the worker may not: create pods/binding; deploy/kustomize/base has the roles"
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    for leads in (True, False):
        cluster.step(cluster.reports(detail=why, is_leading=leads, is_synced=leads))
        for type, status in (("Ready", "False"), ("Degraded", "True")):
            found = cluster.condition("dense", type)
            assert (found["status"], found["reason"]) == (status, "WorkerHindered")
            assert found["message"] == f"worker default-0: {why}"
    stand_by = replace(cluster.report("default"), name="default-1", is_leading=False, detail=why)
    cluster.step([*cluster.reports(), stand_by])
    assert cluster.condition("dense", "Ready")["status"] == "True"
    assert cluster.condition("dense", "Degraded")["message"] == f"worker default-1: {why}"
    cluster.settle()
    assert cluster.shown("dense") == GOOD


def test_a_worker_that_fell_silent_degrades_and_leaves_programmed_to_the_others() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    silent = cluster.report("default", Health.SILENT, is_leading=False, detail="no answer for 12 s")
    cluster.step([*cluster.reports(), silent])
    assert "Programmed=True/WorkersRun@1 Degraded=True/WorkerSilent@1" in cluster.shown("dense")
    assert cluster.condition("dense", "Degraded")["message"] == "default-0: no answer for 12 s"


def test_after_a_restart_nothing_is_taken_back_before_the_workers_were_heard() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.writes.clear()
    cluster.step([WorkerReport(group="default", name="default-0", health=Health.STARTING)])
    assert cluster.writes == []
    cluster.step([])
    assert cluster.writes == []


def test_after_a_restart_a_worker_that_died_meanwhile_is_reported() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.step([cluster.report("default", Health.SILENT, is_leading=False, detail="ended with exit code 1")])
    assert cluster.shown("dense").startswith("Ready=False/WorkersStarting@1")
    assert cluster.condition("dense", "Programmed")["message"] == "default-0: ended with exit code 1"


def test_before_any_worker_was_heard_a_new_profile_says_so() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.step()
    assert cluster.condition("dense", "Programmed")["message"] == "no worker answers yet"


def test_several_workers_are_counted() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    assert cluster.condition("dense", "Programmed")["message"] == "1 worker with generation 1"
    cluster.edit("dense", **SPREAD)
    cluster.step()
    cluster.workers_read()
    cluster.step([*cluster.reports(), cluster.report("default", is_leading=False)])
    assert cluster.condition("dense", "Programmed")["message"] == "2 workers with generation 2"


# ---- figures ---------------------------------------------------------------------------------------------------------


def figures(pending: int) -> dict[str, Any]:
    return {"pending": {"dense": pending + 1}, "utilization": {"cpu": 40, "memory": 55}}


def test_figures_are_written_at_most_every_thirty_seconds() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.later(31)
    cluster.writes.clear()
    seen: list[int] = []
    for second in range(90):
        desired = cluster.step(cluster.reports(**figures(second)))
        seen.append(cluster.status("dense")["pending"])
        assert desired.next_at is None or desired.next_at > cluster.now
        cluster.later(1)
    assert len(cluster.writes) == 3
    assert [seen[0], seen[29], seen[30], seen[59], seen[60], seen[89]] == [1, 1, 31, 31, 61, 61]
    assert cluster.status("dense")["utilizationPercent"] == 55


def test_the_first_figures_of_a_profile_are_written_at_once() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.step()
    cluster.workers_read()
    cluster.later(1)
    cluster.step(cluster.reports(**figures(4)))
    assert cluster.status("dense")["pending"] == 5
    cluster.later(1)
    cluster.step(cluster.reports(**figures(9)))
    assert cluster.status("dense")["pending"] == 5


def test_a_leader_that_has_not_read_the_cluster_has_no_figures() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.step()
    cluster.workers_read()
    cluster.step(cluster.reports(**figures(-1), is_synced=False))
    assert "pending" not in cluster.status("dense")
    cluster.step(cluster.reports(**figures(4)))
    assert cluster.status("dense")["pending"] == 5


def test_a_figure_that_is_missing_is_not_waited_for() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.step()
    cluster.workers_read()
    cluster.step(cluster.reports(utilization={"cpu": 40}, pending={}))
    assert cluster.status("dense")["utilizationPercent"] == 40
    assert "pending" not in cluster.status("dense")
    cluster.later(1)
    cluster.step(cluster.reports(**figures(4)))
    assert cluster.status("dense")["pending"] == 5


def test_figures_come_with_no_other_write_before_their_time() -> None:
    cluster = Cluster(profile(spec=PACK))
    cluster.settle()
    cluster.later(31)
    cluster.step(cluster.reports(**figures(4)))
    cluster.later(5)
    cluster.step(cluster.reports(**figures(9), is_synced=False))
    assert cluster.condition("dense", "Ready")["reason"] == "NotSynced"
    assert cluster.status("dense")["pending"] == 5
    desired = cluster.desired(cluster.reports(**figures(9), is_synced=False))
    assert desired.next_at == cluster.now + 30 * 10**9


def test_the_account_of_a_shadow_is_shown_for_shadows_only() -> None:
    cluster = Cluster(profile(spec={"rollout": {"mode": "Shadow"}}), profile("wide", SPREAD))
    cluster.settle()
    cluster.later(31)
    shadow = {"dense": {"decided": 10, "agreed": 7}, "wide": {"decided": 1}}
    cluster.step(cluster.reports(shadow=shadow))
    assert cluster.status("dense")["shadow"] == {"agreed": 7, "decided": 10}
    assert "shadow" not in cluster.status("wide")
