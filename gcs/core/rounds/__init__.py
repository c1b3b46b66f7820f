"""Rounds: how a leader plans, from the last plan's state and what gatherers report. (003, section 5.)

replan     the whole of it
Report     what a gatherer says when the leader asks
Terms      by which rules to plan
Outcome    the plan, its forecast, the state for the next leader, what to count in, what to probe
"""

from gcs.core.rounds.records import Forecast, Outcome, Report, Terms
from gcs.core.rounds.replan import replan

__all__ = ["Forecast", "Outcome", "Report", "Terms", "replan"]
