from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One profile for all property tests. There is no deadline because CI machines are sometimes slow, and the
# examples are the same in every run, so that a failure can be repeated.
settings.register_profile(
    "divea", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("divea")

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real data sets; a test that needs it is skipped on machines without it."""
    if not SHARED.is_dir():
        pytest.skip("the real data sets (../shared/data) are not on this machine")
    return SHARED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh", action="store_true", help="write what tutorials and notebooks print into them"
    )
