"""Who owns which superpage, so that all gatherers finish together (003, sections 4.5 and 5.3).

Superpage j has the weight w_j, and gatherer i works on it at the rate r_ij. A partition gives every
superpage to one gatherer, whose time is then

    T_i = Σ_j w_j/r_ij              Partition I, when crossing links are a secondary concern
    T_i = Σ_j w_j/r_ij + B_i/c_i    Partition II: B_i links cross its border, c_i of which it handles a second

and the largest T_i, the *makespan*, is what all of this keeps small. Both problems are NP-hard.

    greedy, greedy_with_links   the paper's algorithms I and II
    improve                     moves and swaps off the largest T, helped by prices
    assign                      the whole of it, and what a leader calls: moves little when little is gained
    evaluate                    what a partition is worth, whoever made it
    round_lp                    the algorithm within a factor of 2 that the paper mentions
    lower_bound                 what no partition can beat
    complete_rates              a rate for every pair, from the few that were observed

Everything here is deterministic: the same arguments give the same partition.
"""

from gcs.core.partition.bound import Bound, lower_bound, round_lp
from gcs.core.partition.planning import assign, evaluate, greedy, greedy_with_links, improve
from gcs.core.partition.problem import FREE, Partition, Terms
from gcs.core.partition.rates import complete_rates

__all__ = [
    "FREE",
    "Bound",
    "Partition",
    "Terms",
    "assign",
    "complete_rates",
    "evaluate",
    "greedy",
    "greedy_with_links",
    "improve",
    "lower_bound",
    "round_lp",
]
