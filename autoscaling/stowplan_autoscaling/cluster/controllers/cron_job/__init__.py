"""The CronJob controller (pkg/controller/cronjob of Kubernetes v1.37.2)."""

from .controller import CronJobController
from .errors import ScheduleError
from .schedule import Schedule, parse_schedule

__all__ = ["CronJobController", "Schedule", "ScheduleError", "parse_schedule"]
