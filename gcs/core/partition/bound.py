"""What no partition can beat, by linear programming, and the rounding of its solution.

The linear program lets superpages be divided: minimise T with Σ_i x_ij = 1 and Σ_j c_ij x_ij ≤ T. Nobody
who finishes by T holds a superpage that alone takes longer, so pairs with c_ij > T can be left out. The
smallest T that is consistent with itself is the bound of Lenstra, Shmoys and Tardos (*Approximation
algorithms for scheduling unrelated parallel machines*, 1990); their rounding is at most twice that.

The program has k·m columns, of which nearly all are useless. It starts with the few that prices suggest and
takes in what the solution's own prices show to be missing, until none is. The bound that is returned is
computed from those prices, not taken from the solver, so it holds whatever the solver's tolerances are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import highspy
import numpy as np
import numpy.typing as npt

from gcs.core.partition import prices as pricing
from gcs.core.partition.greedy import place
from gcs.core.partition.planning import improved
from gcs.core.partition.prices import Prices
from gcs.core.partition.problem import FREE, FloatArray, IntArray, Partition, Problem, Terms, problem

LP_CELLS: Final = 1_000_000
"""Up to this many pairs, k·m, the linear program is solved; beyond, the bound is that of the prices alone."""
_PRICE_ROUNDS: Final = 300
_COLUMNS: Final = 3
_TURNS: Final = 60
_EXACT: Final = 1e-6
_HOPELESS: Final = 1e12
"""A pair that costs so many times the bound is left out: the solver cannot reckon with it, and as all the
superpages together take at most k times the bound where they take least, the best partition has none."""
_GOLDEN: Final = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Bound:
    """A makespan that no partition can beat; `exact` when it is the linear program's own optimum."""

    value: float
    exact: bool


def lower_bound(
    weights: npt.ArrayLike, rates: npt.ArrayLike, *, terms: Terms = FREE, cells: int = LP_CELLS
) -> Bound:
    """A lower bound on the makespan, for both problems; caps and links, which only add to it, are left out.

    With more than `cells` pairs the linear program is not solved, and the bound is that of 300 rounds of
    price finding: valid too, and typically within 0.1% of the linear program's.
    """
    given = problem(weights, rates, terms)
    if not given.longest_alone:
        return Bound(0.0, exact=True)
    if given.costs.size > cells:
        found = pricing.find(given.costs, rounds=_PRICE_ROUNDS)
        return Bound(max(found.bound, given.longest_alone), exact=False)
    deadline, solution = _tightest(given)
    return Bound(deadline, exact=solution.exact)


def round_lp(weights: npt.ArrayLike, rates: npt.ArrayLike, *, terms: Terms = FREE) -> Partition:
    """The rounded solution of the linear program: at most twice `lower_bound`, and so twice the optimum.

    A vertex of the program divides at most k superpages, and each of those goes to a gatherer of its own
    among those that share it. Caps are not part of the program: where they are given, improve the result.
    """
    given = problem(weights, rates, terms)
    if not given.longest_alone:
        return given.partition(given.costs.argmin(axis=1))
    _, solution = _tightest(given)
    return given.partition(_rounded(solution, given))


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """Shares x of pairs (superpage, gatherer), what the prices prove, and whether that is the optimum."""

    superpage: IntArray
    gatherer: IntArray
    share: FloatArray
    bound: float
    exact: bool


def _tightest(given: Problem) -> tuple[float, _Solution]:
    """The smallest deadline that is consistent with itself, and the divided partition that keeps it.

    Between two neighbouring costs the program with a deadline is the same, so only costs have to be tried.
    """
    costs, found = given.costs, pricing.find(given.costs, rounds=_PRICE_ROUNDS)
    best = improved(given, given.partition(place(given)), found)
    whole = _solve(costs, found, best.owner)
    first = max(whole.bound, given.longest_alone)
    if (costs[whole.superpage, whole.gatherer] <= first).all():
        return first, whole
    levels = np.append(first, np.unique(costs[(costs > first) & (costs <= best.makespan)]))

    low, high, middle = 0, len(levels) - 1, 0
    solution = None
    while low < high:
        tried = _solve_within(costs, levels[middle], best.owner)
        if tried.bound < levels[middle + 1]:
            high, solution = middle, tried
        else:
            low = middle + 1
        middle = (low + high) // 2
    solution = solution or _solve_within(costs, levels[low], best.owner)
    return max(float(levels[low]), solution.bound), solution


def _solve_within(costs: FloatArray, deadline: float, seed: IntArray) -> _Solution:
    """Solve the program without the pairs that alone take longer than a deadline."""
    left = np.where(costs <= deadline, costs, np.inf)
    return _solve(left, pricing.find(left, rounds=_PRICE_ROUNDS // 3), seed)


def _solve(costs: FloatArray, found: Prices, seed: IntArray) -> _Solution:
    """Solve the program over pairs of finite cost, starting from the pairs of a seed and of prices."""
    m, k = costs.shape
    unit = max(found.bound, float(costs.min(axis=1).sum()) / k)
    possible = costs <= _HOPELESS * unit
    costs = np.where(possible, costs, np.inf)
    master = _Master(np.where(possible, costs / unit, 0.0))
    master.add(_cheapest(costs * found.each, _COLUMNS))
    seeded = np.flatnonzero(possible[np.arange(m), seed])
    master.add(seeded * k + seed[seeded])
    bound, exact = 1.0, False
    for _ in range(_TURNS):
        solved = master.run()
        if solved is None:
            break
        objective, each, worth = solved
        priced = np.where(possible, master.costs * each, np.inf)
        bound = max(bound, float(priced.min(axis=1).sum()))
        exact = objective - bound <= _EXACT * objective
        wanted = _cheapest(priced, _COLUMNS)
        fresh = wanted[priced.flat[wanted] < worth[wanted // k] - 1e-12]
        if exact or not len(fresh):
            break
        master.add(fresh)
    pairs, share = master.shares()
    return _Solution(pairs // k, pairs % k, share, bound * unit, exact)


def _cheapest(priced: FloatArray, count: int) -> IntArray:
    """The pairs, as j·k + i, of each superpage with the gatherers where it is cheapest and possible."""
    m, k = priced.shape
    count = min(count, k)
    # Among equals, as with equal gatherers, each superpage should come with other gatherers than the next.
    spread = 1 + 1e-6 * (np.arange(m * k) * _GOLDEN % 1).reshape(m, k)
    gatherers = np.argpartition(priced * spread, count - 1, axis=1)[:, :count]
    pairs: IntArray = (np.arange(m)[:, np.newaxis] * k + gatherers).ravel()
    return pairs[np.isfinite(priced.ravel()[pairs])]


class _Master:
    """The program over the pairs added so far: k rows Σ_j c_ij x_ij − T ≤ 0, then m rows Σ_i x_ij = 1."""

    def __init__(self, costs: FloatArray) -> None:
        self.costs = costs
        m, k = costs.shape
        self._pairs = np.empty(0, np.intp)
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        self._solver.silent()
        self._solver.setOptionValue("threads", 1)
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = 1, k + m
        program.col_cost_, program.col_lower_ = np.ones(1), np.zeros(1)
        program.col_upper_ = np.full(1, np.inf)
        program.row_lower_ = np.concatenate([np.full(k, -np.inf), np.ones(m)])
        program.row_upper_ = np.concatenate([np.zeros(k), np.ones(m)])
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = np.array([0, k], np.int32)
        program.a_matrix_.index_ = np.arange(k, dtype=np.int32)
        program.a_matrix_.value_ = np.full(k, -1.0)
        self._solver.passModel(program)

    def add(self, pairs: IntArray) -> None:
        """Take in more pairs; those already there are passed over."""
        k = self.costs.shape[1]
        fresh = np.setdiff1d(pairs, self._pairs)
        n = len(fresh)
        index = np.stack([fresh % k, k + fresh // k], axis=1).astype(np.int32).ravel()
        value = np.stack([self.costs.ravel()[fresh], np.ones(n)], axis=1).ravel()
        start = np.arange(0, 2 * n, 2, dtype=np.int32)
        self._solver.addCols(n, np.zeros(n), np.zeros(n), np.full(n, np.inf), 2 * n, start, index, value)
        self._pairs = np.concatenate([self._pairs, fresh])

    def run(self) -> tuple[float, FloatArray, FloatArray] | None:
        """The optimum, the price of a second of each gatherer, and what it is worth to place each superpage.

        None if the solver gave up, as it may over costs that are many orders of magnitude apart.
        """
        k = self.costs.shape[1]
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        duals = np.array(self._solver.getSolution().row_dual)
        each = np.maximum(-duals[:k], 0.0)
        return self._solver.getInfo().objective_function_value, each / each.sum(), duals[k:]

    def shares(self) -> tuple[IntArray, FloatArray]:
        """The pairs with a positive share, and their shares; none if the solver has no solution of them."""
        share = np.array(self._solver.getSolution().col_value)[1:]
        if len(share) != len(self._pairs):
            return np.empty(0, np.intp), np.empty(0)
        used = share > 1e-9
        return self._pairs[used], share[used]


def _rounded(solution: _Solution, given: Problem) -> IntArray:
    """Undivided superpages stay; the divided ones are matched with gatherers, one to each at most."""
    owner = place(given)
    order = np.argsort(solution.share, kind="stable")
    # The largest share is written last: right for the undivided, and a fallback for the others.
    owner[solution.superpage[order]] = solution.gatherer[order]
    pieces = np.bincount(solution.superpage, minlength=given.superpages)
    divided = np.flatnonzero(pieces > 1).tolist()
    sharing = {j: solution.gatherer[solution.superpage == j].tolist() for j in divided}
    for gatherer, superpage in _matching(sharing).items():
        owner[superpage] = gatherer
    return owner


def _matching(sharing: dict[int, list[int]]) -> dict[int, int]:
    """A superpage per gatherer, such that every superpage has one of the gatherers that share it."""
    taken: dict[int, int] = {}

    def settle(superpage: int, asked: set[int]) -> bool:
        for gatherer in sharing[superpage]:
            if gatherer in asked:
                continue
            asked.add(gatherer)
            if gatherer not in taken or settle(taken[gatherer], asked):
                taken[gatherer] = superpage
                return True
        return False

    for superpage in sharing:
        settle(superpage, set())
    return taken
