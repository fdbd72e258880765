"""Frozen records passed between the parts of llmbx and its plugins. Imports nothing of llmbx outside this folder."""

from .base import Date, Natural, Positive, Scalar, Seconds, Value
from .configuration import FINAL, ConfigurationProgram, ExpectedConfiguration, Permitted
from .evidence import Answer, Arrival, Check, Conflict, Damage, Evidence, Node, NotPossible
from .expected import Bounds, Expected
from .failure import Echo, Failure
from .figure import Figure
from .flops import Flops
from .handling import Handling, HandlingRequest
from .image import Environment, Image, ImageRequest
from .job import Job, JobStatus, Owner, RunGroup, SinceBoot
from .launch import JOB_NAME, PREFLIGHT, RANK_VARIABLES, Capture, Launch, Mount, Phase, Prefix, Wrapping
from .measure import Measure, Source, SourceRecord
from .profiler import Obstacle, Profiler
from .result import Figures, Result, Stability
from .section import Axis, Chart, Column, Fact, Point, Rule, Section, Series, Span, Table
from .settings import Option, Settings
from .site import Proposal
from .spec import CheckpointSpec, Finding, Peak, ProfileSpec, RunSpec, TraceSpec
from .step import Event, Prints, Step
from .workload import (
    Checkpointing,
    Convention,
    Example,
    Exports,
    ImageSource,
    ModelShape,
    Parallelism,
    Recipe,
    Reference,
    Row,
    Setting,
    Size,
    Workload,
)

__all__ = [
    "FINAL",
    "JOB_NAME",
    "PREFLIGHT",
    "RANK_VARIABLES",
    "Answer",
    "Arrival",
    "Axis",
    "Bounds",
    "Capture",
    "Chart",
    "Check",
    "CheckpointSpec",
    "Checkpointing",
    "Column",
    "ConfigurationProgram",
    "Conflict",
    "Convention",
    "Damage",
    "Date",
    "Echo",
    "Environment",
    "Event",
    "Evidence",
    "Example",
    "Expected",
    "ExpectedConfiguration",
    "Exports",
    "Fact",
    "Failure",
    "Figure",
    "Figures",
    "Finding",
    "Flops",
    "Handling",
    "HandlingRequest",
    "Image",
    "ImageRequest",
    "ImageSource",
    "Job",
    "JobStatus",
    "Launch",
    "Measure",
    "ModelShape",
    "Mount",
    "Natural",
    "Node",
    "NotPossible",
    "Obstacle",
    "Option",
    "Owner",
    "Parallelism",
    "Peak",
    "Permitted",
    "Phase",
    "Point",
    "Positive",
    "Prefix",
    "Prints",
    "ProfileSpec",
    "Profiler",
    "Proposal",
    "Recipe",
    "Reference",
    "Result",
    "Row",
    "Rule",
    "RunGroup",
    "RunSpec",
    "Scalar",
    "Seconds",
    "Section",
    "Series",
    "Setting",
    "Settings",
    "SinceBoot",
    "Size",
    "Source",
    "SourceRecord",
    "Span",
    "Stability",
    "Step",
    "Table",
    "TraceSpec",
    "Value",
    "Workload",
    "Wrapping",
]
