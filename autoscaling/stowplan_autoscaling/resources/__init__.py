"""The kind Simulation (stowplan.io/v1alpha1): its models, its schema, and how it is read.

loaded = load_simulation("simulation.yaml")      # InputError: one line with the path in the YAML
loaded.spec                                      # the models: durations in nanoseconds, quantities as numbers
loaded.objects, loaded.scheduler, loaded.loads   # what it names, read and checked
"""

from __future__ import annotations

from .autoscaler_checks import autoscaler_of, scaled_object_of
from .fault_checks import fault_nodes
from .load import LoadedSimulation, load_simulation, parse_simulation
from .loads import Load
from .manifests import Manifest
from .schema import reference_text, schema_text, simulation_schema
from .simulation import API_VERSION, KIND, Simulation, SimulationSpec
from .typed import typed_object
from .values import format_duration, parse_duration

__all__ = [
    "API_VERSION",
    "KIND",
    "Load",
    "LoadedSimulation",
    "Manifest",
    "Simulation",
    "SimulationSpec",
    "autoscaler_of",
    "fault_nodes",
    "format_duration",
    "load_simulation",
    "parse_duration",
    "parse_simulation",
    "reference_text",
    "scaled_object_of",
    "schema_text",
    "simulation_schema",
    "typed_object",
]
