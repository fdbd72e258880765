"""Learn from published step times: Gaussian-process regression of log step time over log seconds by the terms."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..case import Case
from ..cost.roofline import NAMES
from .features import Array, Features, features
from .kernel import EXPERTS_TERMS, NOISE, OF_TERMS, Pairs, covariance, variances

OUTLIER = 2.5
"""Standard deviations beyond which a published figure is given a larger noise, so that it misleads less."""
ROUNDS = 4


class Posterior:
    """What figures say about the terms. `coefficients` and `scales` are the shipped calibration.

    `known` and `base`, the features of the cases and their covariance, are computed if they are not given, as are the
    `outliers`: the variance of the noise of each figure with a larger one, by its position.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, sections 2.2 and 5.4.2.
    """

    def __init__(
        self, cases: Sequence[Case], seconds: Sequence[float], coefficients: Mapping[str, float],
        scales: Mapping[str, float], known: Features | None = None, base: Array | None = None,
        outliers: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.coefficients, self.scales = coefficients, scales
        self.known = features(cases, coefficients) if known is None else known
        self.residuals = np.log(np.array(seconds)) - np.log(self.known.total)
        self._base = covariance(self.known, self.known, scales) if base is None else base
        self.noise = np.full(len(cases), scales[NOISE] ** 2)
        for index, variance in (outliers or {}).items():
            self.noise[int(index)] = variance
        for _ in range(ROUNDS if outliers is None else 0):
            self.noise = self._widened(*self._without_each())
        self.inverse = np.linalg.inv(self._base + np.diag(self.noise))
        self.weights = self.inverse @ self.residuals

    def trusting(self, index: int) -> Posterior:
        """The same with the smallest noise for one figure, even if the others do not expect it."""
        least = self.scales[NOISE] ** 2
        if self.noise[index] <= least:
            return self
        copied = copy.copy(self)
        copied.noise = self.noise.copy()
        copied.noise[index] = least
        copied.inverse = self._with_noise(index, least)
        copied.weights = copied.inverse @ self.residuals
        return copied

    def _with_noise(self, index: int, variance: float) -> Array:
        """The inverse with another noise of one figure (Sherman and Morrison), in a hundredth of the time."""
        column, change = self.inverse[:, index], variance - self.noise[index]
        return np.asarray(self.inverse - np.outer(column, column) * (change / (1 + change * column[index])))

    def outliers(self) -> dict[str, float]:
        """The figures with a larger noise, see the class."""
        least = self.scales[NOISE] ** 2
        return {str(i): float(noise) for i, noise in enumerate(self.noise) if noise > least * (1 + 1e-9)}

    def _without_each(self) -> tuple[Array, Array]:
        """Error and variance of each figure as predicted by all others, without its own noise."""
        inverse = np.linalg.inv(self._base + np.diag(self.noise))
        variance = 1 / np.diag(inverse)
        return (inverse @ self.residuals) * variance, variance - self.noise

    def _widened(self, errors: Array, variance: Array) -> Array:
        least = self.scales[NOISE] ** 2
        return np.maximum(least, np.asarray((errors / OUTLIER) ** 2) - variance)

    def predict(self, cases: Sequence[Case]) -> tuple[Array, Array]:
        """Seconds of a step, and the standard deviation of their logarithm, for each configuration."""
        described = features(cases, self.coefficients)
        shared = covariance(described, self.known, self.scales)
        mean = np.exp(np.log(described.total) + shared @ self.weights)
        explained = ((shared @ self.inverse) * shared).sum(axis=1)
        unexplained = variances(described, self.scales) - explained
        return mean, np.sqrt(np.maximum(unexplained, 0.0) + self.scales[NOISE] ** 2)

    def means(self, cases: Features) -> Array:
        """Seconds of a step alone, which is faster for many configurations."""
        return np.asarray(np.exp(np.log(cases.total) + covariance(cases, self.known, self.scales) @ self.weights))

    def terms(self, case: Case) -> dict[str, float]:
        """The seconds of each term; their sum is the prediction.

        What the figures say about each coefficient is applied first; what they say about the whole step is then spread
        over all terms.
        """
        described = features([case], self.coefficients)
        change = np.zeros(len(NAMES))
        pairs = Pairs(described, self.known)
        common = {name: pairs.common(*names)[0] for name, names in OF_TERMS.items()}
        common[EXPERTS_TERMS] = pairs.experts[0] * pairs.common("stack")[0]
        for name, shared in common.items():
            change += self.scales[name] ** 2 * ((shared * self.weights) @ self.known.shares)
        seconds = described.seconds[0] * np.exp(change)
        seconds *= float(self.means(described)[0]) / seconds.sum()
        return dict(zip(NAMES, map(float, seconds), strict=True))

    def without(self, groups: Sequence[Hashable]) -> tuple[Array, Array]:
        """Each figure as predicted by the figures of all other groups: (log error, standard deviation).

        The log error is that of the prediction over the figure.
        """
        members: dict[Hashable, list[int]] = defaultdict(list)
        for index, group in enumerate(groups):
            members[group].append(index)
        errors, deviations = np.zeros(len(groups)), np.zeros(len(groups))
        for inside in members.values():
            block = np.linalg.inv(self.inverse[np.ix_(inside, inside)])
            errors[inside] = -block @ self.weights[inside]
            variance = np.diag(block) - self.noise[inside] + self.scales[NOISE] ** 2
            deviations[inside] = np.sqrt(variance)
        return errors, deviations
