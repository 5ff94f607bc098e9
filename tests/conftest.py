from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One profile for every property test: no deadline, because CI machines stall, and derandomised,
# because a red CI must be red again on the next run.
settings.register_profile(
    "divea", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("divea")

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED
