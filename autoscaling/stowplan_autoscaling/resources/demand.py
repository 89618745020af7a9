"""spec.demand: what is asked of the workloads over time, and what a unit of it costs."""

from __future__ import annotations

from typing import Annotated, Literal

from .base import NAME_PATTERN, Choice, FreeForm, FromList, Names, ObjectRef, Part, needed, option, parts
from .values import Bytes, Duration, Number, PositiveDuration, PositiveNumber, Share, Spread

_LOCAL = "Times count from the start of the run."

# ---- series --------------------------------------------------------------------------------------------------------


class Constant(Part):
    """The same all the time."""

    value: Number = needed("The rate.")


class Point(Part):
    """A value from a moment on."""

    at: Duration = needed(f"When. {_LOCAL}")
    value: Number = needed("The rate from then on.")


class Steps(Part):
    """A value until the next one. The first value also holds before its time."""

    points: Annotated[tuple[Point, ...], FromList] = needed("Ascending in time.", min_length=1, max_length=100_000)
    interpolate: bool = option(False, "Go from one value to the next in a straight line instead of at once.")


class Ramp(Part):
    """From one value to another in a straight line, constant before and after."""

    start: Number = needed("The rate before.")
    end: Number = needed("The rate after.")
    at: Duration = option("0s", f"When it begins to change. {_LOCAL}")
    over: PositiveDuration = needed("How long it takes.")


class Diurnal(Part):
    """A day that repeats: a cosine between its lowest and its highest value, with noise."""

    low: Number = needed("The lowest rate of the day, without noise.")
    high: Number = needed("The highest rate of the day, without noise.")
    peak: Duration = option("14h", "Time of day of the highest rate, by the virtual clock in UTC.")
    period: PositiveDuration = option("24h", "How long a day is.")
    noise: Share = option(
        0, "Standard deviation of the noise as a share of the value: each noiseStep has its own factor, never below 0."
    )
    noise_step: PositiveDuration = option("1m", "How long a factor of the noise holds.")


class CsvSeries(Part):
    """A recorded series: a file with a header, a column timestamp, time, t or ts, and a column value.

    A file with the columns ContextTokens and GeneratedTokens has one row per request instead, which become rates.
    """

    file: str = needed("The file, relative to this file; plain or gzip.", min_length=1, max_length=4096)
    value_column: str = option("", "Column of the value. Empty: value.", max_length=253)
    percent_of: PositiveNumber | None = option(None, "Values are percent of this. Absent: they are the rate.")
    interpolate: bool = option(False, "Go from one value to the next in a straight line instead of holding it.")
    begin: Duration = option("0s", "Leave out so much of the beginning.")
    length: PositiveDuration | None = option(None, "Use so much of it. Absent: all.")
    stretch: PositiveNumber = option(1, "Play it so many times as slowly.")
    repeat: bool = option(False, "Start over at the end. Otherwise the last value holds.")
    equal: Literal["Last", "Add"] = option("Last", "Which of several rows with the same time counts.")
    gaps: Literal["Refuse", "Hold"] = option(
        "Refuse", "What becomes of a hole of more than three usual steps: an error, or the value before it."
    )
    bin: PositiveDuration = option("1s", "Rows that are requests are counted in bins of this length.")
    context_cost: Number = option(0, "What a context token counts for; with both costs 0, requests are counted.")
    generated_cost: Number = option(0, "What a generated token counts for.")


class Spike(Part):
    """For a while, more than the series says."""

    at: Duration = needed(f"When it begins. {_LOCAL}")
    duration: PositiveDuration = needed("How long it lasts, rise and fall included.")
    rise: Duration = option("0s", "How long it takes to rise, and to fall again.")
    height: Number = needed("How much it adds, in the unit of the series.")


class Series(Choice):
    """A rate over time: exactly one of the shapes, then scaled, then with spikes."""

    CHOICES = ("constant", "steps", "ramp", "diurnal", "csv")

    constant: Constant | None = option(None, "The same all the time.")
    steps: Steps | None = option(None, "A value from each moment on.")
    ramp: Ramp | None = option(None, "From one value to another.")
    diurnal: Diurnal | None = option(None, "A day that repeats.")
    csv: CsvSeries | None = option(None, "A recorded series from a file.")
    per: PositiveDuration = option("1s", "Time that the values are counts of: 1s for requests per second.")
    scale: Number = option(1, "Multiplies all values.")
    spikes: Annotated[tuple[Spike, ...], FromList] = parts("Times with more than that.", max_length=256)


# ---- services ------------------------------------------------------------------------------------------------------


class StartUpUse(Part):
    """What a container uses until its application answers; spec.kubelet.startups says how long that takes."""

    cpu: Number = option(0, "Cores.")
    memory: Bytes = option(0, "Bytes beyond `memory`.")


class Warmup(Part):
    """What a new pod's work costs more."""

    duration: Duration = option("0s", "For how long after readiness; the factor falls to 1 in a straight line.")
    factor: PositiveNumber = option(1, "So many times as much at first, at least 1.")


class PodCosts(Part):
    """What a pod uses whatever it does."""

    idle_cpu: Number = option(0, "Cores that a pod uses without work.", alias="idleCPU")
    memory: Bytes = option(0, "Working set of a pod without work.")
    memory_growth_per_hour: Bytes = option(0, "By how much it grows: a leak, a cache.")
    startup: StartUpUse = option({}, "What it uses while it starts.")
    warmup: Warmup = option({}, "What its work costs more at first.")
    downstreams: Names = parts("Names of spec.downstreams that the work needs.", max_length=16)


class WebService(PodCosts):
    """Requests that somebody waits for. They are spread evenly over the ready pods, whatever each can do."""

    cpu_per_request: PositiveNumber = needed('Core seconds of a request: "12m" is 12 ms of one core.')
    wait_per_request: Duration = option("0s", "Time of a request that is no cpu: it waits for others.")
    memory_per_request: Bytes = option(0, "Bytes of each request under way.")
    threads: int | None = option(None, "Requests that a pod has in hand at once. Absent: any number.", ge=1)
    waiting: int | None = option(
        None, "Requests that may wait for a pod; more are dropped. Absent: as many as the timeout lets.", ge=0
    )
    timeout: PositiveDuration = option(
        "60s", "A request that would wait longer is dropped.", source="proxy_read_timeout of nginx and ingress-nginx"
    )


class WorkerService(PodCosts):
    """Messages that wait in one queue until a pod fetches them."""

    cpu_per_message: Number = option(0, 'Core seconds of a message: "1500m" is one and a half seconds of one core.')
    wait_per_message: Duration = option("0s", "Time of a message that is no cpu. It must take some time in all.")
    memory_per_message: Bytes = option(0, "Bytes of each message in hand.")
    concurrency: int = option(1, "Messages that a pod works on at once.", ge=1)
    initial_backlog: int = option(0, "Messages that wait at the start.", ge=0)


class RunTime(Part):
    """How long the pods of a Job run: log-normal around a median."""

    median: PositiveDuration = needed("Half of the pods take longer.")
    sigma: Spread = option(0, "Standard deviation of the logarithm; 0: all take the same time.")
    minimum: Duration = option("0s", "None is shorter.")
    maximum: Duration | None = option(None, "None is longer. Absent: no limit.")


class JobArrivals(Part):
    """Jobs that come at the rate of the series."""

    template: FreeForm = needed("The Job: metadata and spec as in jobTemplate of a CronJob (batch/v1).")
    namespace: str = option("default", "Namespace of the Jobs.", min_length=1, max_length=63)
    arrivals: Literal["Poisson", "Even"] = option(
        "Poisson", "Poisson: independent of each other. Even: at equal distances where the rate is constant."
    )
    run_time: RunTime = needed("How long each pod runs with the cpu it wants, once its containers have started.")
    cpu: Number | None = option(None, "Cores that a running pod wants. Absent: what it requests.")
    wait: Share = option(0, "Share of the run time that uses no cpu; it comes first.")
    memory: Bytes | None = option(None, "Working set of a running pod. Absent: what it requests.")


class TraceReplay(Part):
    """A recording of SimKube (version 2): its objects come, change and go as they did."""

    file: str = needed("The trace, relative to this file.", min_length=1, max_length=4096)
    begin: Duration = option("0s", f"When the first event happens. {_LOCAL}")
    stretch: PositiveNumber = option(1, "Make the distances of the events so many times as long.")


class Demand(Choice):
    """One source of work. Several may have the same target; they add up."""

    CHOICES = ("web", "worker", "jobs", "trace")

    name: str = needed("Name for results and metrics.", pattern=NAME_PATTERN, max_length=63)
    target: ObjectRef | None = option(None, "The workload whose pods do the work; for web and worker.")
    series: Series | None = option(None, "How much comes: requests, items or Jobs; for all but trace.")
    web: WebService | None = option(None, "Requests that somebody waits for.")
    worker: WorkerService | None = option(None, "Items from a queue.")
    jobs: JobArrivals | None = option(None, "Jobs that are made.")
    trace: TraceReplay | None = option(None, "Objects of a recording.")


# ---- downstream ----------------------------------------------------------------------------------------------------


class ConnectionPool(Part):
    """Connections of a database: every pod opens some, the server grants a number in all, those beyond get no work."""

    pool: int = needed("Connections that are granted.", ge=1)
    per_pod: int = needed("Connections that a pod opens and keeps.", ge=1)
    held: PositiveDuration = needed("Time for which a request holds a connection.")


class CallQuota(Part):
    """Calls per time that somebody else's API allows."""

    limit: PositiveNumber = needed("Calls.")
    per: PositiveDuration = option("1s", "In this time.")
    calls: PositiveNumber = option(1, "Calls that one request needs.")


class TopicPartitions(Part):
    """Partitions of a topic: a pod without one has nothing to do."""

    count: int = needed("Number of partitions.", ge=1)


class Downstream(Choice):
    """Something behind the pods that caps what they can do, however many there are."""

    CHOICES = ("connections", "quota", "partitions")

    name: str = needed("Name that demand refers to.", pattern=NAME_PATTERN, max_length=63)
    connections: ConnectionPool | None = option(None, "Connections of a database.")
    quota: CallQuota | None = option(None, "Calls per time.")
    partitions: TopicPartitions | None = option(None, "Partitions of a topic.")
