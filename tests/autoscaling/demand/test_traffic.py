"""What the samples of a run say of services, made for all at once, is what each says of itself."""

from __future__ import annotations

import math

import numpy as np

from stowplan_autoscaling.demand import Fleet, PodColumns, Service, ServiceModel, constant


def test_the_traffic_of_all_services_is_that_of_each_to_the_last_bit() -> None:
    drawn = np.random.default_rng(3)
    fleet = Fleet()
    services = [
        Service(
            ServiceModel(cpu_per_request=0.01, wait_per_request=0.02, threads=8), constant(float(load)), fleet=fleet
        )
        for load in drawn.uniform(0, 300, 12).round(3)
    ]
    seen = 0
    for turn in range(6):
        for service in services:
            size = int(drawn.integers(0, 150))
            ready = drawn.random(size) < (1.0 if service.number % 2 else 0.7)
            names = tuple(f"pod-{number}" for number in range(size))
            service.set_pods(PodColumns(names, ready=ready, started=np.zeros(size), ready_since=np.zeros(size)))
            service.grant(drawn.uniform(0.0, 1.0, size))
        fleet.advance(fleet.all(), 10.0 * (turn + 1))
        for service in services:
            response = service.response
            assert service.traffic.rate == float(response.rate.sum())
            assert service.traffic.mean == response.mean or math.isnan(response.mean)
            assert math.isnan(service.traffic.mean) == math.isnan(response.mean)
            seen += service.traffic.rate > 0
    assert seen > 20
