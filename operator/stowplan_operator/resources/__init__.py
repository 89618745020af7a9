"""Stowplan's custom resources: their models, what is wrong with one, and what a worker is told to run.

profile = read_profile(object)                  # from the API server or a file; ProfileError
document = compile_profile(profile)             # for KubeSchedulerConfiguration's profiles; ProfileError
problems = check_together(profiles)             # what profiles say about each other, by name
configuration = compile_group(profiles)         # the whole document for a group of workers
"""

from __future__ import annotations

from .compile import HASH_VERSION, compile_group, compile_profile, profile_hash
from .documents import configuration_of
from .envelope import API_VERSION, CATEGORY, GROUP, VERSION, Condition, ObjectMeta
from .problems import ProfileError, ProfileProblem, summary
from .profile_status import CONDITIONS, LastGood, SchedulerProfileStatus, WorkerStatus
from .reading import read_profile
from .scheduler_profile import SchedulerProfile, SchedulerProfileSpec
from .together import check_together

__all__ = [
    "API_VERSION",
    "CATEGORY",
    "CONDITIONS",
    "GROUP",
    "HASH_VERSION",
    "VERSION",
    "Condition",
    "LastGood",
    "ObjectMeta",
    "ProfileError",
    "ProfileProblem",
    "SchedulerProfile",
    "SchedulerProfileSpec",
    "SchedulerProfileStatus",
    "WorkerStatus",
    "check_together",
    "compile_group",
    "compile_profile",
    "configuration_of",
    "profile_hash",
    "read_profile",
    "summary",
]
