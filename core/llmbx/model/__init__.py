"""Frozen records passed between the parts of llmbx and its plugins. Imports nothing of llmbx outside this folder."""

from .base import Date, Natural, Positive, Scalar, Seconds, Value
from .configuration import FINAL, ConfigurationProgram, ExpectedConfiguration, Permitted, Proposal
from .evidence import Answer, Arrival, Check, Conflict, Damage, Evidence, Node, NotPossible
from .failure import Echo, Failure
from .finding import Finding
from .flops import Flops
from .image import Environment, Image, ImageRequest
from .job import Job, JobStatus, Owner, RunGroup, SinceBoot
from .launch import JOB_NAME, PREFLIGHT, RANK_VARIABLES, Capture, Launch, Mount, Phase, Prefix, Wrapping
from .layers import ModelShape
from .measure import Measure, Source, SourceRecord
from .observed import Observed
from .parts import Checkpointing, Convention, ImageSource, Parallelism
from .profiler import Figure, Obstacle, Profiler
from .result import Bounds, Expected, Figures, Result, Stability
from .section import Axis, Chart, Column, Fact, Point, Rule, Section, Series, Span, Table
from .settings import Handling, HandlingRequest, Option, Settings
from .spec import CheckpointSpec, Peak, ProfileSpec, RunSpec, TraceSpec
from .step import Event, Prints, Step
from .workload import Example, Exports, Recipe, Reference, Row, Setting, Size, Workload
