"""How large the web is, how long crawling it takes, and how far a crawl has come (004, sections 5.2 and 5.3).

What the paper gets wrong is here twice: as printed, to check it against the paper, and corrected.

    pending, growth, peak       the size of the pending list, as the paper models it; and its slips
    whole_web                   the paper's estimates for four thousand million pages, beside corrected ones
    halfway                     are we halfway there? from what a crawl has seen so far
    needs                       what so many pages take, from what a crawl has measured
"""

from gcs.core.estimate.needs import Measured, Need, needs
from gcs.core.estimate.pending_list import (
    Peak,
    growth,
    growth_as_printed,
    peak,
    peak_as_printed,
    pending,
    pending_as_printed,
)
from gcs.core.estimate.progress import Progress, halfway
from gcs.core.estimate.web import (
    Estimate,
    bandwidth,
    crawl_rate,
    pages_of_hosts,
    participants,
    ranking_s,
    storage_bytes,
    whole_web,
)

__all__ = [
    "Estimate",
    "Measured",
    "Need",
    "Peak",
    "Progress",
    "bandwidth",
    "crawl_rate",
    "growth",
    "growth_as_printed",
    "halfway",
    "needs",
    "pages_of_hosts",
    "participants",
    "peak",
    "peak_as_printed",
    "pending",
    "pending_as_printed",
    "ranking_s",
    "storage_bytes",
    "whole_web",
]
