"""One YAML file -> typed records, every error with its path.

`load_config` reads and checks a file. `ConfigError.problems` has all problems at once. The rest of the program uses
`Config` and its parts. Each topic has one module, with its records and their checks.
"""

from __future__ import annotations

from extproc.bounds import Limits
from extproc.config.backends import Backend, ProviderKey
from extproc.config.checks import key_file_warnings, unpriced_attempts, warnings_of
from extproc.config.configuration import Config, EdgeTls, Ejection, Timeouts
from extproc.config.loading import ConfigError, load_config
from extproc.config.models import Attempt, ModelRule
from extproc.config.observability import Tracing
from extproc.config.prices import Price, Prices
from extproc.config.teams import LimitKey, LimitsService, ModelLimits, Team, TeamLimits
from extproc.config.tools import EventLabel, EventSettings, ToolSettings
from extproc.config.values import is_loopback, parse_address

__all__ = ["Attempt", "Backend", "Config", "ConfigError", "EdgeTls", "Ejection", "EventLabel", "EventSettings",
           "LimitKey", "Limits", "LimitsService", "ModelLimits", "ModelRule", "Price", "Prices", "ProviderKey", "Team",
           "TeamLimits", "Timeouts", "ToolSettings", "Tracing", "is_loopback", "key_file_warnings", "load_config",
           "parse_address", "unpriced_attempts", "warnings_of"]
