"""One YAML file -> typed records, every error with its path.

`load_config` reads, `Config` and its parts are what the rest of the program uses, `ConfigError.problems` names all
that is wrong at once.
"""

from __future__ import annotations

from extproc.config.loading import ConfigError, load_config
from extproc.config.records import (
    Attempt,
    Backend,
    Config,
    ModelRule,
    Team,
    TeamLimits,
    Timeouts,
    ToolSettings,
    is_loopback,
    parse_address,
)
from extproc.limits import Limits

__all__ = ["Attempt", "Backend", "Config", "ConfigError", "Limits", "ModelRule", "Team", "TeamLimits", "Timeouts",
           "ToolSettings", "is_loopback", "load_config", "parse_address"]
