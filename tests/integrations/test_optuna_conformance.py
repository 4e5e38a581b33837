"""Optuna's own conformance suites for samplers, as they are."""

import pytest
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from nestbo.integrations.optuna import NestedSampler


class TestNestedSampler(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """What Optuna demands of a relative sampler for one objective."""

    @pytest.fixture
    def sampler(self):
        """How the suites make a sampler."""
        return lambda: NestedSampler(seed=0)
