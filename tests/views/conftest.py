import pytest
from tests.views.browser import started


@pytest.fixture(scope="session")
def session(tmp_path_factory):
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def browser(session):
    session.devtools("Emulation.clearDeviceMetricsOverride")
    session.devtools("Emulation.setEmulatedMedia", media="", features=[])
    session.complaints()
    yield session
    assert session.complaints() == []
