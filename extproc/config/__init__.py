"""One YAML file -> typed records, every error with its path.

`load_config` reads, `Config` and its parts are what the rest of the program uses, `ConfigError.problems` names all
that is wrong at once.
"""

from __future__ import annotations

from extproc.bounds import Limits
from extproc.config.addresses import is_loopback, parse_address
from extproc.config.backend_records import Backend, ProviderKey
from extproc.config.limits_records import LimitKey, LimitsService, ModelLimits, TeamLimits
from extproc.config.loading import ConfigError, load_config
from extproc.config.observing_records import Tracing
from extproc.config.records import Attempt, Config, ModelRule, Team, Timeouts
from extproc.config.routing_records import EdgeTls, Ejection
from extproc.config.tool_records import ToolSettings

__all__ = ["Attempt", "Backend", "Config", "ConfigError", "EdgeTls", "Ejection", "LimitKey", "Limits", "LimitsService",
           "ModelLimits", "ModelRule", "ProviderKey", "Team", "TeamLimits", "Timeouts", "ToolSettings", "Tracing",
           "is_loopback", "load_config", "parse_address"]
