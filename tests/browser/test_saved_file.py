"""The page in one file, opened from the disk: the tests of the page, and its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.test_every_page import *
from tests.browser.test_framework_op_stats import *
from tests.browser.test_kernel_stats import *
from tests.browser.test_memory_profile import *
from tests.browser.test_model_views import *
from tests.browser.test_overview_page import *
from tests.browser.test_pod_viewer import *
from tests.browser.test_trace_viewer import *
from tests.browser.test_trace_stretches import *
from tests.browser.test_into_the_timeline import *
from tests.browser.test_findings import *
from tests.browser.test_input_pipeline_analyzer import *
from tests.browser.test_roofline_model import *
from tests.browser.test_hostile_names import *
from tests.browser.test_phone import *
from tests.browser.test_readable import *
from tests.browser.test_trace_arranged import *
from tests.browser.test_same_words import *
from tests.browser.test_accessibility import *
from tests.support.sites.browser import whole_server
from tests.support.sites.saved import saved_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.sites.saved import SavedFiles


@pytest.fixture(scope="session")
def server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SavedFiles]:
    del chromium
    with whole_server(tmp_path_factory.mktemp("logs")) as found:
        yield saved_files(found, tmp_path_factory.mktemp("files"))
