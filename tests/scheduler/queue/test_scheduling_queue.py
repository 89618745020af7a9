"""Which trigger moves a pod from where to where."""

from __future__ import annotations

import pytest

from scheduler.queue.queue_support import (
    GATE_EVENT,
    PROFILE,
    TARGET_TOLERATION,
    Harness,
    info_of,
    make_info,
    make_pod,
    seconds,
)
from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Status, unresolvable
from stowplan_scheduler.queue import (
    AlreadyQueuedError,
    HintMap,
    NominatingMode,
    Place,
    QueuedPodInfo,
    QueueInvariantError,
    SchedulingQueue,
)


class TestAdd:
    def test_a_new_pod_is_active_and_its_first_attempt_counts_from_now(self) -> None:
        """InitialAttemptTimestamp is the first entry into the active queue."""
        harness = Harness()
        info = harness.add(make_info(), at=3)
        pod = harness.queue.find("ns/p")
        assert harness.place(info) == "active"
        assert pod is not None
        assert (pod.timestamp, pod.initial_attempt_timestamp, pod.attempts) == (seconds(3), seconds(3), 0)
        assert harness.queue.incoming == {("active", "UnscheduledPodAdd"): 1}

    def test_a_gated_pod_waits_outside_but_its_nomination_counts(self) -> None:
        """Nominations are recorded first and unconditionally since 1.37."""
        harness = Harness()
        harness.gated.add("p")
        info = harness.add(make_info(nominated="n1"), at=3)
        pod = harness.queue.find("ns/p")
        assert harness.place(info) == "gated"
        assert pod is not None
        assert (pod.gating_plugin, pod.rejectors, pod.initial_attempt_timestamp) == ("Gate", frozenset({"Gate"}), None)
        assert harness.queue.nominated_pods_for_node("n1") == (info,)
        assert harness.queue.pop(0) is None

    def test_a_pod_of_an_unknown_profile_is_refused(self) -> None:
        """The handlers filter such pods; letting one in would hide the mistake until the pod is rejected."""
        with pytest.raises(ValueError, match="pod ns/p asks for the scheduler 'other', which has no profile here"):
            Harness().queue.add(info_of(make_pod(scheduler_name="other")), 0)

    def test_a_gate_must_name_its_plugin(self) -> None:
        """Without a name nothing would ever open the gate."""
        queue = SchedulingQueue(
            {PROFILE: HintMap({})},
            lambda _: unresolvable("closed"),
            lambda _: (0,),
            initial_backoff_ns=1,
            max_backoff_ns=1,
            lister=lambda _: None,
        )
        with pytest.raises(ValueError, match="without a plugin's name holds back pod ns/p"):
            queue.add(make_info(), 0)


class TestPop:
    def test_pods_are_popped_by_priority_and_then_by_time(self) -> None:
        """PrioritySort."""
        harness = Harness()
        for name, priority, at in (("late", 5, 2), ("early", 5, 1), ("low", 0, 0)):
            harness.add(make_info(name, priority=priority), at)
        assert harness.pop_names() == ["early", "late", "low"]

    def test_a_pop_counts_an_attempt_and_a_cycle_and_keeps_the_rejectors(self) -> None:
        """The rejectors survive, so that a success can still report what woke the pod."""
        harness = Harness()
        info = harness.rejected("p", "Fit")
        harness.event(NODE_ADD, at=5)
        pod = harness.pop(5)
        assert (pod.attempts, harness.queue.scheduling_cycle, pod.rejectors) == (2, 2, frozenset({"Fit"}))
        assert harness.place(info) == "in_flight"

    def test_an_idle_queue_pops_a_rejected_pod_before_its_backoff_ends(self) -> None:
        """SchedulerPopFromBackoffQ: whatever the expiry."""
        harness = Harness()
        info = harness.rejected("p", "Fit", at=0)
        harness.event(NODE_ADD, at=0.1)
        assert harness.place(info) == "backoff"
        assert harness.queue.has_poppable()
        assert harness.pop(0.1).key == "ns/p"
        assert harness.queue.incoming["active", "PopFromBackoffQ"] == 1
        assert harness.queue.incoming_entities["active", "PopFromBackoffQ"] == 1

    def test_a_pod_after_an_error_truly_waits(self) -> None:
        """Only errors wait in an idle scheduler."""
        harness = Harness()
        harness.add(make_info())
        assert harness.fail(harness.pop(), 0) == "backoff"
        assert not harness.queue.has_poppable()
        assert harness.queue.pop(0) is None

    def test_active_pods_come_before_those_backing_off(self) -> None:
        """The back-off queue is looked at only when no pod is active."""
        harness = Harness()
        harness.rejected("p", "Fit", priority=9)
        harness.event(NODE_ADD)
        harness.add(make_info("q"))
        assert harness.pop_names() == ["q", "p"]

    def test_a_second_pod_of_a_uid_in_flight_is_discarded(self) -> None:
        """The same pod tracked twice is a mistake of the caller, which must not lose events of the first attempt."""
        harness = Harness()
        harness.add(make_info("p", uid="u"))
        harness.pop()
        harness.add(make_info("p", uid="u"))
        harness.add(make_info("q"))
        assert harness.pop_names() == ["q"]
        assert harness.queue.discarded == 1


class TestFailure:
    @pytest.mark.parametrize(
        ("rejectors", "pending", "place", "counts"),
        [
            (["Fit"], [], "unschedulable", (1, 0)),
            ([], ["Claims"], "unschedulable", (1, 0)),
            ([], [], "backoff", (0, 1)),
        ],
    )
    def test_a_rejection_and_an_error_count_apart(
        self, rejectors: list[str], pending: list[str], place: str, counts: tuple[int, int]
    ) -> None:
        """Only errors go straight to the back-off."""
        harness = Harness()
        harness.add(make_info())
        pod = harness.pop()
        assert harness.fail(pod, 7, rejectors, pending) == place
        assert (pod.unschedulable_count, pod.consecutive_errors_count) == counts
        assert pod.timestamp == seconds(7)
        assert harness.queue.counts()[Place.IN_FLIGHT] == 0

    def test_a_rejection_forgets_the_errors_but_an_error_not_the_rejections(self) -> None:
        """Rejected twice, then an error: back-off of the first error, 1 s. Then a rejection: of the third, 4 s."""
        harness = Harness()
        harness.add(make_info())
        pod = harness.pop()
        expiries, counts = [], []
        for at, rejectors in ((0, ["Fit"]), (100, ["Fit"]), (200, []), (300, ["Fit"])):
            harness.fail(pod, at, rejectors)
            harness.event(NODE_ADD, at=at + 0.1)
            expiries.append(pod.backoff_expiration)
            counts.append((pod.unschedulable_count, pod.consecutive_errors_count))
            harness.queue.flush_backoff_completed(seconds(at + 50))
            assert harness.pop(at + 50) is pod
        assert expiries == [seconds(s) for s in (1, 102, 201, 304)]
        assert counts == [(1, 0), (2, 0), (2, 1), (3, 0)]

    def test_an_event_missed_in_flight_is_replayed(self) -> None:
        """Without the replay the pod would wait five minutes for a node that is there."""
        harness = Harness()
        harness.add(make_info())
        pod = harness.pop()
        harness.event(NODE_ADD, at=0.1)
        assert harness.fail(pod, 0.2, ["Fit"]) == "backoff"
        assert harness.queue.in_flight_events() == {}

    def test_an_event_before_the_pop_is_not_replayed(self) -> None:
        """The attempt has seen its effect."""
        harness = Harness()
        harness.add(make_info("other"))
        harness.add(make_info("p"), at=1)
        other = harness.pop()
        harness.event(NODE_ADD, at=2)
        assert harness.fail(harness.pop(3), 4, ["Fit"]) == "unschedulable"
        assert harness.queue.in_flight_events() == {"NodeAdd": 1}
        assert harness.fail(other, 5, ["Fit"]) == "backoff"

    def test_an_event_that_nobody_listens_to_is_not_kept(self) -> None:
        """isEventOfInterest comes first."""
        harness = Harness()
        harness.add(make_info())
        harness.pop()
        harness.event(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE))
        assert harness.queue.in_flight_events() == {}

    def test_a_pending_plugin_skips_the_backoff(self) -> None:
        """Pending means: somebody else was asked to act, and the event says that he did."""
        harness = Harness()
        harness.add(make_info())
        pod = harness.pop()
        harness.event(NODE_ADD)
        assert harness.fail(pod, 0, ["Fit"], ["Claims"]) == "active"

    @pytest.mark.parametrize(
        ("where", "message"),
        [
            ("unschedulable", "Pod ns/p is already present in unschedulable queue"),
            ("active", "Pod ns/p is already present in the active queue"),
            ("backoff", "Pod ns/p is already present in the backoff queue"),
        ],
    )
    def test_a_pod_that_is_queued_already_is_refused_and_done(self, where: str, message: str) -> None:
        """Upstream's messages; the attempt of the old pod ends all the same."""
        harness = Harness()
        harness.add(make_info("p", uid="old"))
        old = harness.pop()
        if where == "active":
            harness.add(make_info("p", uid="new"))
        else:
            harness.rejected("p", "Fit")  # has the UID uid-p
        if where == "backoff":
            harness.event(NODE_ADD)
        with pytest.raises(AlreadyQueuedError, match=message):
            harness.fail(old, 1, ["Fit"])
        assert harness.queue.counts()[Place.IN_FLIGHT] == 0

    def test_a_failed_pod_that_became_gated_waits_behind_the_gate(self) -> None:
        """As a preemptor does: the replay wants it back, PreEnqueue says no."""
        harness = Harness()
        harness.add(make_info())
        pod = harness.pop()
        harness.event(NODE_ADD)
        harness.gated.add("p")
        assert harness.fail(pod, 1, ["Fit"]) == "gated"
        assert pod.rejectors == {"Fit", "Gate"}


class TestEvents:
    def test_an_event_wakes_the_pods_of_its_listeners_only(self) -> None:
        """Fit listens to Node/Add, Taint does not."""
        harness = Harness()
        fit, taint = harness.rejected("fit", "Fit"), harness.rejected("taint", "Taint")
        harness.event(NODE_ADD, at=5)
        assert (harness.place(fit), harness.place(taint)) == ("active", "unschedulable")

    @pytest.mark.parametrize(("at", "place"), [(0.5, "backoff"), (1.9, "backoff"), (2.0, "active")])
    def test_a_woken_pod_backs_off_while_its_backoff_lasts(self, at: float, place: str) -> None:
        """Rejected at 0: expiry 1, over at 2."""
        harness = Harness()
        info = harness.rejected("p", "Fit")
        harness.event(NODE_ADD, at=at)
        assert harness.place(info) == place

    def test_pods_that_wake_together_are_tried_by_priority_time_and_key(self) -> None:
        """Upstream goes through a Go map here; ours is one of its orders, always the same."""
        harness = Harness()
        for name, priority, at in (("d", 0, 3), ("c", 0, 3), ("b", 0, 2), ("a", 7, 4)):
            harness.rejected(name, "Fit", priority=priority, at=at)
        harness.event(NODE_ADD, at=9)
        assert harness.pop_names() == ["a", "b", "c", "d"]

    def test_a_pre_check_limits_who_is_looked_at(self) -> None:
        """A nomination that ends helps pods of the same or a lower priority only."""
        harness = Harness()
        high, low = harness.rejected("high", "Fit", priority=5), harness.rejected("low", "Fit")
        harness.queue.move_all_to_active_or_backoff(
            ASSIGNED_POD_DELETE, None, None, seconds(9), lambda pod: pod.info.priority <= 1
        )
        assert (harness.place(high), harness.place(low)) == ("unschedulable", "active")

    def test_hints_get_the_pod_and_both_objects(self) -> None:
        """They are passed on as they are; a hint that says skip leaves the pod."""
        seen: list[tuple[str, object, object]] = []

        def hint(info: PodInfo, old: object, new: object) -> Hint:
            seen.append((info.key, old, new))
            return Hint.SKIP

        harness = Harness({"Fit": (EventRegistration(NODE_ADD, hint),)})
        info = harness.rejected("p", "Fit")
        harness.event(NODE_ADD, at=9, old="before", new="after")
        assert seen == [("ns/p", "before", "after")]
        assert harness.place(info) == "unschedulable"

    def test_a_hint_that_raises_wakes_the_pod_and_is_reported(self) -> None:
        """The same as Queue."""

        def broken(info: PodInfo, old: object, new: object) -> Hint:
            raise KeyError("x")

        harness = Harness({"Fit": (EventRegistration(NODE_ADD, broken),)})
        info = harness.rejected("p", "Fit")
        harness.event(NODE_ADD, at=9)
        assert harness.place(info) == "active"
        assert harness.hint_errors == ["Fit NodeAdd ns/p 'x'"]

    def test_a_pod_of_two_rejectors_is_asked_about_once(self) -> None:
        """It is found under both in the index, and moved once."""
        harness = Harness()
        info = harness.rejected("p", "Fit", "Claims")
        harness.event(NODE_ADD, at=9)
        assert harness.place(info) == "active"
        assert harness.queue.incoming["active", "NodeAdd"] == 1
        # As an entity it counts where its strategy, after its back-off, did not send it.
        assert harness.queue.incoming_entities["active", "NodeAdd"] == 1
        assert harness.queue.incoming["unschedulable", "ScheduleAttemptFailure"] == 1
        assert ("unschedulable", "ScheduleAttemptFailure") not in harness.queue.incoming_entities


class TestGates:
    def test_a_gated_pod_hears_only_its_gating_plugin(self) -> None:
        """It was rejected by Fit as well, which listens to Node/Add; the gate would hold it anyway."""
        harness = Harness()
        harness.add(make_info())
        pod = harness.pop()
        harness.event(NODE_ADD)
        harness.gated.add("p")
        harness.fail(pod, 0, ["Fit"])
        harness.gated.clear()
        harness.event(NODE_ADD, at=9)
        assert harness.place(pod.info) == "gated"
        harness.event(GATE_EVENT, at=9)
        assert harness.place(pod.info) == "active"

    def test_a_gate_that_still_holds_keeps_the_pod(self) -> None:
        """PreEnqueue decides again at every chance."""
        harness = Harness()
        harness.gated.add("p")
        info = harness.add(make_info())
        harness.event(GATE_EVENT, at=1)
        assert harness.place(info) == "gated"
        assert harness.pre_enqueue_calls == ["ns/p", "ns/p"]

    def test_leaving_the_backoff_does_not_ask_again(self) -> None:
        """PreEnqueue ran when the pod began to back off."""
        harness = Harness()
        info = harness.rejected("p", "Fit")
        harness.event(NODE_ADD, at=0.5)
        harness.gated.add("p")
        calls = len(harness.pre_enqueue_calls)
        harness.queue.flush_backoff_completed(seconds(2))
        assert harness.place(info) == "active"
        assert len(harness.pre_enqueue_calls) == calls

    def test_a_gate_may_close_when_a_pod_would_begin_to_back_off(self) -> None:
        """Then it waits behind the gate instead."""
        harness = Harness()
        info = harness.rejected("p", "Fit")
        harness.gated.add("p")
        harness.event(NODE_ADD, at=0.5)
        assert harness.place(info) == "gated"

    def test_the_rejectors_of_a_gated_pod_stay_after_the_gate_opens(self) -> None:
        """They are cleared by the next failure only, so the pod counts as rejected if it backs off."""
        harness = Harness()
        harness.gated.add("p")
        harness.add(make_info())
        harness.gated.clear()
        harness.event(GATE_EVENT, at=1)
        pod = harness.pop(1)
        assert (pod.gating_plugin, pod.rejectors) == ("", frozenset({"Gate"}))


class TestUpdate:
    def test_an_update_in_flight_is_replayed_for_that_pod(self) -> None:
        """Its own toleration may be what Taint waits for; the other pod in flight is not the target."""
        harness = Harness()
        harness.add(make_info("p"))
        harness.add(make_info("q"), at=1)
        p, q = harness.pop(), harness.pop()
        harness.queue.update(p.info.pod, info_of(make_pod("p", tolerations=1)), seconds(1))
        assert harness.queue.in_flight_events() == {"TargetPodUpdatePodToleration": 1}
        assert harness.fail(p, 2, ["Taint"]) == "backoff"
        assert harness.fail(q, 2, ["Fit"]) == "unschedulable"

    def test_an_active_pod_is_replaced_and_put_in_its_place(self) -> None:
        """Without a move, without another PreEnqueue."""
        harness = Harness()
        old = harness.add(make_info("p"))
        harness.add(make_info("q"), at=1)
        harness.queue.update(old.pod, make_info("q", priority=5), seconds(2))
        assert harness.pop_names() == ["q", "p"]
        assert harness.pre_enqueue_calls == ["ns/p", "ns/q"]

    def test_a_pod_that_backs_off_stays_and_is_put_in_its_place(self) -> None:
        """Two pods of one second; the update raises the priority of the second."""
        harness = Harness()
        harness.rejected("p", "Fit", at=0)
        second = harness.rejected("q", "Fit", at=0.1)
        harness.event(NODE_ADD, at=0.5)
        harness.queue.update(second.pod, make_info("q", priority=5), seconds(0.6))
        harness.queue.check_invariants()
        assert harness.pop_names() == ["q", "p"]

    def test_an_error_backoff_is_reordered_in_its_own_heap(self) -> None:
        """An update does not turn an error into a rejection."""
        harness = Harness()
        old = harness.add(make_info())
        harness.fail(harness.pop(), 0)
        harness.queue.update(old.pod, make_info(priority=5), seconds(0.1))
        harness.queue.check_invariants()
        assert not harness.queue.has_poppable()

    @pytest.mark.parametrize(("rejector", "place"), [("Taint", "active"), ("Fit", "unschedulable")])
    def test_an_unschedulable_pod_moves_if_a_rejector_listens_to_what_changed(self, rejector: str, place: str) -> None:
        """A new toleration matters to Taint, not to Fit."""
        harness = Harness()
        info = harness.rejected("p", rejector)
        updated = info_of(make_pod("p", tolerations=1))
        harness.queue.update(info.pod, updated, seconds(9))
        harness.queue.check_invariants()
        assert harness.place(info) == place
        pod = harness.queue.find("ns/p")
        assert pod is not None
        assert pod.info is updated

    def test_the_first_event_that_wakes_the_pod_ends_the_matter(self) -> None:
        """Labels and tolerations changed: labels wake it, tolerations are not asked."""
        asked: list[str] = []

        def asking(name: str) -> EventRegistration:
            def hint(info: PodInfo, old: object, new: object) -> Hint:
                asked.append(name)
                return Hint.QUEUE

            action = Action.UPDATE_POD_LABEL if name == "Label" else Action.UPDATE_POD_TOLERATION
            return EventRegistration(ClusterEvent(Resource.TARGET_POD, action), hint)

        harness = Harness({"A": (asking("Toleration"), asking("Label"))})
        info = harness.rejected("p", "A")
        harness.queue.update(info.pod, info_of(make_pod("p", labels={"a": "b"}, tolerations=1)), seconds(9))
        assert asked == ["Label"]
        assert harness.queue.incoming["active", "TargetPodUpdatePodLabel"] == 1

    def test_a_gated_pod_is_asked_again_when_its_own_change_matters(self) -> None:
        """Removing the last gate is heard by SchedulingGates; PreEnqueue then lets the pod in."""
        gates_gone = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
        harness = Harness({"Gate": (EventRegistration(gates_gone),)})
        harness.gated.add("p")
        info = harness.add(make_info())
        harness.queue.update(info.pod, info_of(make_pod("p", labels={"a": "1"})), seconds(1))
        assert harness.place(info) == "gated"
        harness.gated.clear()
        harness.queue.update(info.pod, info_of(make_pod("p", labels={"a": "2"})), seconds(2))
        assert harness.place(info) == "active"

    def test_an_unknown_pod_is_added(self) -> None:
        """An update may come before the add, or after the pod was dropped."""
        harness = Harness()
        info = make_info()
        harness.queue.update(None, info, 0)
        assert harness.place(info) == "active"

    def test_without_an_old_version_a_plain_update_is_assumed(self) -> None:
        """What changed is not known, so only a registration for any update hears of it."""
        harness = Harness(
            {
                "Any": (EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE)),),
                "Taint": (EventRegistration(TARGET_TOLERATION),),
            }
        )
        both = [harness.rejected(name, name) for name in ("Any", "Taint")]
        for info in both:
            harness.queue.update(None, info, seconds(9))
        assert [harness.place(info) for info in both] == ["active", "unschedulable"]

    def test_an_update_keeps_a_nomination_in_memory(self) -> None:
        """The status update that carries the nomination is still on its way."""
        harness = Harness()
        info = harness.rejected("p", "Fit")
        harness.queue.add_nominated_pod(info, "n1", NominatingMode.OVERRIDE)
        updated = info_of(make_pod("p", labels={"a": "b"}))
        harness.queue.update(info.pod, updated, seconds(1))
        assert harness.queue.nominated_pods_for_node("n1") == (updated,)


class TestDelete:
    @pytest.mark.parametrize("where", ["active", "backoff", "error backoff", "unschedulable", "gated"])
    def test_a_deleted_pod_is_gone_from_wherever_it_was(self, where: str) -> None:
        """Its nomination goes with it."""
        harness = Harness()
        if where == "gated":
            harness.gated.add("p")
        info = harness.add(make_info(nominated="n1"))
        if where in {"backoff", "unschedulable"}:
            harness.fail(harness.pop(), 0, ["Fit"])
        if where == "backoff":
            harness.event(NODE_ADD)
        if where == "error backoff":
            harness.fail(harness.pop(), 0)
        assert harness.place(info) == where.rsplit(maxsplit=1)[-1]
        harness.queue.delete(info.pod, 0)
        harness.queue.check_invariants()
        assert harness.place(info) is None
        assert not harness.queue.has_nominated_pods()

    def test_a_pod_in_flight_stays_so_until_it_is_done(self) -> None:
        """Its attempt goes on; the failure handler or the binding notices."""
        harness = Harness()
        info = harness.add(make_info())
        harness.pop()
        harness.queue.delete(info.pod, 0)
        assert harness.place(info) == "in_flight"
        harness.queue.done(info.uid)
        assert harness.place(info) is None


class TestActivate:
    def test_activation_ignores_backoff_and_rejectors(self) -> None:
        """From the unschedulable pods and from the back-off."""
        harness = Harness()
        parked, waiting = harness.rejected("parked", "Taint"), harness.rejected("waiting", "Fit")
        harness.event(NODE_ADD)
        assert harness.place(waiting) == "backoff"
        harness.queue.activate([parked, waiting, make_info("unknown")], seconds(0.1))
        harness.queue.check_invariants()
        assert (harness.place(parked), harness.place(waiting)) == ("active", "active")
        assert harness.queue.find("ns/unknown") is None

    def test_a_pod_that_backs_off_is_activated_without_asking_its_gate(self) -> None:
        """It passed PreEnqueue when its back-off began."""
        harness = Harness()
        info = harness.rejected("p", "Fit")
        harness.event(NODE_ADD)
        harness.gated.add("p")
        harness.queue.activate([info], seconds(0.1))
        assert harness.place(info) == "active"

    def test_a_gate_holds_against_activation(self) -> None:
        """PreEnqueue is asked, and decides."""
        harness = Harness()
        harness.gated.add("p")
        info = harness.add(make_info())
        harness.queue.activate([info], 0)
        assert harness.place(info) == "gated"
        harness.gated.clear()
        harness.queue.activate([info], 0)
        assert harness.place(info) == "active"

    def test_a_pod_in_flight_is_woken_when_it_comes_back(self) -> None:
        """Preemption that fails before the preemptor is back in the queue. Other pods in flight do not mind."""
        harness = Harness()
        harness.add(make_info("p"))
        harness.add(make_info("q"), at=1)
        p, q = harness.pop(), harness.pop()
        harness.queue.activate([p.info], seconds(1))
        assert harness.fail(p, 2, ["Deaf"]) == "backoff"
        assert harness.fail(q, 2, ["Deaf"]) == "unschedulable"


class TestTwoProfiles:
    def test_a_plugin_listens_per_profile_but_a_gate_opens_for_all(self) -> None:
        """X listens to Node/Add in profile b only. Upstream keeps one table of gating plugins for all profiles."""
        registrations = (EventRegistration(NODE_ADD),)
        gated = {"ns/ga"}

        def pre_enqueue(pod: QueuedPodInfo) -> Status:
            return unresolvable("closed").of("X") if pod.key in gated else Status()

        queue = SchedulingQueue(
            {"a": HintMap({"X": (), "Y": registrations}), "b": HintMap({"X": registrations})},
            pre_enqueue,
            lambda pod: (pod.timestamp,),
            initial_backoff_ns=0,
            max_backoff_ns=0,
            lister=lambda _: None,
        )
        infos = {name: info_of(make_pod(name, scheduler_name=name[-1])) for name in ("pa", "pb", "ga")}
        for info in infos.values():
            queue.add(info, 0)
        for _ in range(2):
            pod = queue.pop(0)
            assert pod is not None
            pod.unschedulable_plugins = frozenset({"X"})
            queue.add_unschedulable_if_not_present(pod, 0)
        gate = queue.find("ns/ga")
        assert gate is not None
        gated.clear()
        queue.move_all_to_active_or_backoff(NODE_ADD, None, None, 0)
        places = {name: queue.place_of(info) for name, info in infos.items()}
        # ga's gate hears the event through profile b, but X's hint is asked in its own profile, a.
        assert places == {"pa": "unschedulable", "pb": "active", "ga": "gated"}


class TestViews:
    def test_every_place_is_counted_and_listed(self) -> None:
        """For metrics and explanations."""
        harness = Harness()
        harness.gated.add("gated")
        harness.add(make_info("gated"))
        harness.rejected("parked", "Taint")
        harness.rejected("waiting", "Fit")
        harness.event(NODE_ADD)
        harness.add(make_info("error"))
        harness.fail(harness.pop(), 0)
        harness.add(make_info("flying"))
        flying = harness.pop()
        harness.add(make_info("second"), at=2)
        harness.add(make_info("first"), at=1)
        assert {place.value: count for place, count in harness.queue.counts().items()} == {
            "active": 2,
            "backoff": 2,
            "unschedulable": 1,
            "gated": 1,
            "in_flight": 1,
        }
        pending = harness.queue.pending_pods()
        assert [pod.key for pod in pending.active] == ["ns/first", "ns/second"]
        assert [pod.key for pod in pending.backoff] == ["ns/waiting"]
        assert [pod.key for pod in pending.error_backoff] == ["ns/error"]
        assert [pod.key for pod in pending.unschedulable] == ["ns/parked"]
        assert [pod.key for pod in pending.gated] == ["ns/gated"]
        assert pending.in_flight == (flying.info,)
        assert harness.queue.rejector_counts() == {("Fit", PROFILE): 1, ("Gate", PROFILE): 1, ("Taint", PROFILE): 1}

    def test_a_contradiction_is_named(self) -> None:
        """check_invariants says what is wrong, not only that something is."""
        harness = Harness()
        harness.rejected("p", "Fit")
        pod = harness.queue.find("ns/p")
        assert pod is not None
        pod.unschedulable_plugins = frozenset()
        with pytest.raises(
            QueueInvariantError, match="ns/p is unschedulable without a rejector; the index by rejector"
        ):
            harness.queue.check_invariants()

    def test_a_wildcard_event_wakes_pods_that_nothing_else_would(self) -> None:
        """Deaf listens to nothing."""
        harness = Harness()
        info = harness.rejected("p", "Deaf")
        harness.event(NODE_ADD, at=9)
        assert harness.place(info) == "unschedulable"
        harness.event(UNSCHEDULABLE_TIMEOUT, at=9)
        assert harness.place(info) == "active"
